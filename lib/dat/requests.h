// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The requests of a supervisor's service in the parent (supervisor.h lists them): who
// may ask what, and the answers.
#pragma once

#include "lib/dat/book.h"
#include "lib/dat/links.h"
#include "lib/dat/lookups.h"
#include "lib/dat/shutdown.h"

#include <functional>
#include <unistd.h>

namespace fluxdat::dat {

class Requests
{
public:
    Requests(Links& links, Book& book, Shutdown& shutdown, Lookups& lookups)
        : links_(links), book_(book), shutdown_(shutdown), lookups_(lookups)
    {
    }

    // Why jobs of those who are revoked are not cancelled (watch.h); empty where they
    // are.
    std::function<std::string()> evictor_fault = [] { return std::string(); };

    // The name of the DAT's owner, for what is told to others; the uid until then.
    flux::Task<void> learn_owner();

    // There is a connection to the parent. What takes time is answered later.
    void handle(const flux::Message& request);

private:
    flux::Task<void> answer_admission(flux::Message request);
    flux::Task<void> answer_status(flux::Message request);
    flux::Task<void> answer_jobs(flux::Message request);
    flux::Task<void> answer_history(flux::Message request);
    flux::Task<void> change_list(flux::Message request, Change change, int& at_work);
    flux::Task<void> stop(flux::Message request, double grace);
    flux::Task<void> undo(flux::Message request);
    Result<Change> requested_change(const flux::Message& request, bool owner,
                                    bool manager) const;
    bool is_busy(const flux::Message& request, int at_work, int max);
    flux::Task<Json> describe_imp(flux::Interrupt& limit);

    Links& links_;
    Book& book_;
    Shutdown& shutdown_;
    Lookups& lookups_;
    std::string owner_ = std::to_string(geteuid());
    int statuses_ = 0, admissions_ = 0, histories_ = 0; // at work
    int managers_changes_ = 0, owners_changes_ = 0;
    Json imp_; // describe_imp(), once it is known
};

} // namespace fluxdat::dat
