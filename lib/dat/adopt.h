// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Making a DAT of a Flux instance that was started by hand, as a job of this user's:
// the way to its sockets is opened to the guests on all ranks (lib/perms/passage.h),
// and a supervisor is started in it, so that from then on it is like any other, but for
// two things. Its IMP does not ask the guest list, since the brokers' environment is
// what it is. And its end is its job's, not its supervisor's.
#pragma once

#include "lib/dat/doors.h"
#include "lib/dat/find.h"
#include "lib/flux/loop.h"

#include <functional>
#include <string>
#include <vector>

namespace fluxdat::dat {

struct AdoptOptions {
    std::string name;
    perms::GuestList guests; // generation 1
    std::vector<uid_t> managers;
    WindowOptions window;
    std::string program; // of flux-dat, absolute, the same on every node
};

// Adopts the job. All or nothing: where it fails on one rank, or is interrupted, it is
// undone on all; and what a killed one leaves can be undone. Errors: no such job, not
// running, not this user's (exit 7), no Flux instance, a DAT already; a configuration
// that lets no guest in, with the line that is missing; a rank, by number and host, and
// why.
flux::Task<Result<Dat>> adopt(flux::Loop& loop, flux::Connection& parent,
                              flux::JobId id, AdoptOptions options,
                              flux::Interrupt& interrupt);

// Everything as it was before adopt(). Exit 6, with the ranks, where that failed on
// some.
flux::Task<Result<>> undo_adoption(flux::Loop& loop, flux::Connection& parent, Dat dat);

// The supervisor's part of it. Gives the ranks where it failed, and why; empty if none.
flux::Task<std::string> restore_all_ranks(flux::Connection& dat, flux::Hostlist hosts);

} // namespace fluxdat::dat
