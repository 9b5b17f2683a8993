// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Where this program is.
#pragma once

#include <climits>
#include <string>
#include <string_view>
#include <unistd.h>

namespace fluxdat {

// The absolute path of the running flux-dat, symbolic links resolved; it must be the
// same on every node of a DAT.
inline std::string program_path()
{
    char path[PATH_MAX];
    auto size = ::readlink("/proc/self/exe", path, sizeof(path));
    if (size <= 0)
        return "flux-dat";
    // An upgrade while we run: what is at that path now is the program to run next.
    std::string_view name(path, static_cast<std::size_t>(size));
    constexpr std::string_view replaced = " (deleted)";
    if (name.ends_with(replaced))
        name.remove_suffix(replaced.size());
    return std::string(name);
}

} // namespace fluxdat
