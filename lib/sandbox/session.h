// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A user's sandbox: "flux-dat sandbox up", "down" and "env". There is at most one a
// user, a daemon that is a system instance, with all it has in one directory:
//
//     flux-dat-sandbox   says that the directory is one of these, and what is below
//               may be removed; in one without it, nothing is touched
//     lock      held by the engine as long as it lives (fcntl(2), which names its pid)
//     session   JSON: where to reach it, and the options that it was started with
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
#include <optional>
#include <string>

namespace fluxdat::sandbox {

using flux::Json;

constexpr std::uint32_t session_hosts_max = 4096;

constexpr std::uint32_t session_hosts_default = 4, session_cores_default = 4;

// What is not given has its default, and fits any session that is up.
struct SessionOptions {
    std::optional<flux::Hostlist> hosts; // one rank each; sandbox[0-3]
    std::optional<std::uint32_t> cores;  // of each, unless config has resource.config
    // Of the instance, TOML as JSON. Guests may connect and root is the owner, unless
    // it says otherwise.
    std::optional<Json> config;
    std::optional<std::uint32_t> speed; // of its clock, 1 to clock_speed_max; 1
};

struct Session {
    std::string uri; // local-uri of rank 0
    std::string directory;
    flux::Hostlist hosts;
    std::uint32_t speed = 1;
    std::string clock;    // clock_variable's; empty where the machine's will do
    bool already = false; // up() found it so, down() found nothing
};

// Starts the engine, and waits until it can be used. When it is up already, nothing is
// changed, and options that it was not started with are an error. So is a directory
// with files in it that is not a sandbox's.
Result<Session> session_up(const SessionOptions& options);

// Ends the engine, its jobs, and everything that they have left, and waits until it is
// gone. Also after the engine was killed. A directory that is not a sandbox's is an
// error where it has files in it, and is left as it is.
Result<Session> session_down();

// The running session. Fails when there is none.
Result<Session> session_find();

} // namespace fluxdat::sandbox
