// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat adopt: make a DAT of a Flux instance that was started by hand.
#include "lib/dat/adopt.h"
#include "cli/command.h"
#include "cli/window_options.h"
#include "lib/program.h"

#include <unistd.h>

namespace fluxdat::cli {

namespace {

// Seconds. A supervisor that is started is ready in some milliseconds.
constexpr double adoption_time_max = 60;

struct Adopt {
    Common common;
    std::string job; // with --undo also a name
    std::optional<std::string> name;
    std::vector<std::string> users, groups, managers;
    WindowArguments window;
    bool open = false, undo = false;

    Result<dat::AdoptOptions> options() const
    {
        dat::AdoptOptions options;
        auto list = first_guest_list(users, groups, open);
        if (!list)
            return std::unexpected(list.error());
        auto manager_uids = find_users(managers, "--manager");
        if (!manager_uids)
            return std::unexpected(manager_uids.error());
        options.name = name.value_or("dat");
        if (auto good = dat::check_name(options.name); !good)
            return std::unexpected(good.error());
        options.guests = std::move(*list);
        options.managers = std::move(*manager_uids);
        auto wish = window.wish();
        if (!wish)
            return std::unexpected(wish.error());
        options.window = wish->over({});
        options.program = program_path();
        return options;
    }

    flux::Task<Result<Json>> adopt(flux::Loop& loop, dat::AdoptOptions options,
                                   flux::Interrupt& interrupt)
    {
        auto parent = co_await connect_parent(loop, &interrupt);
        if (!parent)
            co_return std::unexpected(parent.error());
        if (undo)
            co_return co_await undo_adoption(loop, **parent);
        auto id = flux::parse_jobid(job);
        if (!id)
            co_return fail(Exit::usage, "{}", id.error().message);
        auto adopted =
            co_await dat::adopt(loop, **parent, *id, std::move(options), interrupt);
        if (!adopted)
            co_return std::unexpected(adopted.error());
        if (common.shows_progress())
            common.note(fmt::format("adopted: the DAT \"{}\" ({})",
                                    adopted->record.name, flux::format_jobid(*id)));
        co_return json_of(*id, adopted->record.name, true);
    }

    flux::Task<Result<Json>> undo_adoption(flux::Loop& loop, flux::Connection& parent)
    {
        auto dat = co_await dat::find_dat(parent, job);
        if (!dat)
            co_return std::unexpected(dat.error());
        auto undone = co_await dat::undo_adoption(loop, parent, *dat);
        if (!undone)
            co_return std::unexpected(undone.error());
        co_return json_of(dat->job.id, dat->record.name, false);
    }

    static Json json_of(flux::JobId id, const std::string& name, bool adopted)
    {
        return {{"version", 1},
                {"id", flux::format_jobid(id)},
                {"jobid", id},
                {"name", name},
                {"adopted", adopted}};
    }

    int run()
    {
        if (auto id = flux::parse_jobid(job); !id && !undo)
            return common.report({id.error().message, 0, Exit::usage});
        auto parsed = options();
        if (!parsed)
            return common.report(parsed.error());
        flux::Loop loop;
        flux::Interrupt interrupt;
        flux::InterruptSources sources(
            loop, interrupt, adoption_time_max,
            Error{fmt::format("not done within {} s (its supervisor's words are in the "
                              "system's log)",
                              adoption_time_max),
                  ETIMEDOUT});
        auto done = loop.run(adopt(loop, std::move(*parsed), interrupt));
        if (!done)
            return common.report(done.error());
        if (common.json)
            print_json(*done);
        return finish(common, 0);
    }
};

} // namespace

void add_adopt(CLI::App& app, Chosen& chosen)
{
    auto adopt = std::make_shared<Adopt>();
    auto* command =
        add_command(app, adopt->common, "adopt",
                    "Make a DAT of a Flux instance that was started by hand");
    command->add_option("JOBID", adopt->job, "Its job; with --undo its name will do")
        ->type_name("")
        ->required();
    auto* name = command
                     ->add_option("--name", adopt->name,
                                  "What to call the DAT (default \"dat\")")
                     ->type_name("NAME");
    auto* users = add_list_option(*command, "--user", adopt->users, "USER,...",
                                  "Guests, by name or uid (repeatable)");
    auto* groups = add_list_option(*command, "--group", adopt->groups, "GROUP,...",
                                   "Groups whose members are guests (repeatable)");
    auto* managers =
        add_list_option(*command, "--manager", adopt->managers, "USER,...",
                        "Who may change the guest list besides the owner (repeatable)");
    auto* open = command->add_flag("--open", adopt->open, "Let everybody in");
    auto window = adopt->window.add_to(*command);
    auto* undo = command->add_flag("--undo", adopt->undo, "Leave it as it was before")
                     ->excludes(name)
                     ->excludes(users)
                     ->excludes(groups)
                     ->excludes(managers)
                     ->excludes(open);
    for (auto* option : window)
        undo->excludes(option);
    command->callback([adopt, &chosen] { chosen = [adopt] { return adopt->run(); }; });
}

} // namespace fluxdat::cli
