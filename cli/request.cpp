// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/request.h"

#include "cli/command.h"
#include "lib/flux/constraint.h"
#include "lib/flux/fsd.h"

namespace fluxdat::cli {

void RequestOptions::add_to(CLI::App& command)
{
    add_number_option(
        command, "-N,--nodes", [this](std::uint32_t count) { nodes = count; }, 1,
        count_max, "How many nodes (default 1)");
    command
        .add_option("-t,--time-limit", time_limit,
                    "How long the DAT lasts; a bare number is minutes")
        ->type_name("MINUTES|FSD");
    command.add_option("-q,--queue", queue, "The queue of the parent");
    command.add_option("--requires", constraint, "Which nodes (RFC 35)")
        ->type_name("CONSTRAINT");
}

Result<> RequestOptions::apply_to(dat::Submission& submission) const
{
    submission.nodes = nodes;
    submission.queue = queue;
    if (time_limit) {
        auto seconds = flux::parse_time_limit(*time_limit);
        if (!seconds)
            return fail(Exit::usage, "--time-limit: {}", seconds.error().message);
        submission.time_limit = *seconds;
    }
    if (constraint) {
        auto parsed = flux::parse_constraint(*constraint);
        if (!parsed)
            return fail(Exit::usage, "--requires: {}", parsed.error().message);
        submission.constraints = std::move(*parsed);
    }
    return {};
}

} // namespace fluxdat::cli
