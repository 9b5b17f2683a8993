// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/command.h"
#include "cli/screen.h"
#include "lib/accounts.h"
#include "lib/flux/fsd.h"
#include "lib/flux/text.h"
#include "lib/harmless.h"
#include "lib/say.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

constexpr const char* system_instance_uri = "local:///run/flux/local";

// The command's DAT is FLUX_DAT's, and no --dat was given.
bool dat_is_of_environment = false;

// `kind` is "user" or "group"; errnum 0: there is none.
std::unexpected<Error> not_found(const char* kind, const std::string& name,
                                 const std::string& option, int errnum)
{
    if (errnum != 0)
        return fail(Exit::usage, "{} {}: cannot look the {} up: {}", option, name, kind,
                    std::strerror(errnum));
    return fail(Exit::usage, "{} {}: there is no such {} on this host", option,
                name.empty() ? "\"\"" : name, kind);
}

} // namespace

int Common::report(const Error& error) const
{
    bool of_dat = error.exit == Exit::no_such_dat || error.exit == Exit::several_match;
    say_wrapped(fmt::format("flux-dat {}: {}{}", command, harmless(error.message),
                            of_dat && dat_is_of_environment
                                ? " (FLUX_DAT in the environment says which)"
                                : ""));
    return static_cast<int>(error.exit);
}

void say_wrapped(const std::string& text)
{
    auto screen = screen_of(STDERR_FILENO);
    if (!screen.terminal || screen.columns == 0)
        say(stderr, "{}\n", text);
    else
        for (const auto& line : wrapped(text, screen.columns))
            say(stderr, "{}\n", line);
}

void Common::note(const std::string& text) const
{
    if (!quiet)
        say_wrapped(fmt::format("flux-dat {}: {}", command, harmless(text)));
}

void Common::alarm(const std::string& text) const
{
    say_wrapped(fmt::format("flux-dat {}: warning: {}", command, harmless(text)));
}

void Common::warn(const std::string& text) const
{
    note("warning: " + text);
}

bool Common::shows_progress() const
{
    return !quiet && (verbose || isatty(STDERR_FILENO));
}

CLI::App* add_command(CLI::App& app, Common& common, const std::string& name,
                      const std::string& description, QuietOption quiet)
{
    common.command = name;
    auto* command = app.add_subcommand(name, description);
    command->add_flag("--json", common.json, "Print the result as JSON");
    command->add_flag(quiet == QuietOption::with_short ? "-q,--quiet" : "--quiet",
                      common.quiet, "Print results and errors only");
    command->add_flag("-v,--verbose", common.verbose, "Tell what is being done");
    return command;
}

CLI::Option* add_number_option(CLI::App& command, const std::string& names,
                               std::function<void(std::uint32_t)> take,
                               std::uint32_t min, std::uint32_t max,
                               const std::string& description)
{
    auto name = names.substr(names.rfind(',') + 1);
    auto parse = [=](const std::string& text) {
        auto value = number<std::uint32_t>(text);
        if (!value || *value < min || *value > max)
            throw CLI::ValidationError(
                name, fmt::format("must be a whole number from {} to {}, not {}", min,
                                  max, flux::in_quotes(text)));
        take(*value);
    };
    return command.add_option_function<std::string>(names, parse, description)
        ->type_name("N");
}

CLI::Option* add_list_option(CLI::App& command, const std::string& names,
                             std::vector<std::string>& lists, const std::string& type,
                             const std::string& description)
{
    return command.add_option(names, lists, description)
        ->type_name(type)
        ->allow_extra_args(false)
        ->take_all();
}

Result<std::vector<std::string>> split_lists(const std::vector<std::string>& lists,
                                             const std::string& option)
{
    std::vector<std::string> entries;
    for (std::string_view list : lists)
        for (bool more = true; more;) {
            auto entry = list.substr(0, list.find(','));
            more = entry.size() < list.size();
            list.remove_prefix(entry.size() + (more ? 1 : 0));
            if (entry.empty())
                return fail(Exit::usage,
                            "{}: an entry is empty: separate names by one comma each, "
                            "with none at either end",
                            option);
            entries.emplace_back(entry);
        }
    return entries;
}

Result<double> seconds_of(const char* option, const std::string& text)
{
    auto seconds = flux::parse_fsd(text);
    if (!seconds)
        return fail(Exit::usage, "{}: {}", option, seconds.error().message);
    return seconds;
}

void add_dat_option(CLI::App& command, std::optional<std::string>& selector)
{
    auto take = [&selector](const std::string& text) {
        if (text.empty())
            throw CLI::ValidationError("--dat", "needs a name or a job id");
        selector = text;
        dat_is_of_environment = false;
    };
    // Not by CLI11's envname(), which would not tell one from the other.
    if (const char* value = std::getenv("FLUX_DAT"); value && *value) {
        selector = value;
        dat_is_of_environment = true;
    }
    command
        .add_option_function<std::string>("--dat", take,
                                          "The DAT, by name or job id (or FLUX_DAT)")
        ->type_name("NAME|JOBID");
}

