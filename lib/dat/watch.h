// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What goes on in a DAT, as its supervisor follows it: which ranks are up, which are
// drained for a job that should not have been (undrain.h), and jobs of those who are
// not on the guest list (evict.h). For as long as there is a connection to the DAT.
#pragma once

#include "lib/dat/book.h"
#include "lib/dat/evict.h"
#include "lib/dat/links.h"
#include "lib/dat/undrain.h"

#include <map>

namespace fluxdat::dat {

class Watch
{
public:
    // Needs links.dat; on_list of the book calls judge(). All three must outlive the
    // tasks that start() makes.
    Watch(Links& links, Book& book, Lookups& lookups);

    // Begins to follow; for this task's life in the loop.
    void start();
    // The book's list is in force.
    void judge();
    // Why jobs of those who are revoked are not cancelled; empty where they are.
    const std::string& evictor_fault() const { return evictor_.fault(); }

private:
    flux::Task<void> follow_ranks();
    flux::Task<void> follow_jobs();
    flux::Task<Result<bool>> was_off_list(uid_t user, Drains::Drain drain);

    Links& links_;
    Book& book_;
    Lookups& lookups_;
    Evictor evictor_;
    Undrainer undrainer_;
    struct Cancelled {
        std::uint64_t jobs = 0;
        double when = 0; // of the last line about it
    };
    std::map<uid_t, Cancelled> cancelled_;
};

} // namespace fluxdat::dat
