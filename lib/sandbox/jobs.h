// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The jobs of an instance, from submission to their end: RFC 21's states and events,
// and the scheduling between them: first come, first served by priority, in each queue.
#pragma once

#include "lib/sandbox/job.h"
#include "lib/sandbox/queues.h"

#include <map>
#include <set>

namespace fluxdat::sandbox {

// Inactive jobs are kept to be listed; the oldest are forgotten beyond this.
constexpr std::size_t inactive_jobs_max = 1000;
constexpr int urgency_max = 31, urgency_hold = 0;

class Jobs
{
public:
    Jobs(ExecContext context, Pool pool, Queues queues);
    ~Jobs();

    struct Submission {
        std::uint32_t userid;
        std::uint32_t rank; // where it came in
        int urgency;
        int flags;
        std::string J;
    };
    // The error's errnum and message are what job-ingest answers.
    Result<JobId> submit(Submission submission, Jobspec spec);

    Job* find(JobId id);
    const std::map<JobId, std::unique_ptr<Job>>& all() const { return jobs_; }

    // An exception, with the user who raised it.
    void raise(Job& job, const std::string& type, int severity, std::uint32_t userid,
               const std::string& note, std::optional<int> wait_status = std::nullopt);
    void set_urgency(Job& job, int urgency, std::uint32_t userid);
    void memo(Job& job, const Json& memo);
    // A running job's time limit (job-manager.update).
    void set_duration(Job& job, double seconds);
    Result<> signal(Job& job, int signum);

    // R as it is now; null when it has none.
    Json R(const Job& job) const;

    void rank_lost(std::uint32_t rank);
    void rank_back(std::uint32_t rank);
    // The end of the instance's own resources (R's expiration).
    void set_expiration(double time);

    // Cancels all jobs, and calls back once none is active.
    void shut_down(std::function<void()> done);

    std::size_t active() const { return active_; }
    std::size_t running() const;

    Pool& pool() { return pool_; }
    Queues& queues() { return queues_; }
    void schedule_soon();

    // Called after each change of a job's state.
    std::function<void(Job&)> on_state;
    // Called with each event of a job's eventlog, a line with its newline.
    std::function<void(const Job&, const std::string& line)> on_event;
    // Called after R has changed.
    std::function<void(Job&)> on_R;

private:
    JobId new_id(std::uint32_t rank);
    void post(Job& job, std::string_view name, const Json& context = nullptr);
    void post_at(double time, Job& job, std::string_view name,
                 const Json& context = nullptr);
    void set_state(Job& job, unsigned state, double time);
    Result<> check_dependencies(const Jobspec& spec) const;
    void depend(Job& job);
    void prioritize(Job& job);
    void schedule();
    void start(Job& job, Allocation allocation);
    void finished(Job& job, int status);
    void clean(Job& job);
    void set_expiration(Job& job, double time);
    void arm_limit(Job& job);
    void purge();

    ExecContext context_;
    Pool pool_;
    Queues queues_;
    double epoch_; // of the job ids
    std::map<JobId, std::unique_ptr<Job>> jobs_;
    JobId last_id_ = 0;
    std::size_t active_ = 0;
    std::size_t inactive_ = 0;
    Timer schedule_timer_;
    bool shutting_down_ = false;
    std::function<void()> shut_down_done_;
    Timer shut_down_timer_;
};

} // namespace fluxdat::sandbox
