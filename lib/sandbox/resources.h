// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Nodes, cores, and who has them: resource sets (R, RFC 20) and their allocation, as
// Flux's simple scheduler does it. Pure: nothing here waits or sends.
#pragma once

#include "lib/flux/hostlist.h"
#include "lib/flux/idset.h"
#include "lib/flux/node_constraint.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fluxdat::sandbox {

using flux::Constraint;
using flux::Idset;
using flux::Json;

// More cores than this on a node are a mistake in a configuration.
constexpr std::uint32_t node_cores_max = 65536;

struct Node {
    std::string host;
    Idset cores; // logical ids
    std::set<std::string> properties;
};

// The resources of an instance: one node a rank.
struct Inventory {
    std::vector<Node> nodes; // by rank
    double starttime = 0;    // seconds since the epoch; 0: unset
    double expiration = 0;

    flux::Hostlist hosts() const;
};

// From the [[resource.config]] of a configuration (flux-config-resource(5)), for these
// hosts in their order; hosts it does not mention have no cores.
Result<Inventory> inventory_from_config(const Json& tables,
                                        const flux::Hostlist& hosts);
// Every host with the same cores, 0 to cores - 1.
Inventory uniform_inventory(const flux::Hostlist& hosts, std::uint32_t cores);
// From R, with the ranks renumbered from 0 in their order, as an instance does with the
// resources that its enclosing instance gave it.
Result<Inventory> inventory_from_R(const Json& R);

// What a job asks for.
struct ResourceRequest {
    std::uint32_t nodes = 0; // 0: wherever there is room for the slots
    std::uint32_t slots = 1; // a node if there are nodes, else in all
    std::uint32_t cores = 1; // a slot
    std::uint32_t gpus = 0;  // a slot
    bool exclusive = false;  // whole nodes
    Constraint constraint;

    std::uint64_t total_slots() const
    {
        return static_cast<std::uint64_t>(slots) * (nodes ? nodes : 1);
    }
};

struct Share {
    Idset cores;
    std::uint32_t slots = 0;
    bool operator==(const Share&) const = default;
};
// What a job got: its share of each rank.
using Allocation = std::map<std::uint32_t, Share>;

Idset ranks_of(const Allocation& allocation);
// "rank[0-1]/core[0-3]": the resource_summary annotation of RFC 27.
std::string summarize(const Allocation& allocation);

class Pool
{
public:
    explicit Pool(Inventory inventory);

    // Whether it could ever be had. The error is Flux's note for the job's exception.
    Result<> feasible(const ResourceRequest& request) const;
    std::optional<Allocation> allocate(const ResourceRequest& request);
    // Takes back the share of these ranks.
    void free(const Allocation& allocation, const Idset& ranks);
    void set_up(std::uint32_t rank, bool up);

    const Inventory& inventory() const { return inventory_; }
    void set_expiration(double time) { inventory_.expiration = time; }

    // R of everything, of the ranks that are down, of what is allocated.
    Json all_R() const;
    Json down_R() const;
    Json allocated_R() const;
    // R of one job. Times in seconds since the epoch, 0 for none.
    Json job_R(const Allocation& allocation, double starttime, double expiration) const;

private:
    std::vector<std::uint32_t> eligible(const Constraint& constraint) const;
    Json make_R(const std::map<std::uint32_t, Idset>& cores) const;

    Inventory inventory_;
    std::vector<Idset> free_; // by rank
    std::vector<bool> up_;
};

} // namespace fluxdat::sandbox
