// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/start.h"

#include "lib/accounts.h"
#include "lib/clock.h"
#include "lib/dat/check.h"
#include "lib/dat/check_imp.h"
#include "lib/dat/find.h"
#include "lib/dat/output.h"
#include "lib/dat/start_warnings.h"
#include "lib/flux/datetime.h"
#include "lib/imp/sign.h"
#include "lib/imp/sign_site.h"
#include "lib/imp/user.h"

#include <algorithm>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// How long a job that was cancelled may take to end before we stop looking.
constexpr double undo_time_max = 60;        // seconds
constexpr std::size_t output_lines_max = 5; // of the brokers' last words
// A job that gets its nodes at once has them long before.
constexpr double waiting_moment = 1; // seconds
// A start records its job right after submitting it. One that has not in this time was
// killed, or its node is gone. (Counted from the submission where it is the only job of
// that name; where one of ours is there, too, from then on, whatever the clocks say.)
constexpr double settle_time_max = 30; // seconds
// How long what is not waited for is looked at: a scheduler refuses in some
// milliseconds.
constexpr double refusal_time_max = 1; // seconds
// How long a DAT that is over may take to clean up before another of its name starts
// all the same. A node that hangs in an epilog must not keep a window shut.
constexpr double cleanup_time_max = 60; // seconds
// How often a start begins again after it lost its name to one that then ended, too.
constexpr int claims_max = 10;

// What an event of the job's eventlog means to somebody who waits for the DAT; empty
// for those that mean nothing to them.
std::string describe(const flux::Event& event)
{
    auto what = flux::text_at(event.context, "description");
    if (auto begin = flux::begin_time_in(what)) // a number that nobody reads
        what = "its begin time, " + flux::format_datetime(*begin);
    if (event.name == "dependency-add")
        return "waiting for " + what;
    if (event.name == "priority")
        return "waiting for nodes";
    if (event.name == "alloc")
        return "nodes are allocated";
    if (event.name == "prolog-start")
        return "prolog: " + what;
    if (event.name == "start")
        return "the ranks are starting";
    return {};
}

Progress::Phase phase_after(const flux::Event& event)
{
    using Phase = Progress::Phase;
    return event.name == "alloc"          ? Phase::allocated
           : event.name == "prolog-start" ? Phase::prolog
           : event.name == "start"        ? Phase::booting
                                          : Phase::same;
}

bool is_fatal(const flux::Event& event)
{
    return event.name == "exception"
           && flux::integer_at(event.context, "severity", flux::severity_least)
                  == flux::severity_fatal;
}

Error exception_error(const flux::Event& event, flux::JobId id)
{
    auto note = flux::text_at(event.context, "note");
    return {fmt::format("the DAT's job {} ended before it was ready: {}{}{}",
                        flux::format_jobid(id),
                        flux::text_at(event.context, "type", "exception"),
                        note.empty() ? "" : ": ", note)};
}

// Ends the job and sees it end. The error is `why`, with what could not be undone.
flux::Task<Error> undo(flux::Loop& loop, flux::Connection& parent, flux::JobId id,
                       Error why)
{
    auto unfinished = [&](const std::string& reason) {
        why.message +=
            fmt::format("; its job {} may still be there: {} (flux-dat stop "
                        "--dat {})",
                        flux::format_jobid(id), reason, flux::format_jobid_ascii(id));
        return why;
    };
    if (parent.lost())
        co_return unfinished(parent.lost()->message == why.message
                                 ? "it was submitted before"
                                 : parent.lost()->message);
    auto cancelled = co_await flux::raise(parent, id, "cancel", flux::severity_fatal,
                                          "flux-dat start: " + why.message);
    // A job that has ended already refuses to be cancelled; the eventlog tells.
    // A second signal (timeout(1) sends one to the child, then one to its group) does
    // not cut this short: then the job would be left behind.
    flux::Interrupt limit;
    flux::InterruptSources sources(loop, limit, undo_time_max,
                                   Error{"it did not end in time", ETIMEDOUT},
                                   flux::InterruptSources::Signals::ignore);
    auto ended = co_await flux::wait_for_end(parent, id, &limit);
    if (!ended)
        co_return unfinished(cancelled ? ended.error().message
                                       : cancelled.error().message);
    if (why.errnum == EINTR) // whoever pressed Ctrl-C wants to know
        why.message += fmt::format("; its job {} {}", flux::format_jobid(id),
                                   cancelled ? "was cancelled" : "has ended");
    co_return why;
}

