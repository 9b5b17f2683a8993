// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Users and groups of this host: getpwnam_r(3), getpwuid_r(3), getgrnam_r(3) and
// getgrgid_r(3).
#pragma once

#include <cerrno>
#include <cstddef>
#include <grp.h>
#include <memory>
#include <pwd.h>
#include <string>

namespace fluxdat {

// A group may have many thousand members; a larger entry than this is a mistake.
constexpr std::size_t account_size_max = 1u << 20; // bytes

// Calls one of these functions, with a buffer that grows as it asks for it, and `take`
// with the entry if there is one; only then is what the entry points to still there.
// Gives 0, also where there is no entry, or the errno(3) value of the failure.
template <class Key, class Entry, class Take>
int look_up(int (*function)(Key, Entry*, char*, std::size_t, Entry**), Key key,
            Take take)
{
    int errnum = ERANGE;
    for (std::size_t size = 4096; errnum == ERANGE && size <= account_size_max;
         size *= 4) {
        auto buffer = std::make_unique<char[]>(size);
        Entry entry{};
        Entry* found = nullptr;
        errnum = function(key, &entry, buffer.get(), size, &found);
        if (errnum == 0 && found)
            take(*found);
    }
    return errnum;
}

// The name; the number where there is no name.
inline std::string user_name(uid_t uid)
{
    auto name = std::to_string(uid);
    look_up(getpwuid_r, uid, [&](const passwd& entry) { name = entry.pw_name; });
    return name;
}

inline std::string group_name(gid_t gid)
{
    auto name = std::to_string(gid);
    look_up(getgrgid_r, gid, [&](const group& entry) { name = entry.gr_name; });
    return name;
}

} // namespace fluxdat
