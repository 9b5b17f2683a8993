// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A question to a DAT's supervisor, from anywhere in the parent instance.
#pragma once

#include "lib/dat/find.h"

namespace fluxdat::dat {

// One call of the supervisor's service (supervisor.h). A service that goes away with a
// request open is not answered for (RFC 6 leaves it to the caller), so the wait is
// bounded: errnum ETIMEDOUT. ENOSYS: it is not registered. Interrupted, the error is
// the interrupt's, and whether the supervisor does what it was asked is not known.
flux::Task<Result<Json>> ask_supervisor(flux::Loop& loop, flux::Connection& parent,
                                        const Dat& dat, std::string method,
                                        Json payload,
                                        flux::Interrupt* interrupt = nullptr);

} // namespace fluxdat::dat
