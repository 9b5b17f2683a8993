// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Job queues and their policy: RFC 33, flux-config-queues(5), flux-config-policy(5).
#pragma once

#include "lib/sandbox/jobspec.h"

#include <map>
#include <optional>
#include <string>

namespace fluxdat::sandbox {

struct Queue {
    std::string name; // empty for the anonymous one
    bool enabled = true;
    bool started = true;
    std::string disable_reason, stop_reason;
    std::vector<std::string> requires_properties; // "requires", or "+NAME" for "hosts"
    double default_duration = 0;                  // seconds; 0: none
    double duration_max = 0;                      // seconds; 0: none
    std::optional<std::uint64_t> nnodes_max, nnodes_min, ncores_max;
};

class Queues
{
public:
    // From a configuration; the messages name the key. Also gives the nodes that a
    // queue's "hosts" names their membership property.
    static Result<Queues> from_config(const Json& config, Inventory& inventory);

    bool named() const { return !queues_.contains(""); }
    std::map<std::string, Queue>& all() { return queues_; }
    // The message for an unknown one is job-manager's.
    Result<Queue*> find(const std::optional<std::string>& name);

    // Gives a job its queue, the queue's defaults and constraints, and checks its
    // limits: what happens to a job between submission and the scheduler.
    Result<Queue*> admit(Jobspec& spec);
    // Whether the limits allow a job of that queue to last so long (0: without end).
    Result<> allows(const Queue& queue, double duration) const;

private:
    std::map<std::string, Queue> queues_;
    std::string default_queue_;
};

} // namespace fluxdat::sandbox
