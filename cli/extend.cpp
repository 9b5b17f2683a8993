// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat extend: move the end of a DAT's window.
#include "lib/dat/extend.h"
#include "cli/command.h"
#include "cli/screen.h"
#include "lib/flux/datetime.h"
#include "lib/flux/fsd.h"
#include "lib/flux/text.h"

#include <cmath>

namespace fluxdat::cli {

namespace {

struct Extend {
    Common common;
    std::optional<std::string> selector;
    std::string by;

    Result<double> seconds() const
    {
        auto parsed = flux::parse_fsd(by);
        if (!parsed)
            return std::unexpected(parsed.error());
        if (*parsed <= 0 || !std::isfinite(*parsed))
            return fail(Exit::usage,
                        "{}: give by how much the DAT is to last longer, as in 30m",
                        flux::in_quotes(by));
        return parsed;
    }

    flux::Task<Result<Json>> extend(flux::Loop& loop, double seconds)
    {
        auto parent = co_await connect_parent(loop);
        if (!parent)
            co_return std::unexpected(parent.error());
        auto dat = co_await dat::find_dat(**parent, selector);
        if (!dat)
            co_return std::unexpected(dat.error());
        auto extended = co_await dat::extend(**parent, *dat, seconds);
        if (!extended)
            co_return std::unexpected(extended.error());
        auto lasts = human_duration(extended->duration);
        auto when =
            extended->expiration > 0
                ? fmt::format("ends {}, after {} in all",
                              flux::format_datetime(extended->expiration), lasts)
                : fmt::format("lasts {} when it begins", lasts);
        common.note(fmt::format("the DAT \"{}\" ({}) {}", dat->record.name,
                                flux::format_jobid(dat->job.id), when));
        co_return Json{{"version", 1},
                       {"id", flux::format_jobid(dat->job.id)},
                       {"jobid", dat->job.id},
                       {"name", dat->record.name},
                       {"duration", extended->duration},
                       {"expiration", extended->expiration}};
    }

    int run()
    {
        auto longer = seconds();
        if (!longer)
            return common.report(longer.error());
        flux::Loop loop;
        auto extended = loop.run(extend(loop, *longer));
        if (!extended)
            return common.report(extended.error());
        if (common.json)
            print_json(*extended);
        return finish(common, 0);
    }
};

} // namespace

void add_extend(CLI::App& app, Chosen& chosen)
{
    auto extend = std::make_shared<Extend>();
    auto* command =
        add_command(app, extend->common, "extend", "Move the end of a DAT's window");
    add_dat_option(*command, extend->selector);
    command->add_option("FSD", extend->by, "By how much it is to last longer (30m, 2h)")
        ->type_name("")
        ->required();
    command->callback(
        [extend, &chosen] { chosen = [extend] { return extend->run(); }; });
}

} // namespace fluxdat::cli
