// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat start: bring a DAT up.
#include "lib/dat/start.h"
#include "cli/command.h"
#include "cli/configuration.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/window_options.h"
#include "lib/clock.h"
#include "lib/dat/early.h"
#include "lib/flux/datetime.h"
#include "lib/program.h"
#include "lib/say.h"

#include <cstdio>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

constexpr const char* default_name = "dat";

Result<int> parse_urgency(const std::string& text)
{
    if (text == "default")
        return flux::urgency_default;
    if (text == "hold")
        return flux::urgency_hold;
    if (text == "expedite")
        return flux::urgency_expedite;
    auto value = number<int>(text);
    if (value && *value >= flux::urgency_hold && *value <= flux::urgency_expedite)
        return *value;
    return fail(Exit::usage,
                "--urgency {}: use 0 to 31, \"hold\", \"expedite\" or \"default\"",
                text);
}

struct Start {
    Common common;
    ConfigurationOptions configuration;
    RequestOptions request;
    WindowArguments window;
    GuestOptions guests;
    DoorOptions doors;
    std::optional<std::string> name, begin_time, urgency, timeout, early;
    std::vector<std::string> managers;
    bool if_not_running = false, no_wait = false;
    bool cancel_on_timeout = false;

    void add_options(CLI::App& command)
    {
        request.add_to(command);
        command.add_option("--name,--job-name", name,
                           "What to call the DAT (default \"dat\")");
        guests.add_to(command);
        add_list_option(command, "--manager", managers, "USER,...",
                        "Who may change the guest list besides the owner (repeatable)");
        window.add_to(command);
        command.add_option("--begin-time", begin_time, "Not before this time")
            ->type_name("+FSD|TIME");
        command
            .add_option("--early", early,
                        "Before --begin-time by more than this, or after the window, "
                        "do nothing and succeed")
            ->type_name("FSD");
        command.add_option("--urgency", urgency,
                           "0 to 31, hold, expedite or default (16)");
        configuration.add_to(command);
        doors.add_to(command);
        command.add_flag("--if-not-running", if_not_running,
                         "With a DAT of that name there already, print its id and "
                         "succeed");
        command.add_flag("--no-wait", no_wait,
                         "Do not wait until guests can work; print the id at once");
        auto* timeout_option =
            command
                .add_option("--timeout", timeout,
                            "How long to wait before giving up with status 5; the job "
                            "stays")
                ->type_name("FSD");
        command
            .add_flag("--cancel-on-timeout", cancel_on_timeout, "The job does not stay")
            ->needs(timeout_option);
    }

    Result<dat::Submission> submission() const
    {
        dat::Submission submission;
        submission.name = name.value_or(default_name);
        if (auto good = dat::check_name(submission.name); !good)
            return std::unexpected(good.error());
        if (auto applied = request.apply_to(submission); !applied)
            return std::unexpected(applied.error());
        if (begin_time) {
            auto when = flux::parse_begin_time(*begin_time, wall_clock());
            if (!when)
                return fail(Exit::usage, "--begin-time: {}", when.error().message);
            submission.begin_time = *when;
        }
        return submission;
    }

    // --early: the window is --begin-time and --time-limit, whenever this is called.
    // One that is started late ends when it would have.
    Result<dat::Timeliness> keep_to_window(dat::Submission& submission) const
    {
        auto seconds = seconds_of("--early", *early);
        if (!seconds)
            return std::unexpected(seconds.error());
        if (!submission.begin_time)
            return fail(Exit::usage, "--early: needs a --begin-time");
        if (begin_time->starts_with('+') || *begin_time == "now")
            return fail(Exit::usage,
                        "--early: needs a --begin-time of the calendar; {} is from "
                        "each call on anew",
                        *begin_time);
        dat::FixedWindow fixed{*submission.begin_time, submission.time_limit, *seconds};
        double now = wall_clock();
        submission.time_limit = dat::limit_from(fixed, now);
        return dat::timeliness(fixed, now);
    }

    int do_nothing(const dat::Submission& submission, dat::Timeliness due) const
    {
        auto begin = flux::format_local_time(*submission.begin_time);
        if (due == dat::Timeliness::early)
            common.note(fmt::format("it is too early: \"{}\" begins at {}, and is "
                                    "submitted {} before; nothing is done",
                                    submission.name, begin, *early));
        else
            common.note(fmt::format("the window of \"{}\" is over: it began at {}, for "
                                    "{}; nothing is done",
                                    submission.name, begin, *request.time_limit));
        if (common.json)
            print_json({{"version", 1},
                        {"id", nullptr},
                        {"jobid", nullptr},
                        {"name", submission.name},
                        {"state", due == dat::Timeliness::early ? "early" : "over"},
                        {"nodes", ""},
                        {"uri", ""},
                        {"already", false}});
        return finish(common, 0);
    }

