// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The events of all jobs, in one stream: job-manager.events-journal, for the instance's
// owner. As Flux 0.88 answers it: first one answer for each job with what was before,
// then one with the id -1 and no events, then one for each event as it happens.
#pragma once

#include "lib/sandbox/jobs.h"

#include <set>

namespace fluxdat::sandbox {

class JobJournal
{
public:
    JobJournal(Router& router, Jobs& jobs);

private:
    struct Listener {
        Ticket ticket;
        std::optional<std::set<std::string>> allow; // names of events; all without it
        std::set<std::string> deny;

        bool wants(const std::string& name) const
        {
            return (!allow || allow->contains(name)) && !deny.contains(name);
        }
    };
    void listen(const Request& request);
    void replay(const Listener& listener, const Job& job);
    // An answer with these events, which brings along what they announce: the jobspec
    // with "submit", R with "alloc".
    void send(const Listener& listener, const Job& job, Json events, bool with_jobspec,
              bool with_R);
    void happened(const Job& job, const std::string& line);

    Router& router_;
    Jobs& jobs_;
    std::vector<Listener> listeners_;
};

} // namespace fluxdat::sandbox
