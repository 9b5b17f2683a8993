// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The output of jobs: RFC 24 events in guest.output.
#pragma once

#include "lib/flux/services.h"

#include <string>
#include <vector>

namespace fluxdat::dat {

// The last lines that a job which has ended wrote, of all ranks, stdout and stderr
// together, at most `count`, each with its rank in front. Empty where there is none, or
// it cannot be read.
flux::Task<std::vector<std::string>> output_tail(flux::Connection& parent,
                                                 flux::JobId id, std::size_t count);

// What an IMP, or a job shell that had no connection yet, said last in a job that has
// ended: "rank 0: flux-imp: ...". Why a job was refused stands nowhere else. Empty
// where they said nothing, or it cannot be read.
flux::Task<std::string> imp_last_line(flux::Connection& parent, flux::JobId id);

} // namespace fluxdat::dat
