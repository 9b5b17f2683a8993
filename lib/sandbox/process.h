// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Child processes of the engine: job tasks, subprocesses of rexec, initial programs.
//
// Not uv_spawn(): it can set neither a process group nor a parent death signal, and the
// engine must leave no process behind even when it is killed with SIGKILL.
#pragma once

#include "lib/result.h"
#include "lib/sandbox/timer.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unordered_map>
#include <vector>

namespace fluxdat::sandbox {

// "NAME=VALUE", as execve(2) takes it.
using Environment = std::vector<std::string>;

// Sets NAME to VALUE, in place of what it was.
void set_variable(Environment& environment, std::string_view name,
                  std::string_view value);
void unset_variable(Environment& environment, std::string_view name);
// Empty when there is none.
std::string_view variable(const Environment& environment, std::string_view name);

struct Command {
    std::vector<std::string> argv; // at least one; looked up in PATH of `environment`
    Environment environment;
    std::string cwd; // empty: that of the engine. When it cannot be entered: /tmp
    bool own_group = true;
    bool inherit_stdio = false; // the engine's own stdin, stdout, stderr; no events
    int inherited_fd = -1;      // becomes file descriptor 3 of the child
};

enum class Stream { out = 1, err = 2 };
const char* stream_name(Stream stream);

class Process;

struct ProcessEvents {
    // What the child wrote; empty at the end of that stream, exactly once for each.
    std::function<void(Stream, std::string_view)> output;
    // The wait status, exactly once. Output may still follow.
    std::function<void(int status)> exited;
};

// A started child. Destroying it stops the events, and does not end the child.
class Process : public std::enable_shared_from_this<Process>
{
public:
    ~Process();
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    static constexpr std::size_t stdin_buffer_max = 4u << 20; // bytes, as Flux

    pid_t pid() const { return pid_; }
    bool running() const { return running_; }
    // To the child's process group where it has its own. Nothing once it was reaped.
    void kill(int signum);

    // Queues bytes for the child's stdin. What exceeds `most` while the child does not
    // read is dropped.
    void write(std::string_view data, std::function<void(std::size_t)> written = {},
               std::size_t most = stdin_buffer_max);
    void close_stdin();
    std::size_t stdin_pending() const;

    // No more output events: for a child that is gone while others hold its pipes.
    void abandon_output();

private:
    friend class Children;
    struct Pipe;
    Process() = default;

    pid_t pid_ = -1;
    bool group_ = false;
    bool running_ = true;
    class Children* children_ = nullptr;
    ProcessEvents events_;
    Pipe* stdin_ = nullptr; // freed by libuv's close callback
    Pipe* outputs_[2] = {};
};

// All children of this process. One for a program: it waits for any child.
class Children
{
public:
    explicit Children(uv_loop_t* loop);
    ~Children();
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;

    // Starts a command. The error's errnum is that of execve(2): ENOENT, EACCES, …
    Result<std::shared_ptr<Process>> start(const Command& command,
                                           ProcessEvents events);

    // Waits until there is no process under this one, its orphans included: those get
    // SIGTERM now, and SIGKILL when the time is over. Calls back from the loop.
    void drain(double grace, std::function<void()> done);

private:
    friend class Process;
    void reap();
    bool signal_all(int signum) const;
    void check_drained();

    uv_loop_t* loop_;
    uv_signal_t* signal_;
    std::unordered_map<pid_t, Process*> running_;
    std::function<void()> drained_;
    bool killing_ = false;
    Timer drain_timer_;
};

} // namespace fluxdat::sandbox
