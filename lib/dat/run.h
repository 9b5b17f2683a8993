// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A command as a job of a DAT, from the guest's side: signed, submitted, this process'
// standard input passed on to all its tasks, its output streamed, its exit status taken
// over.
#pragma once

#include "lib/dat/jobspec.h"
#include "lib/flux/services.h"

#include <functional>
#include <string>

namespace fluxdat::dat {

// What comes of a job while it lives.
struct RunEvents {
    // Bytes of a task's; where `rank` is empty, of the IMP's or the like. An error ends
    // the job.
    std::function<Result<>(const std::string& stream, const std::string& rank,
                           const std::string& data)>
        output;
    // A line of the job shell's, or of the instance's, for the job's user.
    std::function<void(const std::string& text)> notice;
    // It has waited for its nodes for longer than a moment.
    std::function<void(flux::JobId id)> waiting;
};

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
// job. An error is that the job could not be submitted or followed, or the error of
// events.output, for which the job was cancelled.
flux::Task<Result<JobEnd>> run_job(flux::Loop& loop, flux::Connection& dat,
                                   const Json& jobspec, flux::Interrupt& interrupt,
                                   const RunEvents& events);

} // namespace fluxdat::dat
