// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat(1): dedicated access time on Flux. "flux dat ..." finds it in PATH.
//
// The programs that a DAT's job is made of come first, before the command line library
// is touched: they start once a rank, and a rank's start is what people wait for.
#include "cli/command.h"
#include "lib/clock.h"
#include "lib/dat/check_node.h"
#include "lib/dat/launcher.h"
#include "lib/dat/ranks.h"
#include "lib/dat/supervisor.h"
#include "lib/dat/terminals.h"
#include "lib/harmless.h"
#include "lib/program.h"
#include "lib/sandbox/broker.h"
#include "lib/say.h"
#include "paths.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <string_view>
#include <unistd.h>

namespace {

using namespace fluxdat;

constexpr int exit_usage = static_cast<int>(Exit::usage);

int misused(std::string_view command)
{
    say(stderr, "flux-dat {}: this command is for the job of a DAT only\n", command);
    return exit_usage;
}

// Whoever closed 0, 1 or 2 would have the next thing opened there written to, or read.
void open_standard_descriptors()
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

// The hidden commands; nothing if this is none of them.
std::optional<int> run_hidden(const std::vector<std::string_view>& words)
{
    if (words.empty())
        return {};
    if (words[0] == "launch") {
        if (words.size() < 3)
            return misused("launch");
        return dat::launch(std::string(words[1]), {words.begin() + 2, words.end()},
                           sandbox::broker_main);
    }
    if (words[0] == "supervise") {
        if (words.size() == 3 && words[1] == "--worker")
            return dat::supervise_worker(std::string(words[2]));
        if (words.size() == 3 && words[1] == "--detach")
            return dat::supervise_detached(program_path(), std::string(words[2]));
        if (words.size() != 2)
            return misused("supervise");
        return dat::supervise(program_path(), std::string(words[1]));
    }
    if (words[0] == "check-node") {
        if (words.size() != 2)
            return misused("check-node");
        return dat::check_node_command(std::string(words[1]));
    }
    if (words[0] == "terminals") {
        if (words.size() != 3)
            return misused("terminals");
        return dat::tell_terminals_of(std::string(words[1]), std::string(words[2]));
    }
    if (words[0] == "door" || words[0] == "passage") {
        auto entrance =
            words[0] == "door" ? dat::Entrance::door : dat::Entrance::passage;
        std::optional<int> status;
        if (words.size() == 4)
            status = dat::at_entrance(entrance, std::string(words[1]),
                                      std::string(words[2]), std::string(words[3]));
        return status ? *status : misused(words[0]);
    }
    return {};
}

// In our words where the library's are not for people.
std::string what_is_wrong(const CLI::ParseError& error)
{
    std::string text = error.what();
    if (auto at = text.find(": At Most 1 required but received"); at != text.npos)
        return text.substr(0, at) + " was given more than once";
    // "--nodes: 1 required N missing"
    if (auto at = text.find(": 1 required ");
        at != text.npos && text.ends_with(" missing"))
        return text.substr(0, at) + " needs a value";
    // "Could not convert: --open = maybe": flags only, as all values are taken as text.
    constexpr std::string_view no_flag = "Could not convert: ";
    if (text.starts_with(no_flag))
        return text.substr(no_flag.size(), text.find(" = ") - no_flag.size())
               + " takes no value";
    if (auto at = text.find(" excludes "); at != text.npos)
        return text.substr(0, at) + " and " + text.substr(at + 10)
               + " exclude each other: give one of them";
    if (text == "A subcommand is required")
        return "which command? None was given, or one that there is not";
    return text;
}

// What was meant by a word that the command does not take, as far as it can be told.
std::string hint_at(const CLI::App& command, const std::string& what, int argc,
                    char** argv)
{
    constexpr std::string_view unexpected = " not expected: ";
    auto at = what.find(unexpected);
    if (at == std::string::npos)
        return {};
    auto word = what.substr(at + unexpected.size());
    word = harmless(word.substr(0, word.find(' ')));
    auto name = command.get_name();
    std::string_view first = argv[1];
    if (auto option = first.substr(0, first.find('='));
        option.starts_with("--") && command.get_option_no_throw(std::string(option))) {
        bool has_value = first.size() == option.size() && argc > 3 && argv[2] != name;
        return fmt::format("; options come behind the command: flux-dat {} {}{}", name,
                           harmless(first), has_value ? " " + harmless(argv[2]) : "");
    }
    if (auto* span = command.get_option_no_throw("FSD");
        name == "extend" && span && span->count() > 0 && !word.starts_with('-'))
        return fmt::format("; if {0} is a DAT's name: flux-dat extend --dat {0} {1}",
                           harmless(span->results().front()), word);
    if (word.starts_with('-')) {
        if ((name == "grant" || name == "revoke") && word.starts_with("--user"))
            return fmt::format("; users are its arguments: flux-dat {} USER", name);
        return {};
    }
    for (auto option : {"--dat", "--name"})
        if (command.get_option_no_throw(option))
            return fmt::format("; if that is a DAT's name: {} {}", option, word);
    return {};
}

// How many letters are to be changed, put in, left out or exchanged with the next.
std::size_t edits(std::string_view from, std::string_view to)
{
    std::vector<std::vector<std::size_t>> least(
        from.size() + 1, std::vector<std::size_t>(to.size() + 1));
    for (std::size_t i = 0; i <= from.size(); i++)
        for (std::size_t j = 0; j <= to.size(); j++) {
            if (i == 0 || j == 0) {
                least[i][j] = i + j;
                continue;
            }
            auto other = from[i - 1] == to[j - 1] ? 0u : 1u;
            least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1,
                                    least[i - 1][j - 1] + other});
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
        }
    return least[from.size()][to.size()];
}

