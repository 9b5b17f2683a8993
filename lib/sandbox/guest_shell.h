// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The engine's side of a guest's job: RFC 15. On each node of the job it starts
//
//     IMP exec JOBSHELL JOBID
//
// with {"J": ...} on its stdin, as Flux's job-exec does; the IMP becomes the job's user
// and runs the job shell (job_shell.h), which connects to its node's broker, verifies J
// once more, and starts the tasks that it is told to start (shell_wire.h).
//
// The engine runs as the instance's owner and can signal only the IMP, which hands
// signals on; SIGUSR1 stands for SIGKILL. What the IMP does not hand on goes to the job
// shell by its connection, and SIGKILL first does, too, so that it is the tasks that
// are killed and are told of.
#pragma once

#include "lib/sandbox/job.h"
#include "lib/sandbox/output.h"
#include "lib/sandbox/shell_wire.h"

namespace fluxdat::sandbox {

class Jobs;

// Bytes of what the IMPs of a job say, and its job shells before they are connected,
// that are kept.
constexpr std::size_t imp_output_max = 64u << 10;

class GuestShell
{
public:
    struct Events {
        std::function<void()> ready;   // the job shells of all nodes are there
        std::function<void()> started; // all tasks were started, or could not be
        std::function<void(std::uint32_t task, int errnum, std::string why)> failed;
        // Empty data at the end of the stream.
        std::function<void(std::uint32_t task, Stream, std::string_view data)> output;
        std::function<void(std::uint32_t task, pid_t, int status)> exited;
        std::function<void(std::uint32_t shell_rank, int level, std::string)> log;
        // A line from the IMP.
        std::function<void(std::uint32_t shell_rank, Stream, std::string_view)> imp;
        // The IMP has ended, with a wait status; a node's last event.
        std::function<void(std::uint32_t shell_rank, int status)> ended;
    };
    // One plan for each node of the job, by shell rank.
    GuestShell(const ExecContext& context, const Job& job, std::vector<ShellPlan> plans,
               Events events);
    ~GuestShell();
    GuestShell(const GuestShell&) = delete;
    GuestShell& operator=(const GuestShell&) = delete;

    // Starts the IMPs; the message names what could not be.
    Result<> start();
    // The job shells of all nodes have asked for their plan.
    bool ready() const { return ready_; }
    // All IMPs have ended.
    bool ended() const;

    void write_stdin(const Json& io);
    void signal(int signum);
    // The signal, and after each kill timeout more force.
    void terminate(int signum);
    // The node has crashed: its broker's connections are gone.
    void lose(std::uint32_t shell_rank);

    // Requests of shell_wire.h, of the job's own user.
    void plan(const Request& request);
    void report(const Request& request);
    void forget(const Departure& departure);

private:
    struct Node;

    Node* node_of(const Request& request);
    Result<> start_imp(Node& node);
    Environment imp_environment(const Node& node) const;
    void feed(Node& node);
    void imp_output(Node& node, Stream stream, std::string_view data);
    void check_ended(Node& node);
    void report_task(Node& node, std::uint32_t task, const Json& report);
    void report_started(Node& node, const Json& failures);
    void check_started();
    void signal(Node& node, int signum);
    void press(Node& node, int step, double seconds);
    void end_stream(Node& node);

    const ExecContext& context_;
    const Job& job_;
    Events events_;
    std::string input_; // of the IMPs
    std::vector<std::unique_ptr<Node>> nodes_;
    bool ready_ = false;
    bool all_started_ = false;
    bool ending_ = false;
    std::size_t imp_bytes_ = 0;
};

// The services of shell_wire.h. Who may use them is checked here: a job's own user,
// from a node of the job, while it runs.
class GuestShells
{
public:
    GuestShells(Router& router, Jobs& jobs);
};

} // namespace fluxdat::sandbox
