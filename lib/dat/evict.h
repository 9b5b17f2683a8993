// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The jobs in a DAT of those who are not on its guest list: the supervisor's part. A
// door that is shut does not reach who is inside already: a guest who was revoked may
// still have an open connection, and jobs. So the supervisor follows all jobs of the
// DAT (job-manager.events-journal, which its owner may) and cancels, with the reason,
// what somebody off the list submits, and on a revoke what is there of theirs.
#pragma once

#include "lib/dat/changes.h"
#include "lib/flux/loop.h"

#include <map>

namespace fluxdat::dat {

class Evictor
{
public:
    // `name` is the DAT's, for the note.
    Evictor(flux::Loop& loop, flux::Connection& dat, std::string name);

    // Follows the jobs until the connection is lost or `end` is raised. Where it cannot
    // for a while, the door and the IMP are all that keeps a revoked guest out: it says
    // so in the log, and tries again.
    flux::Task<void> follow(flux::Interrupt& end);

    // A list that is in force from now on; it is copied.
    void judge(const Desired& desired);

    // What was done, for the log: called with each job that was cancelled.
    std::function<void(flux::JobId id, uid_t user)> on_cancel;

private:
    struct Job {
        uid_t user = 0;
        double submitted = 0; // seconds since the epoch
        bool started = false; // it has its nodes
        bool judged = false;  // it is being cancelled
        unsigned journal = 0; // the last that told of it
    };
    flux::Task<Result<>> follow_journal();
    void take(flux::JobId id, const Json& events);
    void judge(flux::JobId id, Job& job);
    flux::Task<void> cancel(flux::JobId id, uid_t user);

    flux::Loop& loop_;
    flux::Connection& dat_;
    std::string name_;
    Desired desired_;
    bool has_list_ = false;
    std::map<flux::JobId, Job> jobs_;
    unsigned journal_ = 0;           // counts the journals
    std::uint64_t journal_jobs_ = 0; // and what they said of jobs
    // Of users, for as long as one pass takes.
    std::map<uid_t, std::optional<std::vector<gid_t>>> groups_;
};

// The groups of a user on this node; none for a user whom it does not know, nothing if
// that cannot be told at the moment.
std::optional<std::vector<gid_t>> groups_of(uid_t uid);

// "alice (1001)"; the number alone where this node knows no name.
std::string name_of(uid_t uid);

} // namespace fluxdat::dat