// Why a wait for another job was given up.
const Error too_long{"it takes too long", ETIMEDOUT};

class Start
{
public:
    Start(flux::Loop& loop, flux::Connection& parent, StartOptions& options,
          flux::Interrupt& interrupt, OnProgress& progress)
        : loop_(loop), parent_(parent), options_(options), interrupt_(interrupt),
          progress_(progress)
    {
    }

    flux::Task<Result<Started>> run()
    {
        auto composed = co_await compose_for(parent_, options_.configuration);
        if (!composed)
            co_return std::unexpected(composed.error());
        auto sound = conf::lint(*composed);
        if (!sound) {
            co_await tell_of(*composed); // which may say more
            co_return std::unexpected(sound.error());
        }
        auto window = window_options(*composed, options_.window);
        if (!window)
            co_return std::unexpected(window.error());
        file_.record.window.options = std::move(*window);
        for (int claims = 1;; claims++) {
            auto holder = co_await name_holder();
            if (!holder)
                co_return std::unexpected(holder.error());
            if (*holder)
                co_return taken_by(std::move(**holder));
            if (claims == 1) {
                co_await tell_of(*composed);
                co_await tell_of_window();
            }
            auto submitted = co_await submit(*composed);
            if (!submitted)
                co_return std::unexpected(submitted.error());
            auto claimed = co_await claim_name();
            if (!claimed)
                co_return std::unexpected(
                    co_await undo(loop_, parent_, id_, std::move(claimed.error())));
            if (*claimed)
                break;
            Error yielded{fmt::format("another start of \"{}\" was first", name())};
            auto undone = co_await undo(loop_, parent_, id_, yielded);
            if (undone.message != yielded.message || claims == claims_max)
                co_return std::unexpected(undone);
        }
        auto recorded = co_await record();
        // A job may be over before it was recorded: its eventlog says why.
        if (!recorded && recorded.error().errnum != EINVAL
            && recorded.error().errnum != ENOENT)
            co_return std::unexpected(
                co_await undo(loop_, parent_, id_, std::move(recorded.error())));

        if (!options_.wait) {
            auto refused = co_await refusal();
            if (refused)
                co_return std::unexpected(std::move(*refused));
            co_return Started{id_, name(), "pending", {}, {}, false};
        }
        std::vector<flux::Task<Result<Started>>> flows;
        flows.push_back(wait_until_ready());
        flows.push_back(tell_of_waiting());
        auto results = co_await flux::when_all(std::move(flows));
        auto ready = std::move(results[0]);
        if (ready)
            co_return ready;
        if (ready.error().exit == Exit::not_ready && !options_.cancel_on_timeout)
            co_return ready;
        auto error = co_await undo(loop_, parent_, id_, std::move(ready.error()));
        if (auto line = co_await imp_last_line(parent_, id_); !line.empty())
            error.message += "; " + line;
        co_return std::unexpected(std::move(error));
    }

private:
    const std::string& name() const { return options_.submission.name; }
    void tell(Progress::Step step, std::string text,
              Progress::Phase phase = Progress::Phase::same)
    {
        progress_(Progress{step, std::move(text), phase, id_});
    }

