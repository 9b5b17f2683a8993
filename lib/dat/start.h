// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How a DAT comes up, as seen by the command: compose and check the configuration, sign
// and submit the job, follow its eventlog until the supervisor's record says "ready".
// What happens on the nodes is launcher.h and supervisor.h.
//
// One DAT a name. Two `start` may come at the same moment, from different nodes, so
// looking first and submitting then is not enough. A record on a job is the claim to
// its name. After submitting, before recording, each start looks for namesakes once
// more; job-list answers in the order of submission, so of two jobs at least the later
// one sees the other. Who sees a record has lost. Who sees a job with a lower id that
// has none yet has lost too. Who sees one with a higher id that has none yet waits to
// see whether that one recorded (having looked too early to see this one), or ends;
// and yields if it does neither for long, since its start may have been killed.
// Before it submits anything, a start takes a job that has been there for long without
// a record as what it is, a DAT of that name: it will have its record when it runs. Who
// has lost ends its job, and looks again until the name's DAT has its record: the one
// that it lost to may itself have lost. If there is none then, it starts over. A DAT
// whose job has ended, and whose nodes are being cleaned up, holds its name no more;
// but a start waits for a while until it is gone, so that there are not two. Names are
// told apart by case. Rejected: a lock in the KVS, which a guest of the system instance
// cannot write; submitting held and releasing, which leaves a held job if the command
// is killed.
//
// A supervisor records its DAT without waiting for its start to have claimed the name.
// So where a start is held up between submitting and recording for as long as its DAT
// takes to come up, two of a name have a record until that start goes on, sees the
// other's, and ends its own job. Rejected: a supervisor that waits for the record,
// since a start that was killed there would hold its DAT back for as long as it may
// wait.
#pragma once

#include "lib/conf/conf.h"
#include "lib/dat/jobspec.h"
#include "lib/flux/services.h"

#include <functional>
#include <string>

namespace fluxdat::dat {

struct StartOptions {
    conf::Inputs configuration; // without the parent's part, which start() fetches
    Submission submission;      // its name is the DAT's
    perms::GuestList guests;    // generation 1
    std::vector<uid_t> managers;
    WindowWish window;                   // goes before the site's
    std::optional<std::string> door_dir; // --door-dir; goes before the site's
    std::string program;                 // of flux-dat, absolute
    int urgency = flux::urgency_default;
    bool unique_name = false;    // refuse, exit 1, where the owner has one of that name
    bool if_not_running = false; // ... or give that one instead
    bool wait = true;            // until ready
    bool cancel_on_timeout = false;
    // The time limit is what is left of a window (early.h), less at each call.
    bool limit_is_rest = false;
};

struct Started {
    flux::JobId id = 0;
    std::string name;
    std::string phase;    // of find.h
    std::string nodelist; // empty while pending
    std::string uri;      // likewise
    bool already = false; // it ran before: --if-not-running
};

// What start() tells on the way, for a progress display and --verbose.
struct Progress {
    // `waiting`: for longer than a moment; what it waits for was an event before.
    // `alarm`: a warning that the DAT will not be, or do, what was asked for.
    enum class Step { notice, warning, alarm, submitted, event, waiting };
    // What it is doing now, where that has changed.
    enum class Phase { same, pending, allocated, prolog, booting, ready };
    Step step;
    std::string text; // a line for people; of `ready` there is none
    Phase phase = Phase::same;
    flux::JobId id = 0; // once there is one
};
using OnProgress = std::function<void(const Progress&)>;

// Brings a DAT up. When the interrupt is raised, or anything fails, after the job was
// submitted, the job is cancelled and seen to end before this returns; except for exit
// 5 (the timeout), which leaves a job that has its name unless cancel_on_timeout is
// set, and a lost connection, where the error says so.
flux::Task<Result<Started>> start(flux::Loop& loop, flux::Connection& parent,
                                  StartOptions options, flux::Interrupt& interrupt,
                                  OnProgress progress);

// The configuration that start() would use.
flux::Task<Result<conf::Composed>> compose_for(flux::Connection& parent,
                                               conf::Inputs inputs);

// How it is to end: as asked for, else as the site has it (composed.warn, ...), else as
// everywhere.
Result<WindowOptions> window_options(const conf::Composed& composed,
                                     const WindowWish& wish);

// J (RFC 39) for this instance: the owner's with mechanism `none`, a guest's `munge`.
flux::Task<Result<std::string>> sign_for(flux::Connection& flux, const Json& jobspec);

} // namespace fluxdat::dat
