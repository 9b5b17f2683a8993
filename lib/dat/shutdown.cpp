// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/shutdown.h"

#include "lib/clock.h"
#include "lib/dat/audit.h"
#include "lib/dat/jobs.h"
#include "lib/dat/queues.h"
#include "lib/dat/terminals.h"
#include "lib/flux/datetime.h"
#include "lib/flux/fsd.h"

#include <algorithm>
#include <cmath>
#include <csignal>

namespace fluxdat::dat {

namespace {

// Seconds that jobs have between SIGTERM and SIGKILL at the end, beside their grace;
// and that a job may take to be gone after the latter. Within end_margin.
constexpr double term_time = 3, kill_time = 1;
// Seconds that it may take at the end to cancel what is pending; the instance's own end
// does so with those that are left.
constexpr double cancel_time = 2;
// Seconds that it may take to tell jobs something. There may be hundreds of thousands
// pending, and what is due next does not wait for all of them.
constexpr double tell_time_max = 5;
// Seconds before it is tried again to close the queues, where that failed: the first
// pause, which doubles up to the second.
constexpr double close_pause_min = 1, close_pause_max = 60;
// Exceptions (RFC 21) that only tell something.
constexpr const char *stop_type = "dat-stop", *warn_type = "dat-warn",
                     *close_type = "dat-close";

const Error takes_too_long{"it takes too long", ETIMEDOUT};

} // namespace

void Shutdown::follow(double begin)
{
    auto& span = window().span;
    bool known = span.begin > 0; // to a worker before this one
    if (!known) {
        span.begin = begin > 0 ? begin : wall_clock();
        span.expires = book_.expiration(); // so short from the start, where it is
    }
    span.stop_at = book_.record().stop_at;
    double told_before = span.end();
    replan();
    if (std::exchange(following_, true))
        return;
    told_end_ = known ? told_before : span.end();
    links_.loop.spawn(run(known));
}

void Shutdown::replan()
{
    if (window().span.begin <= 0)
        return; // not followed yet
    window().span =
        expiring_at(book_.expiration(), window().options, window().span, wall_clock());
    window().plan = plan_end(window().options, window().span);
    woken_.raise({"the plan is another"});
}

flux::Task<void> Shutdown::stop(double grace)
{
    auto& record = book_.record();
    double now = wall_clock();
    if (record.stop_at <= 0 || now + grace < record.stop_at) {
        record.stop_at = now + grace;
        window().span.stop_asked = now;
        window().span.stop_at = record.stop_at;
    }
    record.state = State::stopping;
    record.stop_reason = "stopped by its owner";
    window().plan = plan_end(window().options, window().span);
    co_await book_.update();
    woken_.raise({"the DAT is stopped"});
}

flux::Task<void> Shutdown::run(bool after_another)
{
    // A worker before this one may have been killed when the queues were closed, and it
    // had not recorded that yet. Nothing would open them again.
    if (after_another && window().closed <= 0 && !due(window(), wall_clock()).close)
        co_await reopen();
    while (!links_.end.reason()) {
        if (window().span.end() != told_end_) {
            co_await end_has_moved();
            continue; // it may have moved again meanwhile
        }
        double now = wall_clock();
        auto to_do = due(window(), now);
        if (now < close_again_)
            to_do.close = false;
        if (idle_ && window().closed > 0
            && (window().span.stopped() || window().termed > 0))
            to_do.end = true;
        if (!to_do.none()) {
            co_await carry_out(to_do);
            continue;
        }
        double next = next_after(window().plan, now);
        if (close_again_ > now && (next <= 0 || close_again_ < next))
            next = close_again_;
        co_await wait(next);
    }
}

// Until that time (0: for ever), or the plan changes, or nothing is left to wait for.
flux::Task<void> Shutdown::wait(double until)
{
    woken_.clear();
    flux::InterruptScope ended(&links_.end, [&] { woken_.raise({"the DAT ends"}); });
    std::vector<flux::Task<bool>> waits;
    waits.push_back(sleep_until(until));
    if (window().closed > 0 && (window().span.stopped() || window().termed > 0))
        waits.push_back(wait_until_idle(woken_));
    (void)co_await flux::when_all(std::move(waits));
}

flux::Task<bool> Shutdown::sleep_until(double time)
{
    if (time > 0)
        (void)co_await links_.loop.sleep_until(time, &woken_);
    else
        (void)co_await links_.loop.sleep(INFINITY, &woken_);
    woken_.raise({"it is time"});
    co_return true;
}

flux::Task<bool> Shutdown::wait_until_idle(flux::Interrupt& interrupt)
{
    auto idle = co_await links_.dat->rpc("job-manager.idle", nullptr, flux::nodeid_any,
                                         &interrupt);
    if (!idle && !interrupt.reason() && !links_.end.reason())
        complain("cannot wait for the jobs to end: " + idle.error().message);
    idle_ = idle.has_value();
    if (idle_)
        interrupt.raise({"no job runs"});
    co_return idle_;
}

// "in 5m": as they are told who have something to lose.
std::string Shutdown::ends_when() const
{
    double left = book_.record().window.span.end() - wall_clock();
    return left >= 1 ? "in " + flux::format_fsd(std::round(left)) : "now";
}

flux::Task<void> Shutdown::carry_out(Due to_do)
{
    if (to_do.end)
        co_return co_await end();
    // All that takes time; what is due may be another afterwards.
    auto is_still_due = [&](bool Due::*what) {
        return to_do.*what && window().span.end() == told_end_;
    };
    if (to_do.close && !co_await close()) {
        close_again_ = wall_clock() + close_pause_ / real_seconds(1);
        close_pause_ = std::min(close_pause_ * 2, close_pause_max);
    } else if (to_do.close) {
        close_pause_ = close_pause_min;
    }
    if (is_still_due(&Due::warn)) {
        window().warned = wall_clock();
        co_await warn(fmt::format("this DAT ends {}", ends_when()));
    }
    if (is_still_due(&Due::term)) {
        window().termed = wall_clock();
        co_await signal_jobs(SIGTERM);
    }
    co_await book_.update_if_announced();
}

// Somebody gave the DAT's job another time limit, or stopped the DAT.
flux::Task<void> Shutdown::end_has_moved()
{
    told_end_ = window().span.end();
    auto& done = window();
    if (done.span.stopped())
        co_return; // what is due says it
    double now = wall_clock();
    audit(told_end_ > 0 ? "its end has moved, to " + flux::format_datetime(told_end_)
                        : "it has no time limit any more");
    bool is_known = done.warned > 0 || done.closed > 0;
    // Where the window has become too short for it, it has been done in time.
    auto lies_ahead = [&](double at) { return at > now || told_end_ <= 0; };
    if (lies_ahead(done.plan.term_at))
        done.termed = 0;
    // Not the plan's, which is the SIGTERM's where --close has been passed over.
    double close_at =
        std::min(done.plan.close_at, done.span.expires - done.options.close);
    if (done.closed > 0 && lies_ahead(close_at))
        co_await reopen();
    if (is_known && told_end_ > now) {
        done.warned = now;
        co_await warn("the end of this DAT has moved: it ends " + ends_when());
    } else if (is_known && told_end_ <= 0) {
        co_await warn("the end of this DAT has moved: it has no time limit any more");
    }
    co_await book_.update_if_announced();
}

// Whether they are closed. Only then it is recorded, and those who wait are told.
flux::Task<bool> Shutdown::close()
{
    auto& record = book_.record();
    auto reason = record.stop_reason.empty() ? "its window ends" : record.stop_reason;
    auto why = fmt::format("{}, it ends {}", reason, ends_when());
    auto closed = co_await close_queues(*links_.dat, why);
    if (!closed) {
        if (!links_.end.reason())
            complain("cannot close the queues: " + closed.error().message);
        co_return false;
    }
    window().closed = wall_clock();
    idle_ = false;
    record.state = State::stopping;
    if (record.stop_reason.empty())
        record.stop_reason = reason;
    co_await tell_jobs("pending", close_type,
                       "this DAT is closed, no job starts any more: " + why);
    co_return true;
}

flux::Task<void> Shutdown::reopen()
{
    auto& record = book_.record();
    window().closed = 0;
    idle_ = false;
    record.state = State::ready;
    record.stop_reason.clear();
    auto opened = co_await reopen_queues(*links_.dat);
    if (!opened)
        complain("cannot open the queues again: " + opened.error().message);
}

// An exception that is not fatal is what a guest sees who is attached to a job.
flux::Task<void> Shutdown::warn(std::string text)
{
    // Not waited for: a node may take its time, and a broker that dies never answers.
    links_.loop.spawn(tell_on_all_ranks(
        *links_.dat, links_.size,
        fmt::format("Message of the DAT \"{}\" ({}): {}", book_.record().name,
                    flux::format_jobid_ascii(links_.id), text),
        book_.desired().guests()));
    co_await tell_jobs("running", window().span.stopped() ? stop_type : warn_type,
                       text);
}

// A job that has ended meanwhile takes none.
flux::Task<void> Shutdown::tell_jobs(std::string state, std::string type,
                                     std::string text)
{
    flux::Deadline limit(links_.loop, tell_time_max, takes_too_long, &links_.end);
    auto jobs = co_await jobs_in(*links_.dat, state, &limit.interrupt());
    if (!jobs)
        co_return complain(fmt::format("cannot tell the {} jobs that {}: {}", state,
                                       text, jobs.error().message));
    auto raise = [&](flux::JobId id) {
        return flux::raise(*links_.dat, id, type, flux::severity_least, text);
    };
    co_await to_all(std::move(*jobs), raise, &limit.interrupt());
}

flux::Task<void> Shutdown::signal_jobs(int signum)
{
    auto jobs = co_await jobs_in(*links_.dat, "running", &links_.end);
    if (!jobs)
        co_return complain("cannot signal the jobs: " + jobs.error().message);
    auto kill = [&](flux::JobId id) { return flux::kill(*links_.dat, id, signum); };
    co_await to_all(std::move(*jobs), kill, &links_.end);
}

flux::Task<void> Shutdown::cancel_jobs(std::string state, flux::Interrupt& limit)
{
    auto jobs = co_await jobs_in(*links_.dat, state, &limit);
    if (!jobs)
        co_return complain(
            fmt::format("cannot cancel the {} jobs: {}", state, jobs.error().message));
    auto cancel = [&](flux::JobId id) {
        return flux::raise(*links_.dat, id, "cancel", flux::severity_fatal,
                           "this DAT has ended");
    };
    co_await to_all(std::move(*jobs), cancel, &limit);
}

// Whether no job runs, or came to run no more within these (real) seconds.
flux::Task<bool> Shutdown::idle_within(double seconds)
{
    flux::Deadline limit(links_.loop, seconds, takes_too_long, &links_.end);
    co_return co_await wait_until_idle(limit.interrupt());
}

// The instance's own end would cancel the jobs too, but without saying why; and it
// would wait for those that take no notice. So it does with those that this does not
// reach.
flux::Task<void> Shutdown::end()
{
    if (window().closed <= 0)
        (void)co_await close();
    {
        // What runs first: there is less of it, and it needs its time.
        flux::Deadline limit(links_.loop, cancel_time, takes_too_long, &links_.end);
        co_await cancel_jobs("running", limit.interrupt());
        co_await cancel_jobs("pending", limit.interrupt());
    }
    bool quiet = co_await idle_within(term_time);
    if (!quiet && !links_.end.reason()) {
        co_await signal_jobs(SIGKILL);
        quiet = co_await idle_within(kill_time);
    }
    auto& record = book_.record();
    if (!quiet && !links_.end.reason())
        complain("some jobs did not end when they were killed");
    audit("ended, " + record.stop_reason);
    // The end of the supervisor is the end of a DAT whose initial program it is.
    if (links_.adopted && links_.parent) {
        auto why = window().span.stopped() ? "flux-dat stop" : "its window is over";
        auto ended = co_await flux::raise(*links_.parent, links_.id, "cancel",
                                          flux::severity_fatal, why);
        if (!ended)
            complain("cannot end the DAT's job: " + ended.error().message);
    }
    links_.end.raise({"ended"});
}

} // namespace fluxdat::dat
