// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What an instance answers about its jobs: job-ingest, job-manager, job-list (RFC 43)
// and job-info (RFC 41).
#pragma once

#include "lib/sandbox/jobs.h"

namespace fluxdat::sandbox {

class JobServices
{
public:
    JobServices(Router& router, Jobs& jobs);

private:
    // job-ingest
    void submit(const Request& request);
    // job-manager
    void raise(const Request& request);
    void kill(const Request& request);
    void urgency(const Request& request);
    void memo(const Request& request);
    void update(const Request& request);
    Result<> check_duration(const Request& request, const Job& job, const Json& value);
    void critical_ranks(const Request& request);
    void queue_list(const Request& request);
    void queue_status(const Request& request);
    void queue_enable(const Request& request);
    void queue_start(const Request& request);
    void stats(const Request& request);
    // job-list
    void list(const Request& request);
    void list_id(const Request& request);
    void job_stats(const Request& request);
    // job-info
    void eventlog_watch(const Request& request);
    void eventlog_watch_cancel(const Request& request);
    void lookup(const Request& request);
    void update_watch(const Request& request);
    void update_watch_cancel(const Request& request);

    void changed(Job& job);
    void forget(const Departure& departure);
    Job* active_job(const Request& request, int unknown_errnum);
    std::optional<std::vector<Queue*>> queues_of(const Request& request);

    Router& router_;
    Jobs& jobs_;
    struct Waiting {
        Ticket ticket;
        JobId id;
        unsigned state;
        std::set<std::string> attributes;
    };
    std::vector<Waiting> waiting_; // list-id with a state
    struct Watching {
        Ticket ticket;
        JobId id;
        std::string key;
    };
    std::vector<Watching> watching_; // update-watch
    std::vector<Ticket> draining_, idling_;
};

} // namespace fluxdat::sandbox
