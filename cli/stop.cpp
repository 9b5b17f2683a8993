// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat stop: end a DAT.
#include "lib/dat/stop.h"
#include "cli/command.h"

namespace fluxdat::cli {

namespace {

struct Stop {
    Common common;
    std::optional<std::string> selector, grace;
    bool now = false;

    flux::Task<Result<Json>> stop(flux::Loop& loop, dat::StopOptions options,
                                  flux::Interrupt& interrupt)
    {
        auto parent = co_await connect_parent(loop, &interrupt);
        if (!parent)
            co_return std::unexpected(parent.error());
        auto dat = co_await dat::find_dat_or_ended(**parent, selector);
        if (!dat)
            co_return std::unexpected(dat.error());
        // Named by its job id, a DAT that is over is "already so", no error.
        bool already = !dat->job.active();
        auto what = fmt::format("the DAT \"{}\" ({})", dat->record.name,
                                flux::format_jobid(dat->job.id));
        Json result{{"version", 1},
                    {"id", flux::format_jobid(dat->job.id)},
                    {"jobid", dat->job.id},
                    {"name", dat->record.name},
                    {"already", already}};
        if (already) {
            common.note(what + " has ended already");
            co_return result;
        }
        auto tell = [this](const std::string& text) {
            if (common.shows_progress())
                common.note(text);
        };
        auto stopped = co_await dat::stop(loop, **parent, std::move(*dat), options,
                                          interrupt, tell);
        if (!stopped)
            co_return std::unexpected(stopped.error());
        tell(fmt::format("{} has ended", what));
        co_return result;
    }

    int run()
    {
        dat::StopOptions options;
        options.now = now;
        if (grace) {
            auto seconds = seconds_of("--grace", *grace);
            if (!seconds)
                return common.report(seconds.error());
            options.grace = *seconds;
        }
        flux::Loop loop;
        flux::Interrupt interrupt;
        flux::InterruptSources sources(loop, interrupt);
        auto stopped = loop.run(stop(loop, options, interrupt));
        if (!stopped)
            return common.report(stopped.error());
        if (common.json)
            print_json(*stopped);
        return finish(common, 0);
    }
};

} // namespace

void add_stop(CLI::App& app, Chosen& chosen)
{
    auto stop = std::make_shared<Stop>();
    auto* command = add_command(app, stop->common, "stop", "End a DAT");
    add_dat_option(*command, stop->selector);
    auto* grace = command
                      ->add_option("--grace", stop->grace,
                                   "How long running jobs may go on (default 30s)")
                      ->type_name("FSD");
    command->add_flag("--now", stop->now, "End it at once, jobs and all")
        ->excludes(grace);
    command->callback([stop, &chosen] { chosen = [stop] { return stop->run(); }; });
}

} // namespace fluxdat::cli
