// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The options of `start`, which `check` takes, too, so that a line of a crontab is
// checked by changing one word of it. add_to() keeps `this`, which must outlive the
// App. What is wrong with a value is a usage error, exit 2.
#pragma once

#include "cli/configuration.h"
#include "cli/request.h"
#include "cli/window_options.h"
#include "lib/dat/early.h"
#include "lib/dat/start.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::cli {

struct StartArguments {
    ConfigurationOptions configuration;
    RequestOptions request;
    WindowArguments window;
    GuestOptions guests;
    DoorOptions doors;
    std::optional<std::string> name, begin_time, urgency, timeout, early;
    std::vector<std::string> managers;
    bool if_not_running = false, no_wait = false;
    bool cancel_on_timeout = false;

    // `timeout_help`: what --timeout is to the command.
    void add_to(CLI::App& command, const std::string& timeout_help);
    // All of it but --timeout and --early.
    Result<dat::StartOptions> options() const;
    // --early, which is there: the window is --begin-time and --time-limit, whenever
    // this is called. One that is started late ends when it would have.
    Result<dat::Timeliness> keep_to_window(dat::StartOptions& options) const;
    // What is to be said of a --begin-time that is over, without --early.
    std::optional<std::string>
    begin_that_has_passed(const dat::Submission& submission) const;

private:
    Result<dat::Submission> submission() const;
};

} // namespace fluxdat::cli
