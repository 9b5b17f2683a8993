// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What job-list tells of jobs, and which jobs it tells of: RFC 43.
#pragma once

#include "lib/flux/connection.h"
#include "lib/flux/hostlist.h"
#include "lib/flux/idset.h"
#include "lib/flux/jobid.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fluxdat::sandbox {

using flux::Idset;
using flux::JobId;
using flux::Json;

// RFC 21, as bits.
enum State : unsigned {
    state_new = 1,
    state_depend = 2,
    state_priority = 4,
    state_sched = 8,
    state_run = 16,
    state_cleanup = 32,
    state_inactive = 64,
    state_pending = state_depend | state_priority | state_sched,
    state_running = state_run | state_cleanup,
    state_active = state_pending | state_running,
};

// How a job ended, as bits.
enum Outcome : unsigned {
    result_completed = 1,
    result_failed = 2,
    result_canceled = 4,
    result_timeout = 8,
};

// A job as it is listed. What it does not have (yet) is empty; times are in seconds
// since the epoch, 0 when not reached.
struct JobRecord {
    JobId id = 0;
    std::uint32_t userid = 0;
    int urgency = 16;
    std::optional<std::int64_t> priority;
    unsigned state = state_new;
    double t_submit = 0, t_depend = 0, t_priority = 0, t_sched = 0, t_run = 0,
           t_cleanup = 0, t_inactive = 0;
    std::string name;
    std::string cwd;
    std::optional<std::string> queue, project, bank;
    std::uint64_t ntasks = 0;
    std::uint64_t ncores = 0;
    std::uint64_t nnodes = 0; // 0: not known yet
    double duration = 0;
    Idset ranks;
    flux::Hostlist hosts;
    double expiration = 0;
    bool success = false;
    struct Exception {
        std::string type;
        int severity;
        std::string note;
    };
    std::optional<Exception> exception;
    unsigned result = 0; // one Outcome, once inactive
    Json annotations;    // null when there are none
    std::optional<int> waitstatus;
    std::vector<std::string> dependencies;
};

// The attributes of RFC 43, in Flux's order, without "id" and "all".
const std::vector<std::string>& job_attributes();

// The asked attributes of a job, as far as it has them; "all" is all. The id is always
// there.
Json describe(const JobRecord& job, const std::set<std::string>& attributes);

// Which jobs: a constraint with the operators of RFC 43.
class JobFilter
{
public:
    // Matches every job.
    JobFilter() = default;
    // From JSON; the messages are Flux's.
    static Result<JobFilter> parse(const Json& json);

    bool matches(const JobRecord& job) const { return !test_ || test_(job); }

private:
    using Test = std::function<bool(const JobRecord&)>;
    static Result<Test> parse_test(const Json& json);
    Test test_;
};

} // namespace fluxdat::sandbox
