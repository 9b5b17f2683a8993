// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The trail of who changed a DAT's guest list: the broker's stderr, which is the output
// of the DAT's job, and syslog(3), facility authpriv. (The job's eventlog has it, too:
// changes.h.)
#pragma once

#include "lib/dat/changes.h"

namespace fluxdat::dat {

// "granted users 1001 1002, group 2001; revoked user 1003; opened": numbers, since a
// name may mean somebody else on another node, or tomorrow. At most summary_ids_max of
// each kind. Empty if nothing was changed.
constexpr std::size_t summary_ids_max = 20;
std::string summary(const Desired::Effect& effect);

// One line, at once to both.
void audit(const std::string& text);

} // namespace fluxdat::dat
