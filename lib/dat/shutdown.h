// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How a supervisor ends its DAT: closed to new jobs; those that run are told, and have
// until the grace is over.
#pragma once

#include "lib/dat/book.h"
#include "lib/dat/links.h"

namespace fluxdat::dat {

class Shutdown
{
public:
    Shutdown(Links& links, Book& book) : links_(links), book_(book) {}

    // Puts it in the record that the DAT ends in `grace` seconds. The earliest end that
    // was asked for counts.
    flux::Task<void> announce(double grace);
    // Does it. Also after a worker before this one had begun it.
    flux::Task<void> run(double grace);
    bool begun() const { return begun_; }

private:
    void end_if_sooner(double grace);
    flux::Task<void> warn_jobs(double grace);
    flux::Task<void> cancel_jobs();

    Links& links_;
    Book& book_;
    bool begun_ = false;
    flux::Interrupt grace_over_;
};

} // namespace fluxdat::dat
