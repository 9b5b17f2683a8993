// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The options that say what of the parent's nodes a DAT asks for: those of `start` and
// of `check`.
#pragma once

#include "lib/dat/jobspec.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace fluxdat::cli {

struct RequestOptions {
    std::uint32_t nodes = 1;
    std::optional<std::string> queue, time_limit, constraint;

    void add_to(CLI::App& command);
    Result<> apply_to(dat::Submission& submission) const;
};

} // namespace fluxdat::cli
