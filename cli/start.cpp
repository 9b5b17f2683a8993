// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat start: bring a DAT up.
#include "lib/dat/start.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/start_options.h"
#include "lib/clock.h"
#include "lib/flux/datetime.h"
#include "lib/say.h"

#include <cstdio>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

struct Start {
    Common common;
    StartArguments arguments;

    void add_options(CLI::App& command)
    {
        arguments.add_to(
            command, "How long to wait before giving up with status 5; the job stays");
    }

    // Where nothing is done no instance is asked, and a sandbox's clock that somebody
    // forgot in the environment would make it so for ever, without a word.
    static Result<> check_clock()
    {
        if (clock_setting().empty())
            return {};
        flux::Loop loop;
        auto parent = loop.run(connect_parent(loop));
        return parent ? Result<>() : std::unexpected(parent.error());
    }

    int do_nothing(const dat::Submission& submission, dat::Timeliness due) const
    {
        auto begin = flux::format_datetime(*submission.begin_time);
        if (due == dat::Timeliness::early)
            common.note(fmt::format("it is too early: \"{}\" begins at {}, and is "
                                    "submitted {} before; nothing is done",
                                    submission.name, begin, *arguments.early));
        else
            common.note(fmt::format("the window of \"{}\" is over: it began at {}, for "
                                    "{}; nothing is done",
                                    submission.name, begin,
                                    *arguments.request.time_limit));
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
            if (progress.step == Step::alarm)
                common.alarm(progress.text);
            else if (progress.step == Step::warning)
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
        if (arguments.timeout) {
            auto parsed = seconds_of("--timeout", *arguments.timeout);
            if (!parsed)
                return common.report(parsed.error());
            seconds = *parsed;
        }
        auto parsed = arguments.options();
        if (!parsed)
            return common.report(parsed.error());
        if (arguments.early) {
            auto due = arguments.keep_to_window(*parsed);
            if (!due)
                return common.report(due.error());
            auto clock = *due == dat::Timeliness::now ? Result<>() : check_clock();
            if (!clock)
                return common.report(clock.error());
            if (*due != dat::Timeliness::now)
                return do_nothing(parsed->submission, *due);
        }
        if (auto passed = arguments.begin_that_has_passed(parsed->submission))
            common.warn(*passed);
        flux::Loop loop;
        flux::Interrupt interrupt;
        flux::InterruptSources sources(
            loop, interrupt, seconds,
            Error{fmt::format("timed out after {}", arguments.timeout.value_or("")),
                  ETIMEDOUT, Exit::not_ready});
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
