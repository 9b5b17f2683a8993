// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The rank launcher: the task that runs on every node of a DAT's job. It makes the
// rank's door and becomes the rank's broker, so a rank is never up with its door wrong.
//
//     flux-dat launch DAT-FILE flux broker ... -Slocal-uri=local://@DOOR@/local ...
//
// @DOOR@ (door_placeholder in jobspec.h) is replaced by the door's path. To the
// broker's environment it adds FLUX_DAT_GRANTS, the path of the grants file for the
// IMP; and XDG_RUNTIME_DIR and DBUS_SESSION_BUS_ADDRESS, where the owner has a user bus
// on this node.
//
// A node that cannot make its door would leave the others waiting for it in their
// bootstrap for ever. So the launcher raises a fatal exception on the job, with host,
// rank and reason as its note: `start` shows that.
#pragma once

#include <string>
#include <vector>

namespace fluxdat::dat {

// What a program does, with what main() gets; gives its exit status.
using Program = int (*)(int argc, char** argv);

// Becomes `command`, or gives an exit status after a failure, which it has printed.
//
// In a sandbox the command is this very program under another name, and `as_broker` is
// what it does under that name: called here, since to load the program a second time on
// each rank was a third of the time that 64 ranks took to start.
int launch(const std::string& dat_file, std::vector<std::string> command,
           Program as_broker);

} // namespace fluxdat::dat
