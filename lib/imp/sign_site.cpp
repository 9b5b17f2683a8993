// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/sign_site.h"

#include "paths.h"

#include <cstdlib>

namespace fluxdat::imp {

std::string installed_sign_pattern()
{
    return FLUX_DAT_SYSCONFDIR "/flux/security/conf.d/*.toml";
}

std::string sign_pattern()
{
    const char* other = secure_getenv(sign_pattern_variable);
    return other && *other ? other : installed_sign_pattern();
}

Result<SignConfig> read_sign_config(const std::string& pattern, uid_t also)
{
    std::vector<Problem> problems;
    // Files of one pattern may hold tables of the IMP, too; those are not read here.
    auto config = read_config({pattern, pattern, also}, problems);
    for (const auto& problem : problems)
        if (problem.severity == Problem::Severity::error)
            return fail(problem_text(problem));
    return std::move(config.sign);
}

} // namespace fluxdat::imp
