// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The services of a Flux instance that flux-dat uses, one function a remote procedure
// call, with typed arguments and answers. Topics and payloads as Flux 0.88 has them; an
// answer that lacks what is promised here is an error with EPROTO.
#pragma once

#include "lib/flux/connection.h"
#include "lib/flux/idset.h"
#include "lib/flux/jobid.h"

#include <string>
#include <vector>

namespace fluxdat::flux {

// attr.get: flux-broker-attributes(7). ENOENT when there is no such attribute.
Task<Result<std::string>> attribute(Connection& flux, std::string name);
Task<Result<std::uint32_t>> attribute_number(Connection& flux, std::string name);

// Whether the instance has the clock of this process (lib/clock.h); no call where that
// is the machine's. The error says what to do.
Task<Result<>> same_clock(Connection& flux);

// config.get: the instance's whole configuration, TOML as JSON.
Task<Result<Json>> configuration(Connection& flux);

// Urgencies of RFC 30: from 0, which holds the job, to 31, which puts it before all
// others. A guest may give at most the default.
constexpr int urgency_hold = 0, urgency_default = 16, urgency_expedite = 31;

// job-ingest.submit. `signed_jobspec` is J (RFC 39).
Task<Result<JobId>> submit(Connection& flux, std::string signed_jobspec, int urgency);

// Job states of RFC 21, as job-list gives them.
enum JobState : unsigned {
    job_state_new = 1,
    job_state_depend = 2,
    job_state_priority = 4,
    job_state_sched = 8,
    job_state_run = 16,
    job_state_cleanup = 32,
    job_state_inactive = 64,
};

// A job as RFC 43 lists it; what the job does not have (yet) is empty or zero.
struct JobInfo {
    JobId id = 0;
    std::uint32_t userid = userid_unknown;
    std::string name;
    unsigned state = 0;                             // one JobState
    double t_submit = 0, t_run = 0, t_inactive = 0; // seconds since the epoch
    std::uint32_t nnodes = 0;
    std::string ranks;     // idset, RFC 22
    std::string nodelist;  // hostlist, RFC 29
    double duration = 0;   // seconds; 0: unlimited
    double expiration = 0; // seconds since the epoch; 0: none
    Json annotations;      // RFC 27; null when there are none
    // Where list_jobs() was asked for ends, of one that has ended or is about to.
    double t_cleanup = 0; // seconds since the epoch
    std::string exception_type, exception_note;
    // What it still waits for, as RFC 26's plugins describe it: "begin-time=1796.000".
    std::vector<std::string> dependencies;

    bool pending() const
    {
        return state & (job_state_depend | job_state_priority | job_state_sched);
    }
    bool running() const { return state & (job_state_run | job_state_cleanup); }
    bool active() const { return state && state != job_state_inactive; }
    // Of a job that waits for its begin time: seconds since the epoch; else 0.
    double begin_time() const;
};

// When a job begins at the earliest by a dependency of its, "begin-time=1796.000"
// (RFC 26): seconds since the epoch; nothing where it is of another kind.
std::optional<double> begin_time_in(std::string_view dependency);

// job-list.list: all jobs that match an RFC 31 constraint with RFC 43's operators.
enum class Ends { no, yes };
Task<Result<std::vector<JobInfo>>> list_jobs(Connection& flux, Json constraint,
                                             Ends ends = Ends::no);
// job-list.list-id: waits until job-list knows of a job that was just submitted. ENOENT
// when there is none (or, for a guest in private mode, none to see).
Task<Result<JobInfo>> list_job(Connection& flux, JobId id);

// job-list.job-stats: how many jobs an instance has, of all users, and has had.
struct JobCounts {
    std::uint64_t pending = 0, running = 0;
    std::uint64_t done = 0, failed = 0, canceled = 0; // what ran out of time has failed
};
Task<Result<JobCounts>> job_counts(Connection& flux);

// job-manager.memo: RFC 21; a null value removes the key. The job's owner only.
Task<Result<>> memo(Connection& flux, JobId id, Json memo);
// Severities of an exception (RFC 21): 0 ends the job, all others only tell something.
constexpr int severity_fatal = 0, severity_least = 7;

// job-manager.raise, with a severity from severity_fatal to severity_least.
Task<Result<>> raise(Connection& flux, JobId id, std::string type, int severity,
                     std::string note);
// job-manager.kill
Task<Result<>> kill(Connection& flux, JobId id, int signum);

// job-info.lookup of one key ("R", "J", "jobspec"); the text as stored.
Task<Result<std::string>> lookup(Connection& flux, JobId id, std::string key);

// One event of an eventlog: RFC 18.
struct Event {
    double timestamp = 0; // seconds since the epoch
    std::string name;
    Json context;         // an object, or null
    std::size_t size = 0; // bytes of its line; 0: it was not read from one
};
Result<Event> parse_event(std::string_view line);

// job-info.eventlog-watch. `path` is "eventlog", "guest.exec.eventlog", "guest.output".
class EventlogWatch
{
public:
    EventlogWatch(Connection& flux, JobId id, const std::string& path);
    // The next event; nothing at the eventlog's end, which comes with the job's. Lines
    // that are no event are passed over.
    Task<Result<std::optional<Event>>> next(Interrupt* interrupt = nullptr);

private:
    Stream stream_;
    std::vector<Event> events_; // of one answer, in reverse
};

// Waits until the job has ended for good ("clean", or the eventlog's end).
Task<Result<>> wait_for_end(Connection& flux, JobId id, Interrupt* interrupt = nullptr);

// What RFC 42 runs.
struct Command {
    std::vector<std::string> cmdline;
    std::string cwd = "/";
    std::vector<std::pair<std::string, std::string>> environment;
};

// How a subprocess on one rank ended.
struct CommandResult {
    std::uint32_t rank = 0;
    std::optional<Error> error; // it did not run, or its end was not seen
    int wait_status = 0;        // wait(2), when there is no error
    std::string out, err;       // at most command_output_max bytes each

    bool ok() const { return !error && wait_status == 0; }
};
constexpr std::size_t command_output_max = 1u << 20; // bytes

// rexec.exec on one rank, waiting for its end. Instance owner only. Interrupted, it
// goes on there.
Task<CommandResult> run_command(Connection& flux, std::uint32_t rank, Command command,
                                std::string service = "rexec",
                                Interrupt* interrupt = nullptr);
// The same on all the ranks at once, in their order.
Task<std::vector<CommandResult>> run_command_on(Connection& flux, Idset ranks,
                                                Command command);

// RFC 24: the bytes of an output event's context ("data", "encoding").
Result<std::string> output_data(const Json& context);

} // namespace fluxdat::flux
