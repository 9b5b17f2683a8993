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

// The window that was asked for.
struct WindowAsked {
    double begin = 0;    // seconds since the epoch
    double duration = 0; // seconds; 0: no limit
};
// By the jobspec as it was submitted, at `t_submit`: later changes of the limit are not
// in it. A begin time that had passed is that of the submission, unless the window
// stands in the calendar (early.h).
WindowAsked asked_in(const Json& jobspec, double t_submit);

struct Reviewed {
    Dat dat;
    // Where the caller may not read the jobspec: from its submission on, as long as its
    // limit is now.
    WindowAsked asked;
    // How long it had its nodes, in seconds; until `now` where it still has them.
    double got = 0;
    double node_seconds() const { return got * dat.job.nnodes; }
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
