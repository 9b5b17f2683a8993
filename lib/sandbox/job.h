// SPDX-License-Identifier: LGPL-3.0-or-later
//
// One job of an instance, and what its parts need to know of the instance.
#pragma once

#include "lib/sandbox/eventlog.h"
#include "lib/sandbox/joblist.h"
#include "lib/sandbox/jobspec.h"

#include <functional>
#include <memory>

namespace fluxdat::sandbox {

class Shell;

struct Job : JobRecord {
    Job(Router& router, Jobspec jobspec);
    ~Job();

    Jobspec spec;
    int flags = 0;
    std::string J; // as submitted: RFC 39
    Eventlog eventlog;
    Eventlog exec_eventlog; // guest.exec.eventlog
    Eventlog output;        // guest.output
    Allocation allocation;
    double starttime = 0; // of R
    bool fatal = false;   // had an exception of severity 0
    // The shell ranks without which the job cannot go on (job-exec.critical-ranks);
    // all of them when unset.
    std::optional<Idset> critical_ranks;
    std::unique_ptr<Timer> begin_timer; // dependency begin-time
    std::unique_ptr<Timer> limit_timer; // expiration
    std::unique_ptr<Shell> shell;       // while it runs

    bool active() const { return state & state_active; }
    bool pending() const { return state & state_pending; }
};

// Where jobs run.
struct ExecContext {
    uv_loop_t* loop;
    Children& children;
    Router& router;
    std::string rundir;        // of the instance; holds the jobs' temporary directories
    std::string bin_directory; // with the engine as "flux", first in the jobs' PATH
    std::string jobid_path;    // of the instance: "/", "/ƒABC"
    double kill_timeout;       // seconds between SIGTERM and SIGKILL
    std::string imp;           // exec.imp; empty where there is none
    std::string job_shell;     // exec.job-shell
    Environment environment;   // added to that of every job
    std::function<const std::string&(std::uint32_t rank)> host;
    std::function<std::string(std::uint32_t rank)> local_uri;
    // FLUX_DAT_GRANTS of the rank's broker; empty where it has none.
    std::function<std::string(std::uint32_t rank)> grants;
};

} // namespace fluxdat::sandbox
