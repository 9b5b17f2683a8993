// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/resources.h"

#include <algorithm>

namespace fluxdat::sandbox {

namespace {

Idset first_ids(const Idset& ids, std::uint64_t count)
{
    Idset out;
    for (auto id : ids) {
        if (count-- == 0)
            break;
        out.insert(id);
    }
    return out;
}

Result<Idset> cores_of(const Json& value, const std::string& where)
{
    if (!value.is_string())
        return fail("{}: must be a string", where);
    auto cores = flux::parse_idset(value.get_ref<const std::string&>());
    if (!cores)
        return fail("{}: {}", where, cores.error().message);
    if (cores->size() > node_cores_max)
        return fail("{}: more than {} cores", where, node_cores_max);
    return *cores;
}

double number_or_zero(const Json& object, const char* key)
{
    auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

} // namespace

flux::Hostlist Inventory::hosts() const
{
    flux::Hostlist out;
    for (const auto& node : nodes)
        out.push_back(node.host);
    return out;
}

Inventory uniform_inventory(const flux::Hostlist& hosts, std::uint32_t cores)
{
    Inventory out;
    for (const auto& host : hosts)
        out.nodes.push_back({host, cores ? Idset(0, cores - 1) : Idset(), {}});
    return out;
}

Result<Inventory> inventory_from_config(const Json& tables, const flux::Hostlist& hosts)
{
    if (!tables.is_array())
        return fail("resource.config: must be an array of tables");
    Inventory out = uniform_inventory(hosts, 0);
    for (std::size_t i = 0; i < tables.size(); i++) {
        auto where = fmt::format("resource.config[{}]", i);
        const auto& table = tables[i];
        if (!table.is_object() || !table.contains("hosts")
            || !table["hosts"].is_string())
            return fail("{}.hosts: must be there, and a string", where);
        auto named = flux::parse_hostlist(table["hosts"].get_ref<const std::string&>());
        if (!named)
            return fail("{}.hosts: {}", where, named.error().message);
        std::set<std::string> members(named->begin(), named->end());
        for (auto& node : out.nodes) {
            if (!members.contains(node.host))
                continue;
            if (auto cores = table.find("cores"); cores != table.end()) {
                auto ids = cores_of(*cores, where + ".cores");
                if (!ids)
                    return std::unexpected(std::move(ids.error()));
                node.cores.insert(*ids);
            }
            if (auto names = table.find("properties"); names != table.end()) {
                if (!names->is_array())
                    return fail("{}.properties: must be an array", where);
                for (const auto& name : *names) {
                    if (!name.is_string())
                        return fail("{}.properties: must be strings", where);
                    node.properties.insert(name.get<std::string>());
                }
            }
        }
    }
    return out;
}

Result<Inventory> inventory_from_R(const Json& R)
{
    auto execution = R.find("execution");
    if (execution == R.end() || !execution->is_object()
        || !execution->contains("R_lite") || !(*execution)["R_lite"].is_array())
        return fail("R: no execution.R_lite");
    std::map<std::uint32_t, Node> by_rank;
    for (const auto& entry : (*execution)["R_lite"]) {
        if (!entry.is_object() || !entry.contains("rank") || !entry["rank"].is_string()
            || !entry.contains("children") || !entry["children"].is_object()
            || !entry["children"].contains("core"))
            return fail("R: an entry of R_lite without rank or cores");
        auto ranks = flux::parse_idset(entry["rank"].get_ref<const std::string&>());
        if (!ranks)
            return fail("R: rank: {}", ranks.error().message);
        auto cores = cores_of(entry["children"]["core"], "R: core");
        if (!cores)
            return std::unexpected(std::move(cores.error()));
        for (auto rank : *ranks)
            by_rank[rank].cores.insert(*cores);
    }
    flux::Hostlist hosts;
    if (auto nodelist = execution->find("nodelist");
        nodelist != execution->end() && nodelist->is_array())
        for (const auto& item : *nodelist) {
            if (!item.is_string())
                return fail("R: nodelist must be strings");
            auto some = flux::parse_hostlist(item.get_ref<const std::string&>());
            if (!some)
                return fail("R: nodelist: {}", some.error().message);
            hosts.insert(hosts.end(), some->begin(), some->end());
        }
    if (hosts.size() != by_rank.size())
        return fail("R: {} ranks but {} hosts", by_rank.size(), hosts.size());
    if (auto properties = execution->find("properties");
        properties != execution->end() && properties->is_object())
        for (const auto& [name, value] : properties->items()) {
            auto ranks = value.is_string()
                             ? flux::parse_idset(value.get_ref<const std::string&>())
                             : Result<Idset>(fail("must be a string"));
            if (!ranks)
                return fail("R: property {}: {}", name, ranks.error().message);
            for (auto& [rank, node] : by_rank)
                if (ranks->contains(rank))
                    node.properties.insert(name);
        }
    Inventory out;
    std::size_t i = 0;
    for (auto& [rank, node] : by_rank) {
        node.host = hosts[i++];
        out.nodes.push_back(std::move(node));
    }
    out.starttime = number_or_zero(*execution, "starttime");
    out.expiration = number_or_zero(*execution, "expiration");
    return out;
}

Idset ranks_of(const Allocation& allocation)
{
    Idset out;
    for (const auto& [rank, share] : allocation)
        out.insert(rank);
    return out;
}

namespace {

// Ranks that have the same cores together, in the order of their first rank: R_lite.
std::vector<std::pair<Idset, Idset>>
group_by_cores(const std::map<std::uint32_t, Idset>& cores)
{
    std::vector<std::pair<Idset, Idset>> groups;
    for (const auto& [rank, ids] : cores) {
        auto same = std::find_if(groups.begin(), groups.end(),
                                 [&](auto& group) { return group.second == ids; });
        if (same == groups.end())
            groups.emplace_back(Idset(rank), ids);
        else
            same->first.insert(rank);
    }
    return groups;
}

std::map<std::uint32_t, Idset> cores_by_rank(const Allocation& allocation)
{
    std::map<std::uint32_t, Idset> out;
    for (const auto& [rank, share] : allocation)
        out[rank] = share.cores;
    return out;
}

} // namespace

std::string summarize(const Allocation& allocation)
{
    std::string out;
    for (const auto& [ranks, cores] : group_by_cores(cores_by_rank(allocation)))
        out += fmt::format("{}rank{}/core{}", out.empty() ? "" : " ",
                           flux::format_idset_bracketed(ranks),
                           flux::format_idset_bracketed(cores));
    return out;
}

Pool::Pool(Inventory inventory)
    : inventory_(std::move(inventory)), up_(inventory_.nodes.size(), true)
{
    for (const auto& node : inventory_.nodes)
        free_.push_back(node.cores);
}

std::vector<std::uint32_t> Pool::eligible(const Constraint& constraint) const
{
    std::vector<std::uint32_t> out;
    for (std::uint32_t rank = 0; rank < inventory_.nodes.size(); rank++) {
        const auto& node = inventory_.nodes[rank];
        if (constraint.matches({rank, node.host, node.properties}))
            out.push_back(rank);
    }
    return out;
}

Result<> Pool::feasible(const ResourceRequest& request) const
{
    auto ranks = eligible(request.constraint);
    if (request.nodes > 0) {
        auto needed = static_cast<std::uint64_t>(request.slots) * request.cores;
        auto gpus = static_cast<std::uint64_t>(request.slots) * request.gpus;
        auto fit = static_cast<std::size_t>(
            std::count_if(ranks.begin(), ranks.end(), [&](std::uint32_t rank) {
                return gpus == 0 && inventory_.nodes[rank].cores.size() >= needed;
            }));
        if (fit >= request.nodes)
            return {};
        if (gpus > 0)
            return fail("unsatisfiable request: need {} node(s) with {} cores and {} "
                        "GPUs each, only {} eligible",
                        request.nodes, needed, gpus, fit);
        if (request.exclusive)
            return fail("unsatisfiable request: need {} exclusive node(s), only {} "
                        "eligible",
                        request.nodes, fit);
        return fail("unsatisfiable request: need {} node(s) with {} cores each, only "
                    "{} eligible",
                    request.nodes, needed, fit);
    }
    if (request.gpus > 0)
        return fail(
            "unsatisfiable request: need {} slot(s) with {} GPU(s) each, only 0 "
            "available (total GPUs: 0)",
            request.slots, request.gpus);
    std::uint64_t slots = 0, cores = 0;
    for (auto rank : ranks) {
        cores += inventory_.nodes[rank].cores.size();
        slots += inventory_.nodes[rank].cores.size() / request.cores;
    }
    if (slots >= request.slots)
        return {};
    return fail("unsatisfiable request: need {} slot(s) of {} core(s), only {} such "
                "slot(s) available (total cores: {})",
                request.slots, request.cores, slots, cores);
}

std::optional<Allocation> Pool::allocate(const ResourceRequest& request)
{
    if (request.gpus > 0)
        return std::nullopt;
    // The emptiest nodes first ("worst fit"), as Flux's simple scheduler does.
    auto ranks = eligible(request.constraint);
    std::erase_if(ranks, [&](std::uint32_t rank) { return !up_[rank]; });
    std::stable_sort(ranks.begin(), ranks.end(), [&](std::uint32_t a, std::uint32_t b) {
        return free_[a].size() > free_[b].size();
    });

    Allocation out;
    if (request.nodes > 0) {
        auto needed = static_cast<std::uint64_t>(request.slots) * request.cores;
        for (auto rank : ranks) {
            if (out.size() == request.nodes)
                break;
            const auto& all = inventory_.nodes[rank].cores;
            if (free_[rank].size() < needed
                || (request.exclusive && free_[rank] != all))
                continue;
            out[rank] = {request.exclusive ? all : first_ids(free_[rank], needed),
                         request.slots};
        }
        if (out.size() < request.nodes)
            return std::nullopt;
    } else {
        std::uint64_t left = request.slots;
        for (auto rank : ranks) {
            auto slots =
                std::min<std::uint64_t>(left, free_[rank].size() / request.cores);
            if (slots == 0)
                continue;
            out[rank] = {first_ids(free_[rank], slots * request.cores),
                         static_cast<std::uint32_t>(slots)};
            left -= slots;
        }
        if (left > 0)
            return std::nullopt;
    }
    for (const auto& [rank, share] : out)
        free_[rank].remove(share.cores);
    return out;
}

void Pool::free(const Allocation& allocation, const Idset& ranks)
{
    for (const auto& [rank, share] : allocation)
        if (ranks.contains(rank))
            free_[rank].insert(share.cores);
}

void Pool::set_up(std::uint32_t rank, bool up)
{
    up_[rank] = up;
}

Json Pool::make_R(const std::map<std::uint32_t, Idset>& cores) const
{
    Json lite = Json::array();
    for (const auto& [ranks, ids] : group_by_cores(cores))
        lite.push_back({{"rank", flux::format_idset(ranks)},
                        {"children", {{"core", flux::format_idset(ids)}}}});
    flux::Hostlist hosts;
    std::map<std::string, Idset> properties;
    for (const auto& [rank, ids] : cores) {
        hosts.push_back(inventory_.nodes[rank].host);
        for (const auto& name : inventory_.nodes[rank].properties)
            properties[name].insert(rank);
    }
    Json execution = {{"R_lite", std::move(lite)},
                      {"starttime", 0.0},
                      {"expiration", 0.0},
                      {"nodelist", Json::array({flux::format_hostlist(hosts)})}};
    for (const auto& [name, ranks] : properties)
        execution["properties"][name] = flux::format_idset(ranks);
    return {{"version", 1}, {"execution", std::move(execution)}};
}

Json Pool::all_R() const
{
    std::map<std::uint32_t, Idset> cores;
    for (std::uint32_t rank = 0; rank < inventory_.nodes.size(); rank++)
        cores[rank] = inventory_.nodes[rank].cores;
    auto R = make_R(cores);
    R["execution"]["starttime"] = inventory_.starttime;
    R["execution"]["expiration"] = inventory_.expiration;
    return R;
}

Json Pool::down_R() const
{
    std::map<std::uint32_t, Idset> cores;
    for (std::uint32_t rank = 0; rank < up_.size(); rank++)
        if (!up_[rank])
            cores[rank] = inventory_.nodes[rank].cores;
    return make_R(cores);
}

Json Pool::allocated_R() const
{
    std::map<std::uint32_t, Idset> cores;
    for (std::uint32_t rank = 0; rank < free_.size(); rank++) {
        Idset used = inventory_.nodes[rank].cores;
        used.remove(free_[rank]);
        if (!used.empty())
            cores[rank] = std::move(used);
    }
    return make_R(cores);
}

Json Pool::job_R(const Allocation& allocation, double starttime,
                 double expiration) const
{
    auto R = make_R(cores_by_rank(allocation));
    auto& execution = R["execution"];
    std::uint64_t slots = 0;
    for (const auto& [rank, share] : allocation)
        slots += share.slots;
    execution["starttime"] = starttime;
    execution["expiration"] = expiration;
    execution["nslots"] = slots;
    // What describes the instance, not the hardware, stays here (RFC 20).
    if (auto properties = execution.find("properties"); properties != execution.end()) {
        for (auto it = properties->begin(); it != properties->end();)
            it = it.key().starts_with('+') ? properties->erase(it) : std::next(it);
        if (properties->empty())
            execution.erase("properties");
    }
    return R;
}

} // namespace fluxdat::sandbox