std::string command_meant(CLI::App& app, std::string_view word)
{
    constexpr std::size_t edits_max = 2, length_max = 16;
    if (word.size() > length_max)
        return {};
    std::string nearest;
    std::size_t least = edits_max + 1;
    for (auto* command : app.get_subcommands({}))
        if (auto count = edits(word, command->get_name()); count < least) {
            least = count;
            nearest = command->get_name();
        }
    return nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest);
}

// The command that `first` names; all of them for --help, and for what names none.
// Setting them all up takes as long as `status` does.
void add_commands(CLI::App& app, cli::Chosen& chosen, std::string_view first,
                  std::vector<std::string> after_dashes)
{
    using Add = std::function<void()>;
    auto of = [&](void (*add)(CLI::App&, cli::Chosen&)) -> Add {
        return [&app, &chosen, add] { add(app, chosen); };
    };
    const std::pair<std::string_view, Add> commands[] = {
        {"start", of(cli::add_start)},
        {"status", of(cli::add_status)},
        {"grant", of(cli::add_grant)},
        {"revoke", of(cli::add_revoke)},
        {"extend", of(cli::add_extend)},
        {"stop", of(cli::add_stop)},
        {"adopt", of(cli::add_adopt)},
        {"config", of(cli::add_config)},
        {"check", of(cli::add_check)},
        {"report", of(cli::add_report)},
        {"run", [&] { cli::add_run(app, chosen, std::move(after_dashes)); }},
        {"sandbox", of(cli::add_sandbox)},
    };
    for (auto& [name, add] : commands)
        if (name == first)
            return add();
    if (first != "--version")
        for (auto& [name, add] : commands)
            add();
}

int run_command(int argc, char** argv)
{
    flux::show_jobids_in_ascii(flux::jobids_need_ascii());
    CLI::App app("Dedicated access time on Flux: a set of nodes for a list of people, "
                 "as one job.",
                 "flux-dat");
    app.set_version_flag("--version", "flux-dat " FLUX_DAT_VERSION);
    app.require_subcommand(1);
    app.footer("Each command explains itself with --help. See flux-dat(1).");
    cli::Chosen chosen;
    std::vector<std::string> after_dashes;
    std::string help = "--help";
    std::vector<char*> asks_for_help(argv, argv + argc);
    if (argc > 1
        && argv[1] == std::string_view("help")) { // help COMMAND: COMMAND --help
        asks_for_help.erase(asks_for_help.begin() + 1);
        asks_for_help.push_back(help.data());
        argv = asks_for_help.data();
    }
    std::string_view first = argc > 1 ? argv[1] : "";
    if (first == "run") {
        auto dashes = std::find(argv, argv + argc, std::string_view("--"));
        after_dashes.assign(dashes, argv + argc);
        argc = static_cast<int>(dashes - argv);
    }
    add_commands(app, chosen, first, std::move(after_dashes));
    // CLI11 would only say that some command is missing.
    auto named = [&](CLI::App* sub) { return sub->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(named).empty()) {
        cli::say_wrapped(
            fmt::format("flux-dat: there is no command \"{}\"{} (see flux-dat --help)",
                        harmless(argv[1]), command_meant(app, argv[1])));
        return exit_usage;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& asked) { // --help, --version
        app.exit(asked);
        bool written = std::cout.good() && std::fflush(stdout) == 0;
        return written && !std::ferror(stdout) ? 0 : 1;
    } catch (const CLI::ParseError& wrong) {
        std::string command = "flux-dat";
        const CLI::App* at = &app;
        while (!at->get_subcommands().empty()) {
            at = at->get_subcommands().front();
            command += " " + at->get_name();
        }
        auto what = what_is_wrong(wrong);
        cli::say_wrapped(fmt::format("{}: {}{} (see {} --help)", command,
                                     harmless(what), hint_at(*at, what, argc, argv),
                                     command));
        return exit_usage;
    }
    return chosen();
}

} // namespace

int main(int argc, char** argv)
{
    open_standard_descriptors();
    const char* clock = std::getenv(clock_variable);
    if (auto set = set_clock(clock ? clock : ""); !set) {
        say(stderr, "flux-dat: {}\n", set.error().message);
        return exit_usage;
    }
    // In the PATH of the sandbox's jobs this program is "flux".
    std::string_view name = argc > 0 ? argv[0] : "";
    name = name.substr(name.rfind('/') + 1);
    if (name == sandbox::imp_name)
        return sandbox::imp_main();
    if (name == "flux") {
        if (argc < 2 || std::string_view(argv[1]) != "dat")
            return sandbox::broker_main(argc, argv);
        argc--;
        argv++;
    }
    if (auto status = run_hidden({argv + 1, argv + argc}))
        return *status;
    return run_command(argc, argv);
}