    // What is to be known of the configuration of a DAT that is about to be submitted.
    flux::Task<> tell_of(const conf::Composed& composed)
    {
        for (auto& notice : composed.notices)
            tell(Progress::Step::notice, notice);
        const auto* value = composed.root.find("exec.imp");
        auto imp = value && value->string() ? *value->string() : "";
        bool is_told = false;
        for (auto& warning : composed.warnings) {
            bool stands_in = false;
            if (conf::is_of_imp(warning)) {
                is_told = true;
                stands_in = co_await is_stand_in(parent_, imp);
            }
            if (stands_in)
                tell(Progress::Step::notice,
                     fmt::format("no IMP: {}; for these: {}", stand_in_seen,
                                 stand_in_remedy));
            else
                tell(Progress::Step::alarm, warning);
        }
        if (is_told || imp.empty())
            co_return;
        if (auto refused = imp_refusal(imp, user_name(geteuid())))
            tell(Progress::Step::alarm, fmt::format("guests' jobs will not run: {}; {}",
                                                    refused->seen, refused->remedy));
    }

    flux::Task<> tell_of_window()
    {
        auto& wish = options_.window;
        if (options_.limit_is_rest || (!wish.warn && !wish.close && !wish.grace))
            co_return;
        auto limit = options_.submission.time_limit;
        if (limit == 0) {
            auto config = co_await flux::configuration(parent_);
            if (!config)
                co_return; // submitting fails, too
            limit = default_time_limit(options_.submission.queue, *config);
        }
        for (auto& warning : window_warnings(wish, file_.record.window.options, limit))
            tell(Progress::Step::alarm, warning);
    }

    void tell_of_difference(const flux::JobInfo& job)
    {
        auto found = difference(job, options_.submission);
        if (options_.limit_is_rest)
            found.time.clear();
        auto text = found.nodes;
        if (!found.time.empty())
            text += (text.empty() ? "" : ", and ") + found.time;
        if (text.empty())
            return;
        // One whose end was moved is as somebody wanted it: that is no mail of cron's.
        tell(
            found.nodes.empty() ? Progress::Step::warning : Progress::Step::alarm,
            fmt::format("the DAT \"{}\" that is there, job {}, is not as asked for: {}",
                        name(), flux::format_jobid(job.id), text));
    }

    Result<Started> taken_by(flux::JobInfo job)
    {
        if (!options_.if_not_running)
            return fail("you have a DAT named \"{}\" already: job {} (--if-not-running "
                        "takes it as done)",
                        name(), flux::format_jobid(job.id));
        tell_of_difference(job);
        Started started{job.id, name(), "starting", job.nodelist, {}, true};
        if (auto dat = dat_of(std::move(job))) {
            started.phase = dat->phase();
            started.uri = dat->uri();
        }
        return started;
    }

    // While the name was being claimed, the supervisor may have come up, and said more.
    flux::Task<Result<>> record()
    {
        if (claims_name())
            if (auto own = co_await flux::list_job(parent_, id_); own && dat_of(*own))
                co_return Result<>{};
        co_return co_await post_record(parent_, id_, file_.record);
    }

    bool claims_name() const { return options_.unique_name || options_.if_not_running; }

