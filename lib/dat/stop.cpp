// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/stop.h"

#include "lib/accounts.h"
#include "lib/dat/ask.h"
#include "lib/flux/fsd.h"

namespace fluxdat::dat {

namespace {

flux::Task<Result<>> cancel(flux::Connection& parent, const Dat& dat)
{
    auto raised = co_await flux::raise(
        parent, dat.job.id, "cancel", flux::severity_fatal, "stopped by flux-dat stop");
    if (raised || raised.error().errnum != EPERM)
        co_return raised;
    co_return fail(
        Exit::not_permitted, "{}",
        stop_refusal(user_name(dat.job.userid), dat.record.name, dat.job.id));
}

// Whether the supervisor took it on itself to end the DAT.
flux::Task<Result<bool>> close_by_supervisor(flux::Loop& loop, flux::Connection& parent,
                                             const Dat& dat, double grace,
                                             flux::Interrupt& interrupt)
{
    Json payload{{"grace", grace}};
    auto asked = co_await ask_supervisor(loop, parent, dat, "stop", std::move(payload),
                                         &interrupt);
    if (asked)
        co_return true;
    // Who takes the command back does not want less grace than he asked for.
    if (interrupt.reason())
        co_return std::unexpected(Error{
            fmt::format("{} while the supervisor was asked to end the DAT; it may do "
                        "so all the same (flux-dat status --dat {})",
                        interrupt.reason()->message,
                        flux::format_jobid_ascii(dat.job.id)),
            interrupt.reason()->errnum, interrupt.reason()->exit});
    if (asked.error().errnum == EPERM || parent.lost())
        co_return std::unexpected(asked.error());
    co_return false; // it is gone, or its node is
}

} // namespace

std::string stop_refusal(const std::string& owner, const std::string& name,
                         flux::JobId id)
{
    return fmt::format("only its owner ({}) or the instance's may stop the DAT "
                       "\"{}\" ({})",
                       owner, name, flux::format_jobid(id));
}

flux::Task<Result<>> stop(flux::Loop& loop, flux::Connection& parent, Dat dat,
                          StopOptions options, flux::Interrupt& interrupt,
                          std::function<void(const std::string&)> tell)
{
    bool asked = false;
    if (!options.now && dat.phase() != "pending" && dat.phase() != "starting") {
        auto taken =
            co_await close_by_supervisor(loop, parent, dat, options.grace, interrupt);
        if (!taken)
            co_return std::unexpected(taken.error());
        asked = *taken;
        tell(asked ? fmt::format("closed to new jobs; running ones have {}",
                                 flux::format_fsd(options.grace))
                   : "its supervisor does not answer; cancelling the job");
    }
    if (!asked) {
        auto cancelled = co_await cancel(parent, dat);
        if (!cancelled && cancelled.error().errnum != EINVAL // it has ended meanwhile
            && cancelled.error().errnum != ENOENT)
            co_return cancelled;
        tell("the job is cancelled");
    }
    // Whoever may cancel a job may follow its eventlog: its owner and the instance's.
    auto ended = co_await flux::wait_for_end(parent, dat.job.id, &interrupt);
    if (!ended)
        co_return std::unexpected(Error{
            fmt::format("{} while waiting for the DAT to end; it goes on ending "
                        "(flux-dat status --dat {})",
                        ended.error().message, flux::format_jobid_ascii(dat.job.id)),
            ended.error().errnum, ended.error().exit});
    co_return Result<>{};
}

} // namespace fluxdat::dat
