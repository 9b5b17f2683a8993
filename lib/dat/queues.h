// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The queues of a DAT: flux-queue(1), as its owner. A closed one accepts no job and
// starts none; both say why.
#pragma once

#include "lib/flux/services.h"

#include <string>

namespace fluxdat::dat {

// Named queues are stopped when an instance boots; a DAT is there to be used. What
// close_queues() has closed stays so.
flux::Task<Result<>> start_queues(flux::Connection& dat);

// Closes those that are open. With the anonymous queue it is that.
flux::Task<Result<>> close_queues(flux::Connection& dat, std::string why);
// Opens those that close_queues() has closed, and no others.
flux::Task<Result<>> reopen_queues(flux::Connection& dat);

} // namespace fluxdat::dat
