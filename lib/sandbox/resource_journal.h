// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Which ranks are there, as it changes: resource.journal, for the instance's owner, on
// rank 0 (the events are those of flux-resource(1), "eventlog"). As Flux 0.88 answers
// it: first "restart", then "resource-define" with R, then all that has happened since,
// each in one answer, then one without events, then one for each event as it happens.
#pragma once

#include "lib/sandbox/resources.h"
#include "lib/sandbox/router.h"

#include <vector>

namespace fluxdat::sandbox {

// Where an instance has its resources from, as "resource-define" names it.
enum class ResourceOrigin {
    configuration,
    job_info, // those of the job that it is
};

class ResourceJournal
{
public:
    // Of an instance with all its ranks down, and this R.
    ResourceJournal(Router& router, const Inventory& inventory, Json R,
                    ResourceOrigin origin);

    void online(const Idset& ranks) { happened("online", ranks); }
    void offline(const Idset& ranks) { happened("offline", ranks); }

private:
    void listen(const Request& request);
    void happened(const char* name, const Idset& ranks);

    Router& router_;
    Json restart_, define_; // an answer each
    // All since, kept whole (Flux has resource.journal-max): it is one event for each
    // time that a rank came or went.
    Json events_ = Json::array();
    std::vector<Ticket> listeners_;
};

} // namespace fluxdat::sandbox
