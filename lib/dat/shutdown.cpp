// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/shutdown.h"

#include "lib/clock.h"
#include "lib/dat/audit.h"
#include "lib/flux/fsd.h"

#include <algorithm>

namespace fluxdat::dat {

flux::Task<void> Shutdown::announce(double grace)
{
    auto& record = book_.record();
    double end = wall_clock() + grace;
    record.stop_at = record.state == State::stopping && record.stop_at > 0
                         ? std::min(record.stop_at, end)
                         : end;
    record.state = State::stopping;
    record.stop_reason = "stopped by its owner";
    co_await book_.update();
}

flux::Task<void> Shutdown::run(double grace)
{
    end_if_sooner(grace);
    if (std::exchange(begun_, true))
        co_return;
    auto& dat = *links_.dat;
    Json payload{{"enable", false}, {"all", true}, {"reason", "this DAT is ending"}};
    auto closed = co_await dat.rpc("job-manager.queue-enable", std::move(payload), 0);
    if (!closed)
        complain(closed.error().message);
    co_await warn_jobs(grace);
    auto drained =
        co_await dat.rpc("job-manager.drain", nullptr, flux::nodeid_any, &grace_over_);
    if (!drained && !grace_over_.reason())
        complain(drained.error().message);
    if (!drained)
        co_await cancel_jobs();
    // The end of the supervisor is the end of a DAT whose initial program it is.
    if (links_.adopted && links_.parent) {
        auto ended = co_await flux::raise(*links_.parent, links_.id, "cancel",
                                          flux::severity_fatal, "flux-dat stop");
        if (!ended)
            complain("cannot end the DAT's job: " + ended.error().message);
    }
    links_.end.raise({"stopped"});
}

void Shutdown::end_if_sooner(double grace)
{
    links_.loop.spawn([](Shutdown& self, double seconds) -> flux::Task<void> {
        (void)co_await self.links_.loop.sleep_until(wall_clock() + seconds,
                                                    &self.links_.end);
        self.grace_over_.raise({"the grace is over"});
    }(*this, grace));
}

// An exception that is not fatal is what a guest sees who is attached to a job. A
// job that has ended meanwhile takes none.
flux::Task<void> Shutdown::warn_jobs(double grace)
{
    Json running{{"states", {"running"}}};
    auto jobs = co_await flux::list_jobs(*links_.dat, std::move(running));
    if (!jobs)
        co_return complain("cannot warn the jobs: " + jobs.error().message);
    for (auto& job : *jobs)
        (void)co_await flux::raise(
            *links_.dat, job.id, "dat-stop", flux::severity_least,
            fmt::format("this DAT ends in {}", flux::format_fsd(grace)));
}

// The instance's own end would cancel them too, but without saying why. So it does
// with those that this does not reach.
flux::Task<void> Shutdown::cancel_jobs()
{
    Json active{{"states", {"pending", "running"}}};
    auto jobs = co_await flux::list_jobs(*links_.dat, std::move(active));
    if (!jobs)
        co_return complain("cannot cancel the jobs: " + jobs.error().message);
    for (auto& job : *jobs)
        (void)co_await flux::raise(*links_.dat, job.id, "cancel", flux::severity_fatal,
                                   "this DAT has ended");
}

} // namespace fluxdat::dat
