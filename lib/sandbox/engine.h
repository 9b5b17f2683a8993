// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The process of a sandbox's system instance: all its ranks, from start to end.
#pragma once

#include "lib/flux/hostlist.h"
#include "lib/flux/json.h"

#include <cstdint>
#include <functional>
#include <string>

namespace fluxdat::sandbox {

struct EngineOptions {
    std::string rundir; // to be created, and removed at the end
    flux::Hostlist hosts;
    std::uint32_t cores; // of each host, where the configuration does not say
    flux::Json config;
};

// Reports once, when it can be used or cannot start; then runs until SIGTERM or SIGINT,
// and ends its jobs. Gives the exit status.
int run_engine(const EngineOptions& options,
               const std::function<void(const Result<>&)>& report);

} // namespace fluxdat::sandbox
