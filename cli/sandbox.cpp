// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat sandbox: the embedded engine, to try things out and to rehearse a window.
#include "cli/command.h"
#include "cli/screen.h"
#include "lib/clock.h"
#include "lib/flux/hostlist.h"
#include "lib/sandbox/config.h"
#include "lib/sandbox/resources.h"
#include "lib/sandbox/session.h"
#include "lib/say.h"

#include <cstdlib>
#include <filesystem>

namespace fluxdat::cli {

namespace {

// Beyond it, the time before its end at which a DAT ends itself is longer than the 10 s
// of a real one (dat::end_margin).
constexpr std::uint32_t end_margin_speed = 10;

struct Sandbox {
    Common common;
    std::optional<std::uint32_t> size;
    std::optional<std::string> hosts;
    std::optional<std::uint32_t> cores, speed;
    std::vector<std::string> conf;

    Result<std::optional<flux::Hostlist>> choose_hosts() const
    {
        if (!hosts && !size)
            return std::nullopt;
        if (!hosts)
            return flux::parse_hostlist(fmt::format("sandbox[0-{}]", *size - 1));
        auto list = flux::parse_hostlist(*hosts);
        if (!list)
            return fail(Exit::usage, "--hosts: {}", list.error().message);
        if (list->empty() || list->size() > sandbox::session_hosts_max)
            return fail(Exit::usage, "--hosts: must be from 1 to {} hosts, not {}",
                        sandbox::session_hosts_max, list->size());
        return list;
    }

    // As flux-alloc(1) has --conf: a file, KEY=VALUE, or text of several lines.
    Result<std::optional<Json>> configuration() const
    {
        if (conf.empty())
            return std::nullopt;
        Json out = Json::object();
        for (const auto& argument : conf) {
            bool text = argument.find('\n') != argument.npos || argument[0] == '{';
            std::error_code ignored;
            bool assignment = argument.find('=') != argument.npos
                              && !std::filesystem::exists(argument, ignored);
            // KEY=VALUE is a line of TOML, but for strings without quotes.
            auto part = text         ? sandbox::parse_config(argument, "--conf")
                        : assignment ? parse_assignment(argument)
                                     : sandbox::load_config(argument);
            if (!part)
                return fail(Exit::usage, "{}", part.error().message);
            sandbox::merge_config(out, *part);
        }
        return out;
    }

    static Result<Json> parse_assignment(const std::string& argument)
    {
        auto parsed = sandbox::parse_config(argument, "--conf");
        if (parsed)
            return parsed;
        auto equals = argument.find('=');
        return sandbox::parse_config(argument.substr(0, equals + 1)
                                         + Json(argument.substr(equals + 1)).dump(),
                                     "--conf");
    }

    Json describe(const sandbox::Session& session) const
    {
        return {{"version", 1},
                {"uri", session.uri},
                {"hosts", flux::format_hostlist(session.hosts)},
                {"directory", session.directory},
                {"speed", session.speed},
                {"already", session.already}};
    }

    int up()
    {
        auto list = choose_hosts();
        if (!list)
            return common.report(list.error());
        auto config = configuration();
        if (!config)
            return common.report(config.error());
        auto session = sandbox::session_up({*list, cores, *config, speed});
        if (!session)
            return common.report(session.error());
        auto names = flux::format_hostlist(session->hosts);
        if (session->already)
            common.note(fmt::format("it is up already: {}", names));
        else
            common.note(fmt::format(
                "up: {} (eval \"$(flux-dat sandbox env)\" to use it)", names));
        if (!session->already && session->speed > end_margin_speed)
            common.note(
                fmt::format("its clock runs {0} times as fast: what a DAT takes "
                            "to end, a real second, is {1} of it",
                            session->speed, human_duration(session->speed)));
        if (common.json)
            print_json(describe(*session));
        return finish(common, 0);
    }

    int down()
    {
        auto session = sandbox::session_down();
        if (!session)
            return common.report(session.error());
        common.note(session->already ? "it is not up" : "down");
        if (common.json)
            print_json(describe(*session));
        return finish(common, 0);
    }

    int environment()
    {
        auto session = sandbox::session_find();
        if (!session)
            return common.report(session.error());
        if (common.json) {
            print_json(describe(*session));
            return finish(common, 0);
        }
        say(stdout, "export FLUX_URI={}\nexport FLUX_URI_RESOLVE_LOCAL=t\n",
            session->uri);
        if (!session->clock.empty())
            say(stdout, "export {}={}\n", clock_variable, session->clock);
        else if (std::getenv(clock_variable)) // of another sandbox
            say(stdout, "unset {}\n", clock_variable);
        return finish(common, 0);
    }
};

} // namespace

void add_sandbox(CLI::App& app, Chosen& chosen)
{
    auto* group = app.add_subcommand(
        "sandbox", "A Flux of its own on this machine, to try things out");
    group->require_subcommand(1);
    auto add = [&](const char* name, const char* description, int (Sandbox::*run)()) {
        auto sandbox = std::make_shared<Sandbox>();
        auto* command = add_command(*group, sandbox->common, name, description);
        sandbox->common.command = fmt::format("sandbox {}", name);
        command->callback([sandbox, run, &chosen] {
            chosen = [sandbox, run] { return (sandbox.get()->*run)(); };
        });
        return std::pair(command, sandbox);
    };
    auto [up, options] = add("up", "Start it", &Sandbox::up);
    auto& given = *options; // kept by the command's callback
    auto* size = add_number_option(
        *up, "-N,--nodes,--size", [&given](std::uint32_t count) { given.size = count; },
        1, sandbox::session_hosts_max, "How many hosts (default 4)");
    up->add_option("--hosts", options->hosts, "The hosts (default sandbox[0-3])")
        ->type_name("HOSTLIST")
        ->excludes(size);
    add_number_option(
        *up, "--cores", [&given](std::uint32_t count) { given.cores = count; }, 1,
        sandbox::node_cores_max, "Cores of each host (default 4)");
    add_number_option(
        *up, "--speed", [&given](std::uint32_t times) { given.speed = times; }, 1,
        clock_speed_max, "How many times as fast its clock runs (default 1)");
    up->add_option("--conf", options->conf,
                   "Configuration of the instance: a TOML or JSON file, KEY=VALUE, or "
                   "text of several lines (repeatable)")
        ->type_name("FILE|KEY=VAL|TEXT")
        ->allow_extra_args(false);
    add("down", "End it, and all that runs in it", &Sandbox::down);
    add("env", "Print the shell commands that point Flux's tools at it",
        &Sandbox::environment);
}

} // namespace fluxdat::cli
