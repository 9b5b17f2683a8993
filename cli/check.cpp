// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat check: what would make a DAT fail, found before it does.
#include "lib/dat/check.h"
#include "cli/command.h"
#include "cli/dat_fields.h"
#include "cli/start_options.h"
#include "cli/table.h"
#include "lib/dat/preflight.h"
#include "lib/harmless.h"
#include "lib/say.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

// Wider lists of nodes push their line out, and no other.
constexpr std::size_t nodes_width_max = 24; // columns

Hue hue_of(dat::Found found)
{
    switch (found) {
    case dat::Found::ok:
        return Hue::good;
    case dat::Found::warning:
        return Hue::busy;
    case dat::Found::failed:
        return Hue::bad;
    case dat::Found::skipped:
        return Hue::plain;
    }
    return Hue::plain;
}

std::string nodes_of(const dat::Verdict& verdict)
{
    return verdict.hosts.empty() ? "-" : flux::format_hostlist(verdict.hosts);
}

// Not as table.h has it: a long list of nodes would move what was seen of all others to
// the right, and a remedy, which is copied, must not be cut.
void print_table(const std::vector<dat::Verdict>& verdicts, bool header)
{
    constexpr std::size_t id_width = 13, state_width = 7; // columns
    auto screen = screen_of(STDOUT_FILENO);
    std::size_t width = columns_of("NODES");
    for (auto& verdict : verdicts)
        width = std::max(
            width, std::min(nodes_width_max, columns_of(harmless(nodes_of(verdict)))));
    // On a terminal text goes on below itself, in whole words; in a pipe it is one
    // line.
    auto texts = [&](const std::string& text, std::size_t indent) {
        constexpr std::size_t least = 20; // columns; with fewer it is no text
        if (!screen.terminal || screen.columns < indent + least)
            return std::vector{text};
        return wrapped(text, screen.columns - indent);
    };
    auto line = [&](const std::string& id, Cell state, const std::string& nodes,
                    const std::string& seen) {
        auto indent = id_width + state_width + std::max(width, columns_of(nodes)) + 3;
        auto lines = texts(seen, indent);
        say(stdout, "{} {} {} {}\n", padded(id, id_width),
            screen.paint(state.hue, padded(state.text, state_width)),
            padded(nodes, width), lines.front());
        for (std::size_t i = 1; i < lines.size(); i++)
            say(stdout, "{}{}\n", padded("", indent), lines[i]);
    };
    if (header)
        line("CHECK", {"STATE"}, "NODES", "SEEN");
    for (auto& verdict : verdicts) {
        line(verdict.id,
             {std::string(dat::to_string(verdict.found)), hue_of(verdict.found)},
             harmless(nodes_of(verdict)), harmless(verdict.seen));
        if (verdict.remedy.empty() || verdict.found == dat::Found::ok)
            continue;
        std::string arrow = "->";
        for (auto& text : texts(harmless(verdict.remedy), id_width + 4)) {
            say(stdout, "{} {} {}\n", padded("", id_width), arrow, text);
            arrow = "  ";
        }
    }
}

struct Check {
    Common common;
    StartArguments arguments; // those of the start that is checked

    void add_options(CLI::App& command)
    {
        arguments.add_to(command, "How long a node may take to answer (default 15s)");
    }

    Result<dat::PreflightOptions> options() const
    {
        dat::PreflightOptions options;
        auto start = arguments.options();
        if (!start)
            return std::unexpected(start.error());
        options.start = std::move(*start);
        if (auto& timeout = arguments.timeout) {
            auto seconds = seconds_of("--timeout", *timeout);
            if (!seconds)
                return std::unexpected(seconds.error());
            if (*seconds <= 0 || !std::isfinite(*seconds))
                return fail(Exit::usage,
                            "--timeout {}: give how long a node may take, more than 0",
                            *timeout);
            options.node_answer_time = *seconds;
        }
        // Whatever time it is now, it is the window as it was asked for that is
        // checked.
        if (arguments.early) {
            auto at_any_time = options.start;
            if (auto due = arguments.keep_to_window(at_any_time); !due)
                return std::unexpected(due.error());
        }
        options.begin_has_passed =
            arguments.begin_that_has_passed(options.start.submission);
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
            return static_cast<std::size_t>(
                std::count_if(verdicts.begin(), verdicts.end(),
                              [&](auto& each) { return each.found == found; }));
        };
        auto failures = count(dat::Found::failed);
        if (failures > 0)
            return fmt::format("a start would fail: {} failed",
                               plural(failures, "check"));
        if (exit != Exit::ok)
            return "nothing failed, but not all could be looked at";
        auto warnings = count(dat::Found::warning);
        if (warnings > 0)
            return "a start would work: " + plural(warnings, "warning");
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
