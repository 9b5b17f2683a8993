// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The options that `start` and `check` have in common: what of the parent a DAT asks
// for, and who enters it by what door. add_to() keeps `this`, which must outlive the
// App. What is wrong with a value is a usage error, exit 2.
#pragma once

#include "lib/dat/jobspec.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::cli {

struct RequestOptions {
    std::uint32_t nodes = 1;
    std::optional<std::string> queue, bank, time_limit, constraint;
    std::vector<std::string> setopts, setattrs, environment;

    void add_to(CLI::App& command);
    // All of it but the name and the begin time.
    Result<> apply_to(dat::Submission& submission) const;
};

struct GuestOptions {
    std::vector<std::string> users, groups;

    void add_to(CLI::App& command);
};

struct DoorOptions {
    std::optional<std::string> dir;
    bool open = false;

    void add_to(CLI::App& command);
    Result<> check() const;
};

} // namespace fluxdat::cli
