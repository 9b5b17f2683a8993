// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A running job: its tasks on all its ranks, their files, environment, output and end.
// What in Flux are the execution service and one job shell a node: RFC 32, RFC 50,
// flux-shell(1). The instance's owner's tasks are the engine's own children; those of a
// guest's job are run by job shells under the guest's uid (guest_shell.h).
#pragma once

#include "lib/sandbox/guest_shell.h"
#include "lib/sandbox/job.h"
#include "lib/sandbox/output.h"
#include "lib/sandbox/stdin_service.h"

#include <vector>

namespace fluxdat::sandbox {

class Shell
{
public:
    struct Events {
        std::function<void()> started;
        // wait_status where a task's end is the reason.
        std::function<void(std::string type, int severity, std::string note,
                           std::optional<int> wait_status)>
            exception;
        std::function<void(int status)> finished;
    };
    Shell(const ExecContext& context, Job& job, Events events);
    // Ends what still runs, and removes the job's temporary directories.
    ~Shell();
    Shell(const Shell&) = delete;
    Shell& operator=(const Shell&) = delete;

    // Starts all tasks. events.finished may be called from here on, from the loop only.
    void start();
    void signal(int signum);
    // SIGTERM (or another), then SIGKILL after the instance's kill timeout.
    void terminate(int signum);
    // A rank of the instance has crashed, and what ran there with it.
    void rank_lost(std::uint32_t rank);
    // Null for the instance's owner's jobs.
    GuestShell* guests() { return guests_.get(); }

private:
    struct Task;

    std::uint32_t shell_size() const;
    void plan();
    void announce();
    void start_own();
    void start_guests();
    void fail_all(const std::string& note);
    void imp_ended(std::uint32_t shell_rank, int status);
    NodePlace place_of(std::uint32_t shell_rank) const;
    const std::string& host_of(std::uint32_t shell_rank) const;
    Result<> make_directories();
    Result<int> open_boot_socket() const;
    void start_task(Task& task, int boot);
    void task_failed(Task& task, int errnum, const std::string& why);
    Environment environment_of(const Task& task) const;
    void feed(const Json& io);
    Json taskmap() const;
    void log(std::uint32_t shell_rank, int level, std::string message);
    void task_output(Task& task, Stream stream, std::string_view data);
    void task_exited(Task& task, pid_t pid, int status);
    void first_exit(const Task& task);
    void check_done(Task& task);
    void check_finished();
    void post_leader_exit();
    void finish();
    int shell_status(std::uint32_t shell_rank) const;

    const ExecContext& context_;
    Job& job_;
    Events events_;
    std::string id_; // F58
    std::string service_name_;
    std::vector<std::uint32_t> ranks_;     // of the instance, by shell rank
    std::vector<std::string> directories_; // FLUX_JOB_TMPDIR, by shell rank
    std::vector<std::unique_ptr<Task>> tasks_;
    std::unique_ptr<StdinService> service_;
    std::unique_ptr<GuestShell> guests_;
    std::optional<int> refusal_; // how the first IMP ended before all were ready
    bool first_exit_seen_ = false;
    bool leader_done_ = false;
    std::size_t output_bytes_ = 0, stdin_bytes_ = 0; // of the tasks
    bool truncated_ = false;
    bool killed_ = false;     // SIGKILL was sent
    bool any_failed_ = false; // a task could not be started
    Timer exit_timer_, kill_timer_, done_timer_;
};

} // namespace fluxdat::sandbox
