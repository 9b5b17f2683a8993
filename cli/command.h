// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the commands share: common options, the connection to the instance, names of
// users, and the one place where errors are printed. Results go to stdout, everything
// else to stderr.
#pragma once

#include "lib/accounts.h"
#include "lib/dat/find.h"
#include "lib/flux/services.h"
#include "lib/result.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::cli {

using flux::Json;

// The subcommand that the command line chose, to run once it was parsed.
using Chosen = std::function<int()>;

// A line of text on stderr: on a terminal on as many as it takes, in whole words;
// elsewhere, as in a crontab's mail, on one.
void say_wrapped(const std::string& text);

struct Common {
    std::string command; // "start": for messages
    bool json = false;
    bool quiet = false;
    bool verbose = false;

    // "flux-dat start: MESSAGE" on stderr; gives the exit status.
    int report(const Error& error) const;
    // Unless --quiet.
    void note(const std::string& text) const;
    void warn(const std::string& text) const;
    // A warning with --quiet, too: what was asked for will not be so.
    void alarm(const std::string& text) const;
    // Whether progress is shown: on a terminal, or with --verbose.
    bool shows_progress() const;
};

// A subcommand with the options that all have: --json, --quiet, --verbose.
enum class QuietOption { with_short, long_only };
CLI::App* add_command(CLI::App& app, Common& common, const std::string& name,
                      const std::string& description,
                      QuietOption quiet = QuietOption::with_short);
// An option that takes a whole number from `min` to `max`, and gives it to `take`.
// CLI11 would say "Could not convert: --nodes = two".
CLI::Option* add_number_option(CLI::App& command, const std::string& names,
                               std::function<void(std::uint32_t)> take,
                               std::uint32_t min, std::uint32_t max,
                               const std::string& description);
// An option that takes lists as "alice,bob", as often as it is given (split_lists).
CLI::Option* add_list_option(CLI::App& command, const std::string& names,
                             std::vector<std::string>& lists, const std::string& type,
                             const std::string& description);
// Nodes, tasks or cores that may be asked for: more is a slip of the fingers.
constexpr std::uint32_t count_max = 1u << 20;

// "a,b,c", as often as given. Exit 2 for an empty entry; `option` is what asked.
Result<std::vector<std::string>> split_lists(const std::vector<std::string>& lists,
                                             const std::string& option);

// A span of time, RFC 23; exit 2 for what is none. `option` is what asked.
Result<double> seconds_of(const char* option, const std::string& text);

// The whole text as a number.
template <class Number>
std::optional<Number> number(const std::string& text)
{
    Number value{};
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{} || end != text.data() + text.size())
        return {};
    return value;
}

// --dat NAME|JOBID, or FLUX_DAT.
void add_dat_option(CLI::App& command, std::optional<std::string>& selector);

// Connects to the parent instance: FLUX_URI, or the system instance's socket.
flux::Task<Result<std::unique_ptr<flux::Connection>>>
connect_parent(flux::Loop& loop, flux::Interrupt* interrupt = nullptr);

// One line of JSON on stdout.
void print_json(const Json& json);
// What was printed has reached stdout: exit status `status`, or 1 with an error.
int finish(const Common& common, int status);

// A user or group by name or number, on this host. Exit 2 for what does not exist and
// for root; `option` is what asked, for the message.
Result<uid_t> find_user(const std::string& name, const std::string& option);
Result<gid_t> find_group(const std::string& name, const std::string& option);
// Likewise, and by number also one whose account is gone: to be taken off a list.
Result<uid_t> find_former_user(const std::string& name, const std::string& option);
Result<gid_t> find_former_group(const std::string& name, const std::string& option);
// All that lists as "alice,bob" name, in any number of them.
template <class Id>
Result<std::vector<Id>>
find_all(const std::vector<std::string>& lists, const std::string& option,
         Result<Id> (*find)(const std::string& name, const std::string& option))
{
    auto names = split_lists(lists, option);
    if (!names)
        return std::unexpected(names.error());
    std::vector<Id> ids;
    for (auto& name : *names) {
        auto id = find(name, option);
        if (!id)
            return std::unexpected(id.error());
        ids.push_back(*id);
    }
    return ids;
}
Result<std::vector<uid_t>> find_users(const std::vector<std::string>& lists,
                                      const std::string& option);
Result<std::vector<gid_t>> find_groups(const std::vector<std::string>& lists,
                                       const std::string& option);
// The list that a DAT of this user's begins with: --user, --group, --open.
Result<perms::GuestList> first_guest_list(const std::vector<std::string>& users,
                                          const std::vector<std::string>& groups,
                                          bool open);

// The commands, one file each.
void add_start(CLI::App& app, Chosen& chosen);
void add_status(CLI::App& app, Chosen& chosen);
void add_grant(CLI::App& app, Chosen& chosen);
void add_revoke(CLI::App& app, Chosen& chosen);
void add_adopt(CLI::App& app, Chosen& chosen);
void add_stop(CLI::App& app, Chosen& chosen);
void add_extend(CLI::App& app, Chosen& chosen);
void add_config(CLI::App& app, Chosen& chosen);
void add_check(CLI::App& app, Chosen& chosen);
void add_report(CLI::App& app, Chosen& chosen);
// `after_dashes`: the words behind a "--" of its own or of the command, the "--" with
// them; CLI11 would take it away, whosever it is.
void add_run(CLI::App& app, Chosen& chosen, std::vector<std::string> after_dashes);
void add_sandbox(CLI::App& app, Chosen& chosen);

} // namespace fluxdat::cli
