// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/request.h"

#include "cli/command.h"
#include "lib/flux/constraint.h"
#include "lib/flux/fsd.h"
#include "lib/flux/text.h"

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
    auto take_queue = [this](const std::string& text) {
        if (text.starts_with('-'))
            throw CLI::ValidationError(
                "--queue", fmt::format("{} is no queue's name; -q is the queue, as in "
                                       "flux alloc, and --quiet is written out",
                                       flux::in_quotes(text)));
        queue = text;
    };
    command.add_option_function<std::string>("-q,--queue", take_queue,
                                             "The queue of the parent");
    command.add_option("-B,--bank", bank, "The bank to charge");
    command.add_option("--requires", constraint, "Which nodes (RFC 35)")
        ->type_name("CONSTRAINT");
    auto repeatable = [&](const char* names, std::vector<std::string>& values,
                          const char* type, const char* text) {
        command.add_option(names, values, text)
            ->type_name(type)
            ->allow_extra_args(false);
    };
    repeatable("-o,--setopt", setopts, "NAME[=VAL]",
               "An option of the job shell (repeatable)");
    repeatable("-S,--setattr", setattrs, "KEY[=VAL]",
               "An attribute of the job (repeatable)");
    repeatable("--env", environment, "RULE",
               "A rule for the brokers' environment (repeatable)");
}

Result<> RequestOptions::apply_to(dat::Submission& submission) const
{
    submission.nodes = nodes;
    submission.queue = queue;
    submission.bank = bank;
    submission.setopts = setopts;
    submission.setattrs = setattrs;
    auto built = dat::job_environment(dat::current_environment(), environment);
    if (!built)
        return std::unexpected(built.error());
    submission.environment = std::move(*built);
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

void GuestOptions::add_to(CLI::App& command)
{
    add_list_option(command, "--user", users, "USER,...",
                    "Guests, by name or uid (repeatable)");
    add_list_option(command, "--group", groups, "GROUP,...",
                    "Groups whose members are guests (repeatable)");
}

void DoorOptions::add_to(CLI::App& command)
{
    command
        .add_option("--door-dir", dir, "Where the ranks' doors go (default /run/flux)")
        ->type_name("DIR");
    command.add_flag("--open", open, "Everybody may enter");
}

Result<> DoorOptions::check() const
{
    if (dir && !dir->starts_with('/'))
        return fail(Exit::usage, "--door-dir {}: not an absolute path", *dir);
    return {};
}

} // namespace fluxdat::cli
