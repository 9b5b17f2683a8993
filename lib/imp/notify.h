// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Messages to systemd: sd_notify(3), whose protocol is one datagram to the socket in
// NOTIFY_SOCKET. Written here, since libsystemd is too much to link with privileges.
#pragma once

#include <string>
#include <sys/types.h>

namespace fluxdat::imp {

// Sends `state` ("READY=1"). Nothing where NOTIFY_SOCKET is not set; a failure is not
// told, as nobody could do anything about it. The socket is looked for with the rights
// of `uid` alone: it is the caller's variable.
void notify(const std::string& state, uid_t uid, gid_t gid);

} // namespace fluxdat::imp
