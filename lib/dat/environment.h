// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The environment that a job gets: that of the submitting process, changed by the rules
// of --env, as flux-alloc(1) has them under "ENV RULES".
#pragma once

#include "lib/result.h"

#include <map>
#include <string>
#include <vector>

namespace fluxdat::dat {

using Environment = std::map<std::string, std::string>;

// This process's environment (environ(7)).
Environment current_environment();

// Applies the rules in order to a copy of `process`:
//   -PATTERN   removes the variables that match a glob, or /REGEX/
//   ^FILE      takes rules from a file, one a line
//   VAR=VALUE  sets; $VAR and ${VAR} are substituted, $$ is a dollar
//   PATTERN    copies from `process` what the result does not have
// FLUX_ variables that tie a process to the instance it runs in are left out first.
// A rule that cannot be applied is a usage error that quotes it.
Result<Environment> job_environment(const Environment& process,
                                    const std::vector<std::string>& rules);

} // namespace fluxdat::dat
