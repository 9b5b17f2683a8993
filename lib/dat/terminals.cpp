// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/terminals.h"

#include "lib/dat/lookups.h"
#include "lib/dat/record.h"
#include "lib/fd.h"
#include "lib/program.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <pwd.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utmpx.h>

namespace fluxdat::dat {

namespace {

// A field of utmp(5) need not end in a NUL.
template <std::size_t size>
std::string field(const char (&text)[size])
{
    return {text, strnlen(text, size)};
}

// Nothing of it drives a terminal.
std::string plain(std::string_view text)
{
    std::string out;
    for (unsigned char c : text.substr(0, terminal_line_max))
        out.push_back(c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?');
    return out;
}

// Only to a terminal, of that very user (utmp may be old), who has mesg on.
bool write_line(const std::string& device, uid_t user, const std::string& line)
{
    Fd terminal(open(device.c_str(),
                     O_WRONLY | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    struct stat about;
    if (terminal.get() < 0 || fstat(terminal.get(), &about) < 0
        || !S_ISCHR(about.st_mode) || about.st_uid != user || !(about.st_mode & S_IWGRP)
        || !isatty(terminal.get()))
        return false;
    return write(terminal.get(), line.data(), line.size()) > 0;
}

} // namespace

std::size_t tell_terminals(std::string_view text,
                           const std::function<bool(uid_t)>& is_told,
                           const std::string& utmp)
{
    auto line = fmt::format("\r\n\a{}\r\n", plain(text));
    if (!utmp.empty())
        utmpxname(utmp.c_str());
    std::map<std::string, std::optional<uid_t>> uids;
    std::set<std::string> told;
    setutxent();
    while (const utmpx* entry = getutxent()) {
        if (entry->ut_type != USER_PROCESS || told.size() >= terminals_max)
            continue;
        auto device = "/dev/" + field(entry->ut_line);
        auto name = field(entry->ut_user);
        if (told.contains(device) || device.find("..") != std::string::npos)
            continue;
        if (!uids.contains(name)) {
            const passwd* user = getpwnam(name.c_str());
            uids[name] = user ? std::optional(user->pw_uid) : std::nullopt;
        }
        auto uid = uids[name];
        if (uid && is_told(*uid) && write_line(device, *uid, line))
            told.insert(device);
    }
    endutxent();
    return told.size();
}

int tell_terminals_of(const std::string& text, const std::string& guests)
{
    auto json = flux::parse_json(guests);
    auto list = json ? guests_from_json(*json) : std::unexpected(json.error());
    if (!list)
        return 1;
    auto is_told = [&](uid_t user) {
        if (list->open || user == geteuid()
            || std::binary_search(list->users.begin(), list->users.end(), user))
            return true;
        if (list->groups.empty())
            return false;
        auto groups = groups_of(user).value_or(std::vector<gid_t>{});
        return std::any_of(groups.begin(), groups.end(), [&](gid_t group) {
            return std::binary_search(list->groups.begin(), list->groups.end(), group);
        });
    };
    tell_terminals(text, is_told);
    return 0;
}

flux::Task<void> tell_on_all_ranks(flux::Connection& dat, std::uint32_t size,
                                   std::string text, perms::GuestList guests)
{
    flux::Command command;
    command.cmdline = {program_path(), "terminals", std::move(text),
                       flux::dump_json(to_json(guests))};
    flux::Idset ranks(0, size - 1);
    (void)co_await flux::run_command_on(dat, std::move(ranks), std::move(command));
}

} // namespace fluxdat::dat
