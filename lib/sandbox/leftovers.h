// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Processes of a session that have outlived its engine: what jobs have put into the
// background, when the engine could not end it because it was killed itself.
#pragma once

#include <string>

namespace fluxdat::sandbox {

// Waits `grace` seconds for the processes of a session (session_variable in their
// environment) to end by themselves, then sends SIGTERM, and after as long again
// SIGKILL. The caller's own environment must not have the variable.
void end_leftovers(const std::string& session, double grace);

} // namespace fluxdat::sandbox
