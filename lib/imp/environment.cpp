// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/environment.h"

#include <algorithm>
#include <fnmatch.h>
#include <set>
#include <string_view>

namespace fluxdat::imp {

namespace {

// Bytes of a name that are compared with patterns: fnmatch(3) takes its time for long
// ones, and nobody has such.
constexpr std::size_t name_bytes_max = 1024;
constexpr std::string_view path_for_root = "/usr/sbin:/usr/bin:/sbin:/bin";

// Set by the IMP, so never taken from the caller.
bool is_own(std::string_view name)
{
    return name == "FLUX_OWNER_USERID" || name == "HOME" || name == "USER"
           || name == "PATH";
}

bool is_allowed(const std::string& name, const RunCommand& command)
{
    if (!command.allowed_environment || name.size() > name_bytes_max || is_own(name)
        || name.starts_with("LD_"))
        return false;
    if (name == "FLUX_JOB_ID" || name == "FLUX_JOB_USERID")
        return true;
    return std::ranges::any_of(*command.allowed_environment, [&](const auto& pattern) {
        return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
}

} // namespace

std::vector<std::string> run_environment(const char* const* environment,
                                         const RunCommand& command, uid_t caller,
                                         const User& as)
{
    std::vector<std::string> passed;
    std::set<std::string, std::less<>> seen;
    for (auto entry = environment; entry && *entry; entry++) {
        std::string_view text = *entry;
        auto equals = text.find('=');
        if (equals == text.npos || equals == 0)
            continue;
        std::string name(text.substr(0, equals));
        if (is_allowed(name, command) && seen.insert(name).second)
            passed.emplace_back(text);
    }
    passed.push_back("FLUX_OWNER_USERID=" + std::to_string(caller));
    passed.push_back("HOME=" + as.home);
    passed.push_back("USER=" + as.name);
    passed.push_back("PATH=" + std::string(path_for_root));
    return passed;
}

std::vector<std::string> shell_environment(const char* const* environment)
{
    std::vector<std::string> passed;
    for (auto entry = environment; entry && *entry; entry++)
        if (!std::string_view(*entry).starts_with("LD_"))
            passed.emplace_back(*entry);
    return passed;
}

} // namespace fluxdat::imp
