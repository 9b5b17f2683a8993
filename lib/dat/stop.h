// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How a DAT ends when somebody ends it.
#pragma once

#include "lib/dat/find.h"

#include <functional>

namespace fluxdat::dat {

struct StopOptions {
    double grace = 30; // seconds that running jobs have
    bool now = false;  // no grace, no asking the supervisor: cancel the job
};

// What everybody else is told.
std::string stop_refusal(const std::string& owner, const std::string& name,
                         flux::JobId id);

// Ends the DAT and sees it end. A running one is asked to close by its supervisor; a
// pending one, one without a supervisor that answers, and any with `now`, is cancelled.
// What is interrupted is the waiting: the end goes on, and where it was not known to
// have begun, nothing is cancelled. `tell` gets what happens, a line
// each. exit 7 for whoever is neither its owner nor the parent instance's.
flux::Task<Result<>> stop(flux::Loop& loop, flux::Connection& parent, Dat dat,
                          StopOptions options, flux::Interrupt& interrupt,
                          std::function<void(const std::string&)> tell);

} // namespace fluxdat::dat
