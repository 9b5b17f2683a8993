// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/queues.h"

#include "lib/flux/fsd.h"

#include <algorithm>

namespace fluxdat::sandbox {

namespace {

const Json* value_at(const Json& config, std::initializer_list<const char*> path)
{
    const Json* here = &config;
    for (const char* key : path) {
        if (!here->is_object())
            return nullptr;
        auto next = here->find(key);
        if (next == here->end())
            return nullptr;
        here = &*next;
    }
    return here;
}

Result<> read_duration(const Json& policy, std::initializer_list<const char*> path,
                       const std::string& where, double& out)
{
    const auto* value = value_at(policy, path);
    if (!value)
        return {};
    auto seconds = value->is_string()
                       ? flux::parse_fsd(value->get_ref<const std::string&>())
                       : Result<double>(fail("must be a string"));
    if (!seconds)
        return fail("{}: {}", where, seconds.error().message);
    out = *seconds;
    return {};
}

Result<> read_count(const Json& policy, std::initializer_list<const char*> path,
                    const std::string& where, std::optional<std::uint64_t>& out)
{
    const auto* value = value_at(policy, path);
    if (!value)
        return {};
    // -1 is "unlimited", to undo a more general limit.
    if (*value == Json(-1))
        out.reset();
    else if (value->is_number_integer() && *value >= 0)
        out = value->get<std::uint64_t>();
    else
        return fail("{}: must be a number", where);
    return {};
}

Result<> read_policy(const Json& policy, const std::string& where, Queue& queue)
{
    if (auto rc = read_duration(policy, {"jobspec", "defaults", "system", "duration"},
                                where + ".jobspec.defaults.system.duration",
                                queue.default_duration);
        !rc)
        return rc;
    if (auto rc = read_duration(policy, {"limits", "duration"},
                                where + ".limits.duration", queue.duration_max);
        !rc)
        return rc;
    auto size = where + ".limits.job-size";
    if (auto rc = read_count(policy, {"limits", "job-size", "max", "nnodes"},
                             size + ".max.nnodes", queue.nnodes_max);
        !rc)
        return rc;
    if (auto rc = read_count(policy, {"limits", "job-size", "max", "ncores"},
                             size + ".max.ncores", queue.ncores_max);
        !rc)
        return rc;
    return read_count(policy, {"limits", "job-size", "min", "nnodes"},
                      size + ".min.nnodes", queue.nnodes_min);
}

std::unexpected<Error> refuse(int errnum, std::string message)
{
    return std::unexpected(Error{std::move(message), errnum});
}

} // namespace

Result<Queues> Queues::from_config(const Json& config, Inventory& inventory)
{
    Queues out;
    Queue base;
    if (const auto* policy = value_at(config, {"policy"}); policy) {
        if (auto rc = read_policy(*policy, "policy", base); !rc)
            return std::unexpected(std::move(rc.error()));
        const auto* queue =
            value_at(*policy, {"jobspec", "defaults", "system", "queue"});
        if (queue && queue->is_string())
            out.default_queue_ = queue->get<std::string>();
    }
    const auto* tables = value_at(config, {"queues"});
    if (!tables || tables->empty()) {
        out.queues_[""] = base;
        return out;
    }
    if (!tables->is_object())
        return fail("queues: must be a table");
    for (const auto& [name, table] : tables->items()) {
        auto where = "queues." + name;
        Queue queue = base;
        queue.name = name;
        // Named queues are started by the administrator (flux-queue(1)).
        queue.started = false;
        if (const auto* policy = value_at(table, {"policy"}); policy)
            if (auto rc = read_policy(*policy, where + ".policy", queue); !rc)
                return std::unexpected(std::move(rc.error()));
        if (const auto* required = value_at(table, {"requires"}); required) {
            if (!required->is_array())
                return fail("{}.requires: must be an array", where);
            for (const auto& property : *required) {
                if (!property.is_string())
                    return fail("{}.requires: must be strings", where);
                queue.requires_properties.push_back(property.get<std::string>());
            }
        }
        if (const auto* named = value_at(table, {"hosts"}); named) {
            auto hosts =
                named->is_string()
                    ? flux::parse_hostlist(named->get_ref<const std::string&>())
                    : Result<flux::Hostlist>(fail("must be a string"));
            if (!hosts)
                return fail("{}.hosts: {}", where, hosts.error().message);
            bool all = *named == "all";
            auto property = "+" + name;
            for (auto& node : inventory.nodes)
                if (all
                    || std::find(hosts->begin(), hosts->end(), node.host)
                           != hosts->end())
                    node.properties.insert(property);
            queue.requires_properties.push_back(property);
        }
        out.queues_[name] = std::move(queue);
    }
    if (!out.default_queue_.empty() && !out.queues_.contains(out.default_queue_))
        return fail("policy.jobspec.defaults.system.queue: no queue {}",
                    out.default_queue_);
    return out;
}

Result<Queue*> Queues::find(const std::optional<std::string>& name)
{
    if (!name && named())
        return refuse(EINVAL, "a named queue is required");
    auto found = queues_.find(name.value_or(""));
    if (found == queues_.end() || (name && name->empty()))
        return refuse(EINVAL, fmt::format("'{}' is not a valid queue", *name));
    return &found->second;
}

Result<> Queues::allows(const Queue& queue, double duration) const
{
    if (queue.duration_max <= 0 || (duration > 0 && duration <= queue.duration_max))
        return {};
    return refuse(EINVAL,
                  fmt::format("requested duration ({}) exceeds policy limit of {}{}",
                              duration > 0 ? flux::format_fsd(duration) : "unlimited",
                              flux::format_fsd(queue.duration_max),
                              named() ? " for queue " + queue.name : ""));
}

Result<Queue*> Queues::admit(Jobspec& spec)
{
    auto& system = spec.document["attributes"]["system"];
    if (!spec.queue && !default_queue_.empty()) {
        spec.queue = default_queue_;
        system["queue"] = default_queue_;
    }
    if (named() && spec.queue && !queues_.contains(*spec.queue))
        return refuse(EPERM, fmt::format("Invalid queue '{}' specified", *spec.queue));
    auto found = find(spec.queue);
    if (!found)
        return found;
    auto& queue = **found;
    if (!queue.enabled)
        return refuse(EINVAL, named()
                                  ? fmt::format("job submission to {} is disabled: {}",
                                                queue.name, queue.disable_reason)
                                  : fmt::format("job submission is disabled: {}",
                                                queue.disable_reason));
    if (spec.duration == 0 && queue.default_duration > 0) {
        spec.duration = queue.default_duration;
        system["duration"] = spec.duration;
    }
    if (auto rc = allows(queue, spec.duration); !rc)
        return std::unexpected(std::move(rc.error()));
    const auto& request = spec.request;
    if (queue.nnodes_max && request.nodes > *queue.nnodes_max)
        return refuse(EINVAL, fmt::format("requested nnodes exceeds policy limit of {}",
                                          *queue.nnodes_max));
    if (queue.nnodes_min && request.nodes > 0 && request.nodes < *queue.nnodes_min)
        return refuse(EINVAL,
                      fmt::format("requested nnodes is under policy limit of {}",
                                  *queue.nnodes_min));
    if (queue.ncores_max && request.total_slots() * request.cores > *queue.ncores_max)
        return refuse(EINVAL, fmt::format("requested ncores exceeds policy limit of {}",
                                          *queue.ncores_max));
    if (!queue.requires_properties.empty()) {
        Json required = {{"properties", queue.requires_properties}};
        auto& constraints = system["constraints"];
        constraints = constraints.is_null()
                          ? required
                          : Json{{"and", Json::array({constraints, required})}};
        spec.request.constraint.also(Constraint::properties(queue.requires_properties));
    }
    return found;
}

} // namespace fluxdat::sandbox
