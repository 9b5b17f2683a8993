// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Nodes that Flux drained for a job that should not have been: the supervisor's part.
// Where the shells of a job on several nodes end before they have met at their first
// barrier, Flux takes the nodes for broken and drains them, with the reason "JOBID
// terminated before first barrier". That is how a job ends that the IMP refuses, or
// that is cancelled while it starts. A guest who was revoked, and is still connected,
// could so take all nodes out of service. So the nodes that were drained for a job of
// somebody off the guest list are undrained again, as `flux resource undrain` does.
// Those that an administrator drained stay so, and those that a guest's job drained.
//
// That Flux does not drain them at all cannot be had: it looks at no exit status, and
// the job of whoever is cancelled in time (evict.h) has no shells, and drains nothing.
#pragma once

#include "lib/dat/changes.h"
#include "lib/flux/idset.h"
#include "lib/flux/loop.h"

#include <map>
#include <vector>

namespace fluxdat::dat {

// The job that a drain's reason is about, if it is of this kind.
std::optional<flux::JobId> job_ended_early(std::string_view reason);

// Whether a user is off that list, or an error where it cannot be told since the groups
// are not known.
Result<bool> is_off_list(const Desired& list, uid_t user,
                         const std::optional<std::vector<gid_t>>& groups);

// Which ranks are drained for such a job, as an instance's resource eventlog tells
// (`flux resource eventlog` shows it): events "restart", "drain" and "undrain". What it
// does not say, or says in another way than expected, changes nothing.
class Drains
{
public:
    struct Drain {
        flux::JobId job = 0;
        double when = 0;      // seconds since the epoch
        bool current = false; // told as it happened, and not afterwards
        bool operator==(const Drain&) const = default;
    };

    // One answer of the streaming request resource.journal, as in RanksUp (ranks.h).
    void apply(const Json& answer);

    const std::map<std::uint32_t, Drain>& by_rank() const { return by_rank_; }

private:
    std::map<std::uint32_t, Drain> by_rank_;
    bool current_ = false;
};

class Undrainer
{
public:
    // Whether a user was off the guest list when that drain happened. An error: it
    // cannot be told now.
    using OffList = std::function<flux::Task<Result<bool>>(uid_t, Drains::Drain)>;

    // It ends when `end` is raised.
    Undrainer(flux::Loop& loop, flux::Connection& dat, flux::Interrupt& end,
              OffList off_list);

    // One answer of resource.journal.
    void apply(const Json& answer);
    // From now on it can be told who was off the list.
    void judge();

    // What was done, for the log.
    std::function<void(const flux::Idset&, flux::JobId, uid_t user)> on_undrain;

private:
    using Ranks = std::map<std::uint32_t, Drains::Drain>;
    std::optional<Drains::Drain> next_unjudged() const;
    flux::Task<void> work();
    flux::Task<void> retry();
    flux::Task<Result<>> judge(Drains::Drain drain);
    flux::Task<void> undrain(flux::JobId job, uid_t user);

    flux::Loop& loop_;
    flux::Connection& dat_;
    flux::Interrupt& end_;
    OffList off_list_;
    Drains drains_;
    Ranks judged_;
    Ranks failed_; // to be judged: not now, or they would keep the others waiting
    bool retrying_ = false;
    bool ready_ = false;
    bool at_work_ = false;
};

} // namespace fluxdat::dat
