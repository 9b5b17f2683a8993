// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat config: the configuration that `start` would use, each key with its origin.
#include "cli/command.h"
#include "cli/configuration.h"
#include "lib/dat/start.h"
#include "lib/say.h"

namespace fluxdat::cli {

void ConfigurationOptions::add_to(CLI::App& command)
{
    command
        .add_option("--conf", conf,
                    "Configuration for the DAT's brokers: a TOML or JSON file, "
                    "KEY=VALUE, text of several lines, or a name (repeatable)")
        ->type_name("FILE|KEY=VAL|TEXT|NAME")
        ->allow_extra_args(false);
    command
        .add_option("--inherit", inherit,
                    "What to take from the parent's configuration: prolog, epilog, "
                    "policy, queues, resource, or none (default prolog,epilog)")
        ->type_name("LIST")
        ->allow_extra_args(false);
    command.add_option("--imp", imp, "The IMP that runs guests' jobs")
        ->type_name("PATH");
}

Result<conf::Inputs> ConfigurationOptions::inputs() const
{
    conf::Inputs inputs;
    inputs.conf = conf;
    inputs.imp = imp;
    if (!inherit.empty()) {
        auto parsed = conf::Inherit::parse(inherit);
        if (!parsed)
            return std::unexpected(parsed.error());
        inputs.inherit = *parsed;
    }
    return inputs;
}

namespace {

struct Config {
    Common common;
    ConfigurationOptions options;

    flux::Task<Result<conf::Composed>> compose(flux::Loop& loop)
    {
        auto inputs = options.inputs();
        if (!inputs)
            co_return std::unexpected(inputs.error());
        auto parent = co_await connect_parent(loop);
        if (!parent)
            co_return std::unexpected(parent.error());
        co_return co_await dat::compose_for(**parent, std::move(*inputs));
    }

    int run()
    {
        flux::Loop loop;
        auto composed = loop.run(compose(loop));
        if (!composed)
            return common.report(composed.error());
        for (auto& notice : composed->notices)
            common.note("note: " + notice);
        for (auto& warning : composed->warnings)
            common.warn(warning);
        // Not a half result: what stands on stdout may go into a file, or to a program.
        if (auto sound = conf::lint(*composed); !sound)
            return common.report(sound.error());
        if (common.json)
            print_json({{"version", 1},
                        {"config", composed->json()},
                        {"explained", composed->explained()}});
        else
            say(stdout, "{}", composed->toml());
        return finish(common, 0);
    }
};

} // namespace

void add_config(CLI::App& app, Chosen& chosen)
{
    auto config = std::make_shared<Config>();
    auto* command = add_command(app, config->common, "config",
                                "Print the configuration that start would use");
    config->options.add_to(*command);
    command->callback(
        [config, &chosen] { chosen = [config] { return config->run(); }; });
}

} // namespace fluxdat::cli