    // The job that has the name already, if one has. Waits for what is so for a moment
    // only: that another start is at it, that the last one is being cleaned up.
    flux::Task<Result<std::optional<flux::JobInfo>>> name_holder()
    {
        flux::JobId unsettled = 0, unclean = 0;
        while (claims_name()) {
            auto found = co_await find_namesakes(parent_, name(), geteuid(), 0);
            if (!found)
                co_return std::unexpected(found.error());
            if (found->holder && (found->recorded || found->holder->id == unsettled))
                co_return std::move(found->holder);
            if (found->holder) {
                unsettled = found->holder->id;
                // Of one that was killed long ago, cron's next call has it at once.
                double age = real_seconds(wall_clock() - found->holder->t_submit);
                tell(Progress::Step::event,
                     fmt::format("waiting for job {}, of a start of that name that has "
                                 "not recorded it yet",
                                 flux::format_jobid(unsettled)));
                auto settled = co_await wait_for_record_or_end(
                    unsettled, settle_time_max - std::clamp(age, 0.0, settle_time_max));
                if (!settled)
                    co_return std::unexpected(nothing_submitted(settled.error()));
                continue;
            }
            if (found->cleaning_up && found->cleaning_up->id != unclean) {
                unclean = found->cleaning_up->id;
                tell(Progress::Step::event,
                     fmt::format("waiting for job {}, the last of that name, to end",
                                 flux::format_jobid(unclean)));
                flux::Deadline limit(loop_, cleanup_time_max, too_long, &interrupt_);
                (void)co_await flux::wait_for_end(parent_, unclean, &limit.interrupt());
                if (interrupt_.reason())
                    co_return std::unexpected(nothing_submitted(*interrupt_.reason()));
                continue;
            }
            if (found->cleaning_up)
                tell(Progress::Step::warning,
                     fmt::format("the last DAT named \"{}\" is over, but its job {} is "
                                 "still being cleaned up",
                                 name(), flux::format_jobid(found->cleaning_up->id)));
            if (found->alike)
                tell(
                    Progress::Step::warning,
                    fmt::format("you have a DAT named \"{}\", too ({}): names are told "
                                "apart by case",
                                found->alike->record.name,
                                flux::format_jobid(found->alike->job.id)));
            break;
        }
        co_return std::optional<flux::JobInfo>{};
    }

    Error nothing_submitted(Error error) const
    {
        if (error.exit == Exit::not_ready)
            error.message += fmt::format(
                ": another job of \"{}\" was waited for; none was submitted", name());
        return error;
    }

    // Sets id_.
    flux::Task<Result<>> submit(const conf::Composed& composed)
    {
        auto J = co_await signed_jobspec(composed);
        if (!J)
            co_return std::unexpected(J.error());
        if (interrupt_.reason())
            co_return std::unexpected(*interrupt_.reason());
        auto id = co_await flux::submit(parent_, std::move(*J), options_.urgency);
        if (!id && parent_.lost())
            co_return std::unexpected(
                Error{id.error().message
                          + "; the job may have been submitted all the same (flux-dat "
                            "status tells)",
                      id.error().errnum, Exit::failed});
        if (!id)
            // EPERM is no matter of permission here: job-ingest answers it for whatever
            // its validator refuses, an unknown host for instance.
            co_return std::unexpected(
                Error{"the job was not accepted: " + id.error().message,
                      id.error().errnum, Exit::failed});
        id_ = *id;
        tell(Progress::Step::submitted,
             fmt::format("job {} submitted", flux::format_jobid(id_)),
             Progress::Phase::pending);
        co_return Result<>{};
    }

    flux::Task<Result<std::string>> signed_jobspec(const conf::Composed& composed)
    {
        file_.record.name = name();
        file_.record.guests = options_.guests;
        file_.record.managers = options_.managers;
        file_.door_dir = options_.door_dir ? options_.door_dir : composed.door_dir;
        auto jobspec =
            dat_jobspec(options_.submission, file_, composed.json(), options_.program);
        if (!jobspec)
            co_return std::unexpected(jobspec.error());
        co_return co_await sign_for(parent_, *jobspec);
    }

    // See the head of start.h. Whether the name is our job's.
    flux::Task<Result<bool>> claim_name()
    {
        if (!claims_name())
            co_return true;
        auto own = co_await flux::list_job(parent_, id_); // job-list knows it now
        if (!own)
            co_return std::unexpected(own.error());
        flux::JobId unsettled = 0;
        while (true) {
            auto other = co_await find_namesakes(parent_, name(), geteuid(), id_);
            if (!other)
                co_return std::unexpected(other.error());
            if (!other->holder)
                co_return true;
            if (other->recorded || other->holder->id < id_
                || other->holder->id == unsettled)
                co_return false;
            unsettled = other->holder->id;
            auto settled = co_await wait_for_record_or_end(unsettled, settle_time_max);
            if (!settled)
                co_return std::unexpected(settled.error());
        }
    }

