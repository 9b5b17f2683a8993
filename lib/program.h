// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Where this program is, and where others are.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
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

// Whether a regular file is there that somebody may execute.
inline bool is_program(const std::string& path)
{
    struct stat status;
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)
           && (status.st_mode & S_IXUSR);
}

// As execvp(3) looks for it, with the PATH of this process.
inline std::optional<std::string> find_program(const std::string& name)
{
    if (name.find('/') != std::string::npos)
        return is_program(name) ? std::optional(name) : std::nullopt;
    const char* path = std::getenv("PATH");
    for (std::string_view rest = path ? path : "/bin:/usr/bin"; !rest.empty();) {
        auto directory = rest.substr(0, rest.find(':'));
        auto candidate = std::string(directory) + "/" + name;
        if (is_program(candidate))
            return candidate;
        rest.remove_prefix(std::min(rest.size(), directory.size() + 1));
    }
    return {};
}

} // namespace fluxdat
