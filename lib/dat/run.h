// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A command as a job of a DAT, from the guest's side: signed, submitted, its output
// streamed, its exit status taken over.
#pragma once

#include "lib/dat/jobspec.h"
#include "lib/flux/services.h"

#include <functional>
#include <string>

namespace fluxdat::dat {

// Where the output goes as it comes. `rank` is the task's.
using OnOutput = std::function<void(const std::string& stream, const std::string& rank,
                                    const std::string& data)>;

// How a job ended.
struct JobEnd {
    flux::JobId id = 0;
    // As Flux computes it: the tasks' highest exit code, or 128 and a signal; nothing
    // for a job that ended before it ran.
    std::optional<int> exit_status;
    std::optional<Error> exception; // the first fatal one: type and note
};

// Runs the job that the jobspec describes to its end. The interrupt, when raised, sends
// SIGINT to the job; raised once more (it is cleared after the first), it cancels the
// job. An error is that the job could not be submitted or followed.
flux::Task<Result<JobEnd>> run_job(flux::Connection& dat, const Json& jobspec,
                                   flux::Interrupt& interrupt, OnOutput output);

} // namespace fluxdat::dat
