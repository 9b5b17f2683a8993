// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Subprocesses on each rank, for the instance's owner: RFC 42, as the broker's "rexec".
#pragma once

#include "lib/sandbox/output.h"
#include "lib/sandbox/process.h"
#include "lib/sandbox/router.h"

#include <list>

namespace fluxdat::sandbox {

class Rexec
{
public:
    struct Options {
        bool multi_user; // then rank 0 takes requests from its own clients only
        std::string cwd; // of the broker
        std::function<std::string(std::uint32_t rank)> local_uri;
    };
    Rexec(Router& router, Children& children, Options options);
    // Kills what still runs.
    ~Rexec();

    // The rank has crashed: its subprocesses with it.
    void rank_lost(std::uint32_t rank);

private:
    struct Subprocess;

    bool allowed(const Request& request);
    void exec(const Request& request);
    void write(const Request& request);
    void kill(const Request& request);
    void wait(const Request& request);
    void list(const Request& request);

    void output(Subprocess& subprocess, Stream stream, std::string_view data);
    void send_output(Subprocess& subprocess, Stream stream, std::string_view data,
                     bool eof);
    void check_done(Subprocess& subprocess);
    Subprocess* find(const Request& request);
    void forget(const Departure& departure);

    Router& router_;
    Children& children_;
    Options options_;
    std::list<std::shared_ptr<Subprocess>> subprocesses_;
};

} // namespace fluxdat::sandbox
