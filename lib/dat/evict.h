// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The jobs in a DAT of those who are not on its guest list: the supervisor's part. A
// door that is shut does not reach who is inside already: a guest who was revoked may
// still have an open connection, and jobs. So the supervisor follows all jobs of the
// DAT (job-manager.events-journal, which its owner may) and cancels, with the reason,
// what somebody off the list submits, and on a revoke what is there of theirs.
#pragma once

#include "lib/dat/changes.h"
#include "lib/dat/lookups.h"
#include "lib/flux/loop.h"

#include <map>
#include <set>

namespace fluxdat::dat {

class Evictor
{
public:
    // `name` is the DAT's, for the note. All three must outlive follow(). Who cannot be
    // told to be on the list is looked up again after `tell_pause` seconds.
    Evictor(flux::Loop& loop, flux::Connection& dat, Lookups& lookups, std::string name,
            double tell_pause = 60);

    // Follows the jobs until the connection is lost or `end` is raised. Where it cannot
    // for a while, the door and the IMP are all that keeps a revoked guest out: it says
    // so in the log, and tries again. Once `end` is raised, no lookup is waited for.
    flux::Task<void> follow(flux::Interrupt& end);

    // Why the jobs cannot be followed at the moment; empty where they are.
    const std::string& fault() const { return fault_; }

    // A list that is in force from now on; it is copied. Whether a user is on it by a
    // group is looked up, and decided a little later.
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
    bool may_stay(const Job& job, const Desired::GroupsOf& groups) const;
    void evict(flux::JobId id, Job& job);
    flux::Task<void> judge_by_groups();
    flux::Task<void> judge_unknown();
    flux::Task<void> cancel(flux::JobId id, uid_t user);

    flux::Loop& loop_;
    flux::Connection& dat_;
    Lookups& lookups_;
    std::string name_, fault_;
    double tell_pause_;
    flux::Interrupt* end_ = nullptr; // of follow(), once that is called
    Desired desired_;
    bool has_list_ = false;
    std::map<flux::JobId, Job> jobs_;
    unsigned journal_ = 0;           // counts the journals
    std::uint64_t journal_jobs_ = 0; // and what they said of jobs
    // What hangs on the groups of a user, and how many look these up.
    std::map<uid_t, std::set<flux::JobId>> by_groups_;
    int looking_up_ = 0;
    uid_t looked_up_last_ = 0;
    std::set<flux::JobId> unknown_; // of those whose groups could not be told
    bool waiting_ = false;          // to look these up again
};

} // namespace fluxdat::dat
