// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat check: what would make a DAT fail, found before it does.
#include "lib/dat/check.h"
#include "cli/command.h"
#include "cli/configuration.h"
#include "cli/request.h"
#include "lib/dat/preflight.h"
#include "lib/flux/fsd.h"
#include "lib/harmless.h"
#include "lib/program.h"
#include "lib/say.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

// Wider lists of nodes push their line out, and no other.
constexpr std::size_t nodes_width_max = 24; // characters

bool coloured()
{
    const char* no = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no && *no);
}

// SGR parameters, ECMA-48; empty for what is not worth a colour.
const char* colour_of(dat::Found found)
{
    switch (found) {
    case dat::Found::ok:
        return "32";
    case dat::Found::warning:
        return "33";
    case dat::Found::failed:
        return "1;31";
    case dat::Found::skipped:
        return "";
    }
    return "";
}

std::string nodes_of(const dat::Verdict& verdict)
{
    return verdict.hosts.empty() ? "-" : flux::format_hostlist(verdict.hosts);
}

void print_table(const std::vector<dat::Verdict>& verdicts, bool header)
{
    std::size_t width = std::string_view("NODES").size();
    for (auto& verdict : verdicts)
        width = std::max(width, std::min(nodes_width_max, nodes_of(verdict).size()));
    if (header)
        say(stdout, "{:<13} {:<7} {:<{}} SEEN\n", "CHECK", "STATE", "NODES", width);
    const bool colour = coloured();
    for (auto& verdict : verdicts) {
        auto state = fmt::format("{:<7}", dat::to_string(verdict.found));
        if (std::string sgr = colour_of(verdict.found); colour && !sgr.empty())
            state = "\033[" + sgr + "m" + state + "\033[0m";
        say(stdout, "{:<13} {} {:<{}} {}\n", verdict.id, state,
            harmless(nodes_of(verdict)), width, harmless(verdict.seen));
        if (!verdict.remedy.empty() && verdict.found != dat::Found::ok)
            say(stdout, "{:<13} -> {}\n", "", harmless(verdict.remedy));
    }
}

struct Check {
    Common common;
    RequestOptions request;
    ConfigurationOptions configuration;
    std::optional<std::string> door_dir, timeout;
    bool open = false;

    void add_options(CLI::App& command)
    {
        request.add_to(command);
        configuration.add_to(command);
        command
            .add_option("--door-dir", door_dir,
                        "Where the ranks' doors go (default /run/flux)")
            ->type_name("DIR");
        command.add_flag("--open", open, "Everybody may enter");
        command
            .add_option("--timeout", timeout,
                        "How long a node may take to answer (default 15s)")
            ->type_name("FSD");
    }

    Result<dat::PreflightOptions> options() const
    {
        dat::PreflightOptions options;
        auto inputs = configuration.inputs();
        if (!inputs)
            return std::unexpected(inputs.error());
        options.configuration = std::move(*inputs);
        options.submission.name = "check";
        if (auto applied = request.apply_to(options.submission); !applied)
            return std::unexpected(applied.error());
        if (door_dir && !door_dir->starts_with('/'))
            return fail(Exit::usage, "--door-dir {}: not an absolute path", *door_dir);
        options.door_dir = door_dir;
        options.open = open;
        if (timeout) {
            auto seconds = flux::parse_fsd(*timeout);
            if (!seconds)
                return fail(Exit::usage, "--timeout: {}", seconds.error().message);
            if (*seconds > 0)
                options.node_answer_time = *seconds;
        }
        options.program = program_path();
        return options;
    }

    flux::Task<Result<std::vector<dat::Verdict>>>
    look(flux::Loop& loop, dat::PreflightOptions options, flux::Interrupt& interrupt)
    {
        auto parent = co_await connect_parent(loop, &interrupt);
        if (!parent && parent.error().errnum == EINTR)
            co_return std::unexpected(parent.error());
        if (!parent)
            co_return dat::preflight_without_parent(parent.error());
        co_return co_await dat::preflight(loop, **parent, std::move(options),
                                          interrupt);
    }

    // For people: what it comes to.
    std::string summary(const std::vector<dat::Verdict>& verdicts, Exit exit) const
    {
        auto count = [&](dat::Found found) {
            return std::count_if(verdicts.begin(), verdicts.end(),
                                 [&](auto& each) { return each.found == found; });
        };
        auto failures = count(dat::Found::failed);
        if (failures > 0)
            return fmt::format("a start would fail: {} check{} failed", failures,
                               failures == 1 ? "" : "s");
        if (exit != Exit::ok)
            return "nothing failed, but not all could be looked at";
        auto warnings = count(dat::Found::warning);
        if (warnings > 0)
            return fmt::format("a start would work: {} warning{}", warnings,
                               warnings == 1 ? "" : "s");
        return "a start would work";
    }

    int run()
    {
        auto parsed = options();
        if (!parsed)
            return common.report(parsed.error());
        flux::Loop loop;
        flux::Interrupt interrupt;
        flux::InterruptSources sources(loop, interrupt);
        auto looked = loop.run(look(loop, std::move(*parsed), interrupt));
        if (!looked)
            return common.report(looked.error());
        auto exit = dat::exit_of(*looked);
        if (common.json) {
            Json checks = Json::array();
            for (auto& verdict : *looked)
                checks.push_back(to_json(verdict));
            print_json({{"version", 1},
                        {"ok", exit == Exit::ok},
                        {"exit", static_cast<int>(exit)},
                        {"checks", std::move(checks)}});
        } else {
            auto shown = *looked;
            if (common.quiet)
                std::erase_if(shown, [](auto& verdict) {
                    return verdict.found != dat::Found::failed;
                });
            print_table(shown, !common.quiet);
            std::fflush(stdout); // the table comes before what it comes to
            common.note(summary(*looked, exit));
        }
        return finish(common, static_cast<int>(exit));
    }
};

} // namespace

void add_check(CLI::App& app, Chosen& chosen)
{
    auto check = std::make_shared<Check>();
    auto* command =
        add_command(app, check->common, "check",
                    "Find out beforehand whether start would work, and why not",
                    QuietOption::long_only);
    check->add_options(*command);
    command->callback([check, &chosen] { chosen = [check] { return check->run(); }; });
}

} // namespace fluxdat::cli
