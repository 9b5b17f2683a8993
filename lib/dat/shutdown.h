// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The end of a DAT, carried out by its supervisor as window.h plans it: of its window,
// or since somebody stopped it. What was done stands in the record, so a new worker
// goes on with it; and a plan that changes is another from then on: the end that moved
// away takes back that the queues were closed.
#pragma once

#include "lib/dat/book.h"
#include "lib/dat/links.h"
#include "lib/dat/window.h"

namespace fluxdat::dat {

class Shutdown
{
public:
    Shutdown(Links& links, Book& book) : links_(links), book_(book) {}

    // The book is taken up, and the job got its nodes at `begin`. From now on the plan
    // is carried out. May be called again.
    void follow(double begin);

    // The DAT is to end in `grace` seconds; the earliest end that was asked for counts.
    // Puts it in the record, and lets it happen.
    flux::Task<void> stop(double grace);

    // The parent ends the job at another time than before (book.h).
    void replan();

private:
    Window& window() { return book_.record().window; }
    flux::Task<void> run(bool after_another);
    flux::Task<void> wait(double until);
    flux::Task<void> carry_out(Due to_do);
    flux::Task<void> end_has_moved();
    flux::Task<bool> close();
    flux::Task<void> reopen();
    flux::Task<void> end();
    flux::Task<void> warn(std::string text);
    flux::Task<void> tell_jobs(std::string state, std::string type, std::string text);
    flux::Task<void> signal_jobs(int signum);
    flux::Task<void> cancel_jobs(std::string state, flux::Interrupt& limit);
    flux::Task<bool> sleep_until(double time);
    flux::Task<bool> wait_until_idle(flux::Interrupt& interrupt);
    flux::Task<bool> idle_within(double seconds);
    std::string ends_when() const;

    Links& links_;
    Book& book_;
    bool following_ = false;
    bool idle_ = false;   // closed, and no job runs
    double told_end_ = 0; // the end that people know of
    // When to try again to close the queues, which failed, and how much later then.
    double close_again_ = 0, close_pause_ = 1;
    flux::Interrupt woken_; // from waiting
};

} // namespace fluxdat::dat
