// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Changing the guest list of a DAT: the command's part. Of one that runs, its
// supervisor is asked (supervisor.h), which brings the list to all ranks. Of one that
// does not run yet, the change is posted here (changes.h), and is in force when it
// starts; that only the DAT's owner and the parent instance's can do.
#pragma once

#include "lib/dat/changes.h"
#include "lib/dat/doors.h"
#include "lib/dat/find.h"

namespace fluxdat::dat {

struct ListChanged {
    std::uint64_t generation = 0; // of the list that has the change in it
    bool running = true;          // else it was recorded, for when the DAT starts
    bool everywhere = true;       // all ranks have it
    Named granted, revoked;       // of the change, what was not so already
    bool open = false;            // as it is now
    std::string evictor_fault;    // why their jobs are not cancelled; else empty
    std::vector<Doors::Rank> ranks;
};

// `change` without key and by. Errors: exit 7 for whoever may not; a list that no DAT
// can have; that the DAT ends meanwhile, or its supervisor does not answer. Interrupted
// (whoever raises that closes the connection, too), the error says how to see whether
// the list was changed.
flux::Task<Result<ListChanged>> change_list(flux::Loop& loop, flux::Connection& parent,
                                            Dat dat, Change change,
                                            flux::Interrupt& interrupt);

} // namespace fluxdat::dat
