// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A running job: its tasks on all its ranks, their files, environment, output and end.
// What in Flux are the execution service and one job shell a node: RFC 32, RFC 50,
// flux-shell(1).
#pragma once

#include "lib/sandbox/job.h"
#include "lib/sandbox/output.h"

#include <vector>

namespace fluxdat::sandbox {

// What a job has written is kept to be read; more than this of a job is dropped, as
// Flux's output.limit does in multi-user instances.
constexpr std::size_t job_output_max = 10u << 20; // bytes of eventlog

class Shell
{
public:
    struct Events {
        std::function<void()> started;
        // An exception of severity 0; wait_status where a task's end is the reason.
        std::function<void(std::string type, std::string note,
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

private:
    struct Task;
    class Service;

    std::uint32_t shell_size() const;
    void plan();
    Result<> make_directories();
    Result<> write_files(const std::string& directory) const;
    Result<int> open_boot_socket() const;
    bool start_task(Task& task, int boot);
    Environment environment_of(const Task& task) const;
    std::optional<std::string> mustache(const Task& task, std::string_view name) const;
    Json taskmap() const;
    void log(std::uint32_t shell_rank, int level, std::string message);
    void task_output(Task& task, Stream stream, std::string_view data);
    void task_exited(Task& task, int status);
    void first_exit(const Task& task);
    void check_done(Task& task);
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
    std::unique_ptr<Service> service_; // stdin
    bool first_exit_seen_ = false;
    bool leader_done_ = false;
    bool truncated_ = false;
    bool killed_ = false; // SIGKILL was sent
    Timer exit_timer_, kill_timer_, done_timer_;
};

} // namespace fluxdat::sandbox
