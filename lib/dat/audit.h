// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What a supervisor says, and the trail of who changed a DAT's guest list: on stderr,
// which is the output of the DAT's job (but nothing where the DAT was adopted), and to
// syslog(3), facility daemon or authpriv. (The job's eventlog has the trail, too:
// changes.h.)
#pragma once

#include "lib/dat/changes.h"
#include "lib/flux/jobid.h"

namespace fluxdat::dat {

// "granted users 1001 1002, group 2001; revoked user 1003; opened": numbers, since a
// name may mean somebody else on another node, or tomorrow. At most summary_ids_max of
// each kind. Empty if nothing was changed.
constexpr std::size_t summary_ids_max = 20;
std::string summary(const Desired::Effect& effect);

// Of which DAT both say what they say from now on; one machine may have several.
void speak_for(const std::string& name, flux::JobId id);

// One line, at once to both: the trail, and what went wrong.
void audit(const std::string& text);
void complain(const std::string& text);

} // namespace fluxdat::dat
