// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The environment of what is run as root: flux-config-security-imp(5),
// run.NAME.allowed-environment. What flux-imp 0.15 gives was observed, name by name.
#pragma once

#include "lib/imp/config.h"
#include "lib/imp/user.h"

#include <string>
#include <vector>

namespace fluxdat::imp {

// Out of the caller's environment (NULL at its end) the variables that the command
// allows, in their order, and after them
//
//     FLUX_OWNER_USERID=<uid of the caller>  HOME=  USER=   (those of `as`)
//     PATH=/usr/sbin:/usr/bin:/sbin:/bin
//
// which a caller's never replace. FLUX_JOB_ID and FLUX_JOB_USERID pass as well where
// there is an allowed-environment, be it empty, and do not where there is none: that is
// what flux-imp does, though its manual page promises them in any case. A name that
// comes twice passes once, the first, which is the one that getenv(3) finds. Names that
// begin with LD_ never pass: they tell the dynamic linker what to load.
std::vector<std::string> run_environment(const char* const* environment,
                                         const RunCommand& command, uid_t caller,
                                         const User& as);

// Of the caller's environment what the job shell gets: all but names that begin with
// LD_. The dynamic linker has taken those that it knows from a setuid program's
// environment already; this takes the others.
std::vector<std::string> shell_environment(const char* const* environment);

} // namespace fluxdat::imp