flux::Task<Result<std::unique_ptr<flux::Connection>>>
connect_parent(flux::Loop& loop, flux::Interrupt* interrupt)
{
    const char* uri = std::getenv("FLUX_URI");
    std::string target = uri && *uri ? uri : system_instance_uri;
    auto parent = co_await flux::Connection::open(loop, std::move(target), interrupt);
    if (!parent)
        co_return parent;
    if (auto same = co_await flux::same_clock(**parent); !same)
        co_return std::unexpected(same.error());
    co_return parent;
}

static std::string json_for_people(const Json& json)
{
    auto text = flux::dump_json(json);
    // Others' text is in it, and a terminal obeys what it is shown. As an escape of
    // JSON a character is still the same to whoever parses it, so also where stdout is
    // a pipe, at whose other end there may be a terminal. What is harmful is never
    // outside of a string (C0 is escaped already, and no newline is in a line).
    std::string_view rest = text;
    std::string out;
    while (!rest.empty()) {
        auto length = std::max<std::size_t>(utf8_length(rest), 1);
        if (auto c = utf8_character(rest, length); is_harmful(c))
            out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
        else
            out += rest.substr(0, length);
        rest.remove_prefix(length);
    }
    return out;
}

void print_json(const Json& json)
{
    say(stdout, "{}\n", json_for_people(json));
}

int finish(const Common& common, int status)
{
    int errnum = std::fflush(stdout) == 0 ? 0 : errno;
    if (errnum == 0 && !std::ferror(stdout)) {
        // It is done and said: a signal that comes only now finds nothing to undo, and
        // must not make the exit status say that it was not done.
        sigset_t late;
        sigemptyset(&late);
        for (int signum : {SIGINT, SIGTERM, SIGHUP})
            sigaddset(&late, signum);
        sigprocmask(SIG_BLOCK, &late, nullptr);
        return status;
    }
    errnum = stdout_errnum ? stdout_errnum : errnum ? errnum : EIO;
    return common.report(
        {fmt::format("cannot write to stdout: {}", std::strerror(errnum))});
}

Result<uid_t> find_user(const std::string& name, const std::string& option)
{
    std::optional<uid_t> uid;
    auto take = [&](const passwd& entry) { uid = entry.pw_uid; };
    int errnum = look_up(getpwnam_r, name.c_str(), take);
    if (auto id = number<uid_t>(name); id && !uid)
        errnum = look_up(getpwuid_r, *id, take);
    if (!uid)
        return not_found("user", name, option, errnum);
    if (*uid == 0)
        return fail(Exit::usage, "{} {}: root cannot be a guest", option, name);
    return *uid;
}

Result<gid_t> find_group(const std::string& name, const std::string& option)
{
    std::optional<gid_t> gid;
    auto take = [&](const group& entry) { gid = entry.gr_gid; };
    int errnum = look_up(getgrnam_r, name.c_str(), take);
    if (auto id = number<gid_t>(name); id && !gid)
        errnum = look_up(getgrgid_r, *id, take);
    if (!gid)
        return not_found("group", name, option, errnum);
    if (*gid == 0)
        return fail(Exit::usage, "{} {}: root's group cannot be a guest", option, name);
    return *gid;
}

namespace {

template <class Id>
Result<Id> find_former(const std::string& name, const std::string& option,
                       Result<Id> (*find)(const std::string&, const std::string&))
{
    auto id = find(name, option);
    if (auto bare = number<Id>(name); !id && bare && *bare > 0)
        return *bare;
    return id;
}

} // namespace

Result<uid_t> find_former_user(const std::string& name, const std::string& option)
{
    return find_former(name, option, find_user);
}

Result<gid_t> find_former_group(const std::string& name, const std::string& option)
{
    return find_former(name, option, find_group);
}

Result<std::vector<uid_t>> find_users(const std::vector<std::string>& lists,
                                      const std::string& option)
{
    return find_all(lists, option, find_user);
}

Result<std::vector<gid_t>> find_groups(const std::vector<std::string>& lists,
                                       const std::string& option)
{
    return find_all(lists, option, find_group);
}

Result<perms::GuestList> first_guest_list(const std::vector<std::string>& users,
                                          const std::vector<std::string>& groups,
                                          bool open)
{
    auto uids = find_users(users, "--user");
    if (!uids)
        return std::unexpected(uids.error());
    auto gids = find_groups(groups, "--group");
    if (!gids)
        return std::unexpected(gids.error());
    auto list = perms::make_guest_list(1, open, *uids, *gids, geteuid());
    if (!list)
        return fail(Exit::usage, "{}", list.error().message);
    return list;
}

} // namespace fluxdat::cli
