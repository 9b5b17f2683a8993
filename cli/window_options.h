// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The options that say how a DAT's window ends: --warn, --close, --grace, of `start`
// and of `adopt`. add_to() keeps `this`, which must outlive the App.
#pragma once

#include "lib/dat/window.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::cli {

struct WindowArguments {
    std::optional<std::string> warn, close, grace;

    // The options, as they were added.
    std::vector<CLI::Option*> add_to(CLI::App& command);
    // Exit 2 for a value that is none; whether it fits the window is check_window()'s.
    Result<dat::WindowWish> wish() const;
};

} // namespace fluxdat::cli
