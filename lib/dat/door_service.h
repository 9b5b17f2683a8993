// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The service of one rank's door: changes of the guest list, and checks of the door,
// without a program being started for each. It is in the process that watches over the
// door anyway (lib/perms/watcher.h), and registered with that rank's broker:
//
//     dat-door.apply {"door":PATH,"guests":LIST}  -> {"good","lines":[..]}
//     dat-door.check {"door":PATH,"guests":LIST}  -> {"good","lines":[..]}
//
// with the nodeid of the rank; what these do, ranks.h says (`flux-dat door`). The DAT's
// owner only: a handler checks the userid and role that the broker stamped (RFC 12).
//
// Why: a process on each rank costs the broker and the node 40 ms of CPU there (Flux
// 0.88, 64 brokers on two cores; `true` as much as this program), a request less than
// one. Where nobody serves (a watcher that was killed, an instance that was adopted)
// the program is started after all, so nothing depends on this.
#pragma once

#include "lib/dat/ranks.h"

namespace fluxdat::dat {

// Serves until the descriptor `ended` is readable. Connects to the socket in the door,
// which the rank's broker has yet to make, and again if the connection is lost. For a
// process that does nothing else.
void serve_door(const std::string& door, int ended);

// `what`: "apply" or "check". Nothing where the rank has no such service, or it gives
// no answer in some seconds.
flux::Task<std::optional<AtEntrance>>
ask_door(flux::Connection& dat, std::uint32_t rank, const std::string& what,
         const std::string& door, const std::string& guests,
         flux::Interrupt* interrupt);

} // namespace fluxdat::dat