    // ... or until so many seconds have passed. An error only if we are interrupted, or
    // the parent is lost.
    flux::Task<Result<>> wait_for_record_or_end(flux::JobId id, double seconds)
    {
        flux::Deadline limit(loop_, seconds, too_long, &interrupt_);
        flux::EventlogWatch watch(parent_, id, "eventlog");
        while (true) {
            auto event = co_await watch.next(&limit.interrupt());
            if (interrupt_.reason())
                co_return std::unexpected(*interrupt_.reason());
            if (parent_.lost())
                co_return std::unexpected(*parent_.lost());
            if (!event || !*event || (*event)->name == "clean" || record_in(**event))
                co_return Result<>{};
        }
    }

    // Of a job that will not be waited for: what the scheduler refuses for good, as
    // more nodes than there are, it refuses when it first sees the job. Nobody would
    // hear of it later, and cron would submit another one at each call.
    flux::Task<std::optional<Error>> refusal()
    {
        flux::Deadline limit(loop_, refusal_time_max, too_long, &interrupt_);
        flux::EventlogWatch watch(parent_, id_, "eventlog");
        while (true) {
            auto event = co_await watch.next(&limit.interrupt());
            if (!event || !*event || (*event)->name == "alloc"
                || (*event)->name == "dependency-add") // for a begin time
                co_return std::nullopt;
            if (is_fatal(**event))
                co_return exception_error(**event, id_);
        }
    }

    // Gives nothing that counts.
    flux::Task<Result<Started>> tell_of_waiting()
    {
        auto waited = co_await loop_.sleep(waiting_moment, &allocated_);
        if (waited && !waiting_for_.empty())
            tell(Progress::Step::waiting,
                 fmt::format("job {} is {}", flux::format_jobid(id_), waiting_for_));
        co_return Started{};
    }

    flux::Task<Result<Started>> wait_until_ready()
    {
        auto ready = co_await follow_eventlog();
        allocated_.raise({"it waits no more"});
        co_return ready;
    }

    flux::Task<Result<Started>> follow_eventlog()
    {
        flux::EventlogWatch watch(parent_, id_, "eventlog");
        Started started{id_, name(), "starting", {}, {}, false};
        while (true) {
            auto event = co_await watch.next(&interrupt_);
            if (!event)
                co_return std::unexpected(waiting_error(event.error()));
            if (!*event || (*event)->name == "clean")
                co_return std::unexpected(co_await last_words());
            if (is_fatal(**event))
                co_return std::unexpected(exception_error(**event, id_));
            if (auto record = record_in(**event)) {
                if (record->state == State::ready)
                    break;
                continue;
            }
            if ((*event)->name == "memo")
                started.uri = flux::text_at((*event)->context, "uri", started.uri);
            if ((*event)->name == "alloc")
                allocated_.raise({"it has its nodes"});
            auto text = describe(**event);
            if (text.starts_with("waiting for "))
                waiting_for_ = text;
            if (!text.empty())
                tell(Progress::Step::event, std::move(text), phase_after(**event));
        }
        tell(Progress::Step::event, {}, Progress::Phase::ready);
        auto job = co_await flux::list_job(parent_, id_);
        if (job)
            started.nodelist = job->nodelist;
        started.phase = "ready";
        co_return started;
    }

    Error waiting_error(Error error) const
    {
        if (error.exit != Exit::not_ready)
            return error;
        if (options_.cancel_on_timeout)
            error.message += fmt::format(": job {} was not ready yet; it was cancelled",
                                         flux::format_jobid(id_));
        else
            error.message = fmt::format(
                "{}: job {} is not ready yet; it was left as it is (flux-dat status "
                "--dat {})",
                error.message, flux::format_jobid(id_), flux::format_jobid_ascii(id_));
        return error;
    }

