// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Moving the end of a DAT's window: its job gets another time limit in the parent, as
// flux-update(1) gives it. The supervisor follows whoever did that (window.h).
#pragma once

#include "lib/dat/find.h"

namespace fluxdat::dat {

struct Extended {
    double duration = 0;   // seconds, in all
    double expiration = 0; // seconds since the epoch; 0: the job has not begun
};

// Makes the window longer by so many seconds (more than 0). Errors: it has no time
// limit; it is being stopped, or over; refused by the parent, with its reason (exit 7
// where that is who asks: Flux lets a job's owner change a pending one within the
// limits, and only the instance's owner a running one).
flux::Task<Result<Extended>> extend(flux::Connection& parent, const Dat& dat,
                                    double seconds);

} // namespace fluxdat::dat
