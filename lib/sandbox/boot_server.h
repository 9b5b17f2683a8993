// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Rank 0's side of the boot socket (boot_socket.h). A rank is one connection: one line
// of JSON says who it is, the answer is "ok" or why not; then it lasts as long as the
// rank does. At its end rank 0 says with which status to exit.
#pragma once

#include "lib/result.h"
#include "lib/sandbox/timer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace fluxdat::sandbox {

// How the other ranks introduce themselves.
struct BootHello {
    std::uint32_t rank;
    pid_t pid;
    std::string socket; // path for the rank's local-uri; empty: in the rundir
    std::string grants; // its FLUX_DAT_GRANTS; empty: none
};
std::string format_hello(const BootHello& hello);
Result<BootHello> parse_hello(std::string_view line);

// What rank 0 says, a line each.
constexpr std::string_view boot_ok = "ok";
constexpr std::string_view boot_error = "error "; // and the message
constexpr std::string_view boot_exit = "exit ";   // and the status

class BootServer
{
public:
    struct Events {
        // A rank has come; an error is told to it, and it exits.
        std::function<Result<>(const BootHello&)> joined;
        // A rank that had joined is gone.
        std::function<void(std::uint32_t rank)> lost;
    };
    // Takes the listening socket over.
    BootServer(uv_loop_t* loop, int listening_fd, Events events);
    ~BootServer();
    BootServer(const BootServer&) = delete;
    BootServer& operator=(const BootServer&) = delete;

    // Tells all ranks to exit with this status.
    void dismiss(int status);

private:
    class Member;
    void accept();

    Events events_;
    std::unique_ptr<uv_pipe_t, HandleDeleter<uv_pipe_t>> socket_;
    std::map<Member*, std::unique_ptr<Member>> members_;
};

} // namespace fluxdat::sandbox
