// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Where a supervisor stands: between the DAT, whose broker it is a client of for as
// long as it lives, and the parent instance, whose broker may go and come back.
#pragma once

#include "lib/dat/ranks.h"
#include "lib/flux/hostlist.h"
#include "lib/flux/loop.h"
#include "lib/flux/services.h"

#include <memory>
#include <string>

namespace fluxdat::dat {

struct Links {
    Links(flux::Loop& the_loop, bool was_adopted) : loop(the_loop), adopted(was_adopted)
    {
    }

    flux::Loop& loop;
    const bool adopted; // started by hand: doors are passages
    flux::JobId id = 0; // of the DAT's job in the parent
    std::uint32_t size = 0;
    std::string parent_uri;
    std::string nodelist;   // of the DAT's job, in the order of ranks
    bool lost_dat = false;  // its rank 0 broker is gone
    bool no_broker = false; // it was so from the start, and with it the DAT
    flux::Interrupt end;    // the DAT is to end, or has
    std::unique_ptr<flux::Connection> dat;
    // Null while there is none: to be looked at after every co_await.
    std::unique_ptr<flux::Connection> parent;

    // Connects to the DAT's broker (FLUX_URI) and asks it what it is.
    flux::Task<Result<>> connect_dat();

    // The parent may be lost while an answer is being made.
    void respond(const flux::Message& request, const flux::Json& answer)
    {
        if (parent)
            parent->respond(request, answer);
    }
    void respond_error(const flux::Message& request, const Error& error)
    {
        if (parent)
            parent->respond_error(request, error.errnum ? error.errnum : EINVAL,
                                  error.message);
    }

    Entrance entrance() const { return adopted ? Entrance::passage : Entrance::door; }
    flux::Hostlist hosts() const { return hosts_by_rank(nodelist, size); }
};

} // namespace fluxdat::dat
