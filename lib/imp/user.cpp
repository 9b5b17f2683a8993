// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/user.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <grp.h>
#include <memory>
#include <pwd.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

// Bytes that one account may take; a passwd line has some 100.
constexpr std::size_t lookup_buffer_max = 1u << 20;
// The kernel's own limit, NGROUPS_MAX.
constexpr int groups_max = 65536;

// getpwuid_r(3) or getpwnam_r(3), with a buffer that grows as they ask for it. 0 and no
// user: there is none.
template <class Lookup>
int look_up(Lookup lookup, User* user, bool& found)
{
    found = false;
    for (std::size_t size = 1024; size <= lookup_buffer_max; size *= 4) {
        auto buffer = std::make_unique<char[]>(size);
        passwd entry;
        passwd* result = nullptr;
        int errnum = lookup(&entry, buffer.get(), size, &result);
        if (errnum == ERANGE)
            continue;
        // What getpwnam(3) lists as other ways to say that there is nobody.
        if (errnum == ENOENT || errnum == ESRCH)
            return 0;
        if (errnum == 0 && result) {
            found = true;
            if (user)
                *user = {entry.pw_uid, entry.pw_gid, entry.pw_name, entry.pw_dir};
        }
        return errnum;
    }
    return ERANGE;
}

} // namespace

Result<User> user_by_uid(uid_t uid)
{
    User user;
    bool found = false;
    int errnum = look_up(
        [uid](passwd* entry, char* buffer, std::size_t size, passwd** result) {
            return getpwuid_r(uid, entry, buffer, size, result);
        },
        &user, found);
    if (errnum != 0)
        return fail("cannot look up uid " + std::to_string(uid) + " on " + host_name()
                        + ": " + std::strerror(errnum),
                    errnum);
    if (!found)
        return fail("uid " + std::to_string(uid) + " is not known on " + host_name(),
                    ENOENT);
    return user;
}

bool user_exists(const std::string& name)
{
    bool found = false;
    look_up(
        [&name](passwd* entry, char* buffer, std::size_t size, passwd** result) {
            return getpwnam_r(name.c_str(), entry, buffer, size, result);
        },
        nullptr, found);
    return found;
}

Result<std::vector<gid_t>> groups_of(const User& user)
{
    for (int size = 64; size <= groups_max; size *= 4) {
        std::vector<gid_t> groups(static_cast<std::size_t>(size));
        int count = size;
        if (getgrouplist(user.name.c_str(), user.gid, groups.data(), &count) >= 0) {
            groups.resize(static_cast<std::size_t>(count));
            return groups;
        }
    }
    return fail("user " + user.name + " is in more than " + std::to_string(groups_max)
                + " groups");
}

std::string host_name()
{
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) < 0)
        return "this host";
    return name.data();
}

} // namespace fluxdat::imp