    Result<dat::StartOptions> options() const
    {
        dat::StartOptions options;
        auto inputs = configuration.inputs();
        if (!inputs)
            return std::unexpected(inputs.error());
        options.configuration = std::move(*inputs);
        auto job = submission();
        if (!job)
            return std::unexpected(job.error());
        options.submission = std::move(*job);
        auto list = first_guest_list(guests.users, guests.groups, doors.open);
        if (!list)
            return std::unexpected(list.error());
        options.guests = std::move(*list);
        auto manager_uids = find_users(managers, "--manager");
        if (!manager_uids)
            return std::unexpected(manager_uids.error());
        options.managers = std::move(*manager_uids);
        auto wish = window.wish();
        if (!wish)
            return std::unexpected(wish.error());
        // Of the window as it was asked for: one that is started late (--early) is
        // shorter, and what it is too short for then is passed over.
        auto good =
            dat::check_window(wish->over({{}, 0, 0}), options.submission.time_limit);
        if (!good)
            return std::unexpected(good.error());
        options.window = std::move(*wish);
        if (urgency) {
            auto value = parse_urgency(*urgency);
            if (!value)
                return std::unexpected(value.error());
            options.urgency = *value;
        }
        if (auto fits = doors.check(); !fits)
            return std::unexpected(fits.error());
        options.door_dir = doors.dir;
        options.program = program_path();
        options.unique_name = name.has_value();
        options.if_not_running = if_not_running;
        options.wait = !no_wait;
        options.cancel_on_timeout = cancel_on_timeout;
        return options;
    }

    flux::Task<Result<dat::Started>> start(flux::Loop& loop, dat::StartOptions options,
                                           flux::Interrupt& interrupt)
    {
        auto parent = co_await connect_parent(loop, &interrupt);
        if (!parent)
            co_return std::unexpected(parent.error());
        std::optional<ProgressLine> line;
        if (common.shows_progress() && !common.verbose && ProgressLine::possible())
            line.emplace(loop);
        auto tell = [this, &line](const dat::Progress& progress) {
            using Step = dat::Progress::Step;
            if (line)
                line->clear();
            if (progress.step == Step::warning)
                common.warn(progress.text);
            else if (progress.step == Step::notice)
                common.note("note: " + progress.text);
            else if (line)
                show(*line, progress);
            else if (progress.text.empty())
                return;
            else if (common.shows_progress() != (progress.step == Step::waiting))
                common.note(progress.text); // in cron's mail, too, that it waits
        };
        co_return co_await dat::start(loop, **parent, std::move(options), interrupt,
                                      tell);
    }

    static void show(ProgressLine& line, const dat::Progress& progress)
    {
        using Phase = dat::Progress::Phase;
        constexpr std::string_view waiting = "waiting for ";
        line.set_what(flux::format_jobid(progress.id));
        switch (progress.phase) {
        case Phase::pending:
            return line.begin("pending");
        case Phase::allocated:
            return line.begin("alloc");
        case Phase::prolog:
            return line.begin("prolog");
        case Phase::booting:
            return line.begin("booting");
        case Phase::ready:
            return line.begin("ready");
        case Phase::same:
            break;
        }
        if (progress.text.starts_with(waiting))
            line.set_why(progress.text.substr(waiting.size()));
    }

    int run()
    {
        double seconds = 0;
        if (timeout) {
            auto parsed = seconds_of("--timeout", *timeout);
            if (!parsed)
                return common.report(parsed.error());
            seconds = *parsed;
        }
        auto parsed = options();
        if (!parsed)
            return common.report(parsed.error());
        if (early) {
            auto due = keep_to_window(parsed->submission);
            if (!due)
                return common.report(due.error());
            if (*due != dat::Timeliness::now)
                return do_nothing(parsed->submission, *due);
        }
        flux::Loop loop;
        flux::Interrupt interrupt;
        flux::InterruptSources sources(
            loop, interrupt, seconds,
            Error{fmt::format("timed out after {}", timeout.value_or("")), ETIMEDOUT,
                  Exit::not_ready});
        auto started = loop.run(start(loop, std::move(*parsed), interrupt));
        if (!started)
            return common.report(started.error());
        if (common.json)
            print_json({{"version", 1},
                        {"id", flux::format_jobid(started->id)},
                        {"jobid", started->id},
                        {"name", started->name},
                        {"state", started->phase},
                        {"nodes", started->nodelist},
                        {"uri", started->uri},
                        {"already", started->already}});
        else if (!common.quiet) // so that cron has nothing to mail
            say(stdout, "{}\n", flux::format_jobid(started->id));
        if (int status = finish(common, 0); status != 0) {
            common.note(fmt::format("the DAT \"{}\" is there all the same: {}",
                                    started->name, flux::format_jobid(started->id)));
            return status;
        }
        return 0;
    }
};

} // namespace

void add_start(CLI::App& app, Chosen& chosen)
{
    auto start = std::make_shared<Start>();
    auto* command =
        add_command(app, start->common, "start", "Bring a DAT up and print its job id",
                    QuietOption::long_only);
    start->add_options(*command);
    command->callback([start, &chosen] { chosen = [start] { return start->run(); }; });
}

} // namespace fluxdat::cli
