// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A user's sandbox: "flux-dat sandbox up", "down" and "env". There is at most one a
// user, a daemon that is a system instance, with all it has in one directory:
//
//     lock      held by the engine as long as it lives (fcntl(2), which names its pid)
//     session   JSON: where to reach it
//     log       of the engine
//     run/      rundir: sockets, the jobs' temporary directories
//
// The directory is /tmp/flux-dat-sandbox-UID, or what FLUX_DAT_SANDBOX_DIR names. Not
// in XDG_RUNTIME_DIR, which keeps out the guests that a rehearsal is about.
#pragma once

#include "lib/flux/hostlist.h"
#include "lib/flux/json.h"
#include "lib/result.h"

#include <cstdint>
#include <string>

namespace fluxdat::sandbox {

using flux::Json;

constexpr std::uint32_t session_hosts_max = 4096;

struct SessionOptions {
    flux::Hostlist hosts;    // one rank each, at least one
    std::uint32_t cores = 4; // of each host, unless config has resource.config
    // Of the instance, TOML as JSON. Guests may connect and root is the owner, unless
    // it says otherwise.
    Json config = Json::object();
};

struct Session {
    std::string uri; // local-uri of rank 0
    std::string directory;
    flux::Hostlist hosts;
    bool already = false; // up() found it so, down() found nothing
};

// Starts the engine, and waits until it can be used. When it is up already, nothing is
// changed.
Result<Session> session_up(const SessionOptions& options);

// Ends the engine, its jobs, and everything that they have left, and waits until it is
// gone. Also after the engine was killed.
Result<Session> session_down();

// The running session. Fails when there is none.
Result<Session> session_find();

} // namespace fluxdat::sandbox
