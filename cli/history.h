// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat status --history: who changed the guest list of a DAT, when, and how.
#pragma once

#include "cli/command.h"

namespace fluxdat::cli {

// Prints it, and gives the exit status. Of one that has ended, too, named by its job
// id. Who may not read the job's eventlog asks the supervisor: exit 7 where that is
// gone, or says no. Else the errors of find_dat().
flux::Task<Result<int>> show_history(const Common& common, flux::Loop& loop,
                                     flux::Connection& parent,
                                     std::optional<std::string> selector,
                                     bool with_header);

} // namespace fluxdat::cli
