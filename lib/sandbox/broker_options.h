// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The command line of "flux broker": flux-broker(1).
#pragma once

#include "lib/result.h"

#include <map>
#include <string>
#include <vector>

namespace fluxdat::sandbox {

struct BrokerOptions {
    std::string config_path;                       // -c
    std::map<std::string, std::string> attributes; // -S
    std::vector<std::string> program;              // what is left
};

// The arguments after "broker". Options that only concern what the sandbox does not
// have are taken and mean nothing.
Result<BrokerOptions> parse_broker_options(const std::vector<std::string>& arguments);

} // namespace fluxdat::sandbox
