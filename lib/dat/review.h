// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The DATs that were, for "flux-dat report": each with what the parent knows of its
// window, and with the report that its supervisor left (report.h).
#pragma once

#include "lib/dat/find.h"
#include "lib/dat/report.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::dat {

struct Reviewed {
    Dat dat;
    double begin_asked = 0; // --begin-time, else when it was submitted
    // How long it had its nodes, in seconds; until `now` where it still has them.
    double got = 0;
    std::optional<Report> report;
    std::string missing; // why there is none, or not the last one; else empty
    // As changes.h has it; null where the caller may not read the job's eventlog, or it
    // says more than some thousand changes do.
    Json changes;
};

// Those that are there, or ended at `since` (seconds since the epoch) or later, and fit
// the selector, a name or a job id; in the order of their begin. None is no error.
flux::Task<Result<std::vector<Reviewed>>> review(flux::Connection& parent,
                                                 std::optional<std::string> selector,
                                                 double since, double now);

// Why a DAT has no report, or one that does not go to its end.
std::string missing_from(const Reviewed& reviewed);

} // namespace fluxdat::dat
