// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The queues of a DAT: flux-queue(1), as its owner. A closed one accepts no job and
// starts none; both say why.
#pragma once

#include "lib/flux/services.h"

#include <string>

namespace fluxdat::dat {

// A queue as job-manager.queue-status has it. `name` empty: the anonymous one. The
// reasons are empty where it is enabled, or started.
struct QueueStatus {
    std::string name;
    bool enabled = false, started = false;
    std::string disable_reason, stop_reason;
};
// EPROTO where the answer does not say whether it is.
flux::Task<Result<QueueStatus>> queue_status(flux::Connection& flux, std::string name);

// Named queues are stopped when an instance boots; a DAT is there to be used. What
// close_queues() has closed stays so.
flux::Task<Result<>> start_queues(flux::Connection& dat);

// Closes those that are open; where there are no named ones, the anonymous one. The
// error is of the first that it could not, and names it; the others are closed.
flux::Task<Result<>> close_queues(flux::Connection& dat, std::string why);
// Opens those that close_queues() has closed, and no others. Errors as above.
flux::Task<Result<>> reopen_queues(flux::Connection& dat);

} // namespace fluxdat::dat
