// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The options that say what a DAT's configuration is made of: those of `start` and of
// `config`.
#pragma once

#include "lib/conf/conf.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fluxdat::cli {

struct ConfigurationOptions {
    std::vector<std::string> conf;
    std::vector<std::string> inherit;
    std::optional<std::string> imp;

    void add_to(CLI::App& command);
    Result<conf::Inputs> inputs() const;
};

} // namespace fluxdat::cli