    // The job ended without an exception: its brokers gave up. Their output says why.
    flux::Task<Error> last_words()
    {
        Error error{fmt::format("the DAT's job {} ended before it was ready",
                                flux::format_jobid(id_))};
        auto lines = co_await output_tail(parent_, id_, output_lines_max);
        if (!lines.empty())
            error.message += ": " + lines.back();
        for (auto& line : lines)
            tell(Progress::Step::event, line);
        co_return error;
    }

    flux::Loop& loop_;
    flux::Connection& parent_;
    StartOptions& options_;
    flux::Interrupt& interrupt_;
    OnProgress& progress_;
    DatFile file_;
    flux::JobId id_ = 0;
    flux::Interrupt allocated_;
    std::string waiting_for_; // "waiting for nodes"
};

} // namespace

flux::Task<Result<Started>> start(flux::Loop& loop, flux::Connection& parent,
                                  StartOptions options, flux::Interrupt& interrupt,
                                  OnProgress progress)
{
    Start flow(loop, parent, options, interrupt, progress);
    co_return co_await flow.run();
}

flux::Task<Result<conf::Composed>> compose_for(flux::Connection& parent,
                                               conf::Inputs inputs)
{
    auto configuration = co_await flux::configuration(parent);
    if (!configuration)
        co_return std::unexpected(configuration.error());
    inputs.parent = std::move(*configuration);
    inputs.parent_label = fmt::format("parent instance ({})", parent.uri());
    co_return conf::compose(inputs);
}

Result<WindowOptions> window_options(const conf::Composed& composed,
                                     const WindowWish& wish)
{
    auto wrong = [](const conf::Setting& setting, const char* key, const Error& error) {
        return fail(setting.origin.exit(), "{}: dat.{}: {}", setting.origin.str(), key,
                    error.message);
    };
    WindowWish site;
    if (auto& warn = composed.warn) {
        auto parsed = parse_warnings(warn->text);
        if (!parsed)
            return wrong(*warn, "warn", parsed.error());
        site.warn = std::move(*parsed);
    }
    for (auto& [key, setting, value] :
         {std::tuple("close", &composed.close, &site.close),
          std::tuple("grace", &composed.grace, &site.grace)}) {
        if (!*setting)
            continue;
        auto parsed = parse_before_end((*setting)->text);
        if (!parsed)
            return wrong(**setting, key, parsed.error());
        *value = *parsed;
    }
    return wish.over(site.over({}));
}

flux::Task<Result<std::string>> sign_for(flux::Connection& flux, const Json& jobspec)
{
    auto owner = co_await flux::attribute_number(flux, "security.owner");
    if (!owner)
        co_return std::unexpected(owner.error());
    auto payload = flux::dump_json(jobspec);
    auto uid = getuid();
    if (uid == 0 && *owner != 0) {
        // Flux would say "signer=0 != requestor=999" where root counts as the owner.
        auto account = imp::user_by_uid(*owner);
        auto name = account ? account->name : std::to_string(*owner);
        co_return fail(Exit::not_permitted,
                       "root's jobs are not accepted by an instance of user {}: run "
                       "this as {} (runuser -u {} -- flux-dat ...)",
                       name, name, name);
    }
    auto mechanism = *owner == uid ? imp::Mechanism::none : imp::Mechanism::munge;
    imp::SignConfig site;
    if (mechanism == imp::Mechanism::munge) {
        auto read = imp::read_sign_config(imp::sign_pattern(), uid);
        if (!read)
            co_return fail("cannot sign the job: {}", read.error().message);
        site = std::move(*read);
    }
    auto J = imp::sign_wrap(payload, mechanism, uid, site.policy.munge_socket);
    if (!J)
        co_return fail("cannot sign the job: {}", J.error().message);
    co_return std::move(*J);
}

} // namespace fluxdat::dat
