// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What this site says of signatures, [sign] in flux/security/conf.d of
// flux-config-security-sign(5), for programs that run with the rights of whoever calls
// them: to sign, one has to ask the munged that the IMP will ask.
#pragma once

#include "lib/imp/config.h"

#include <string>

namespace fluxdat::imp {

// Names other files than flux/security/conf.d/*.toml, for a site that keeps them
// elsewhere, and for tests. It changes whom a caller asks for signatures on the
// caller's own behalf, so programs with the rights of others pay no heed to it.
constexpr const char* sign_pattern_variable = "FLUX_DAT_SECURITY_PATTERN";

// The installation's pattern, and the one that counts for the caller.
std::string installed_sign_pattern();
std::string sign_pattern();

// Reads [sign] from the files of the pattern. Where there is none: munge, at its
// default socket. Besides root, `also` may own the files (trusted.h).
Result<SignConfig> read_sign_config(const std::string& pattern, uid_t also);

} // namespace fluxdat::imp
