// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/check.h"

#include "lib/flux/fsd.h"
#include "lib/flux/node_constraint.h"
#include "lib/flux/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <utility>

namespace fluxdat::dat {

namespace {

// The order in which they are told, and in which flux-dat(1) has them.
constexpr std::array ids{
    "flux",   "submit", "queue",    "limits",   "nodes",    "configuration",
    "window", "name",   "exec",     "flux-dat", "imp",      "imp-config",
    "prolog", "epilog", "accounts", "munge",    "door-dir", "clock",
};

std::size_t place_of(const std::string& id)
{
    return static_cast<std::size_t>(std::find(ids.begin(), ids.end(), id)
                                    - ids.begin());
}

// Of what is told of one id, first what there is to do.
int urgency_of(Found found)
{
    switch (found) {
    case Found::failed:
        return 0;
    case Found::warning:
        return 1;
    case Found::skipped:
        return 2;
    case Found::ok:
        return 3;
    }
    return 3;
}

const Json* value_at(const Json& config, const std::vector<std::string>& key)
{
    const Json* here = &config;
    for (const auto& part : key) {
        if (!here->is_object())
            return nullptr;
        auto next = here->find(part);
        if (next == here->end())
            return nullptr;
        here = &*next;
    }
    return here;
}

// Where a policy's value is set: the queue's own goes before the general one.
struct PolicyValue {
    const Json* value = nullptr;
    std::string key; // "queues.debug.policy.limits.duration"
};

PolicyValue policy_value(const Json& config, const std::string& queue,
                         const std::string& name)
{
    std::vector<std::string> parts{"policy"};
    for (std::string_view rest = name; !rest.empty();) {
        auto part = rest.substr(0, rest.find('.'));
        parts.emplace_back(part);
        rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    }
    if (!queue.empty()) {
        std::vector<std::string> own{"queues", queue};
        own.insert(own.end(), parts.begin(), parts.end());
        if (const auto* value = value_at(config, own))
            return {value, fmt::format("queues.{}.policy.{}", queue, name)};
    }
    return {value_at(config, parts), "policy." + name};
}

// 0: there is none.
double duration_of(const PolicyValue& found)
{
    if (found.value && found.value->is_string())
        return flux::parse_fsd(found.value->get<std::string>()).value_or(0);
    return found.value && found.value->is_number() ? found.value->get<double>() : 0;
}

std::optional<std::int64_t> count_of(const PolicyValue& found)
{
    if (!found.value || !found.value->is_number_integer())
        return {};
    auto count = found.value->get<std::int64_t>();
    if (count < 0) // -1 undoes a more general limit
        return {};
    return count;
}

std::string list_of_queues(const Json& queues)
{
    std::string list;
    for (const auto& [name, table] : queues.items())
        list += (list.empty() ? "" : ", ") + name;
    return list;
}

std::string counted(std::size_t count)
{
    return fmt::format("{} node{}", count, count == 1 ? "" : "s");
}

} // namespace

std::string_view to_string(Found found)
{
    switch (found) {
    case Found::ok:
        return "ok";
    case Found::warning:
        return "warning";
    case Found::failed:
        return "failed";
    case Found::skipped:
        return "skipped";
    }
    return "";
}

Verdict passed(std::string id, std::string seen)
{
    return {std::move(id), Found::ok, std::move(seen), {}, {}, Exit::ok};
}

Verdict warned(std::string id, std::string seen, std::string remedy)
{
    return {std::move(id), Found::warning, std::move(seen), std::move(remedy), {},
            Exit::ok};
}

Verdict failed(std::string id, std::string seen, std::string remedy, Exit exit)
{
    return {std::move(id), Found::failed, std::move(seen), std::move(remedy), {}, exit};
}

Verdict skipped(std::string id, std::string why, std::string remedy, Exit exit)
{
    return {std::move(id), Found::skipped, std::move(why), std::move(remedy), {}, exit};
}

Verdict failed_with(std::string id, const Error& error, std::string otherwise)
{
    auto at = error.message.rfind("; ");
    if (at == std::string::npos)
        at = error.message.rfind(": choose ");
    if (at == std::string::npos)
        return failed(std::move(id), error.message, std::move(otherwise), error.exit);
    return failed(std::move(id), error.message.substr(0, at),
                  error.message.substr(at + 2), error.exit);
}

Json to_json(const Verdict& verdict)
{
    Json json = {{"id", verdict.id},
                 {"state", to_string(verdict.found)},
                 {"nodes", flux::format_hostlist(verdict.hosts)},
                 {"seen", verdict.seen},
                 {"remedy", nullptr}};
    if (!verdict.remedy.empty())
        json["remedy"] = verdict.remedy;
    return json;
}

Result<Verdict> verdict_from_json(const Json& json)
{
    Verdict verdict;
    verdict.id = flux::text_at(json, "id");
    verdict.seen = flux::text_at(json, "seen");
    verdict.remedy = flux::text_at(json, "remedy");
    auto state = flux::text_at(json, "state");
    for (auto found : {Found::ok, Found::warning, Found::failed, Found::skipped})
        if (!verdict.id.empty() && state == to_string(found)) {
            verdict.found = found;
            verdict.exit = found == Found::failed ? Exit::failed : Exit::ok;
            return verdict;
        }
    return std::unexpected(Error{"an answer without a verdict", EPROTO});
}

std::vector<Verdict> in_order(std::vector<Verdict> verdicts)
{
    std::vector<Verdict> merged;
    std::vector<std::unordered_set<std::string>> hosts; // of each of these
    for (auto& verdict : verdicts) {
        auto alike = std::find_if(merged.begin(), merged.end(), [&](auto& other) {
            return other.id == verdict.id && other.found == verdict.found
                   && other.seen == verdict.seen && other.remedy == verdict.remedy
                   && other.exit == verdict.exit;
        });
        auto at = static_cast<std::size_t>(alike - merged.begin());
        auto its = std::exchange(verdict.hosts, {});
        if (alike == merged.end()) {
            merged.push_back(std::move(verdict));
            hosts.emplace_back();
        }
        for (auto& host : its)
            if (hosts[at].insert(host).second)
                merged[at].hosts.push_back(std::move(host));
    }
    for (auto& verdict : merged)
        if (auto at = verdict.remedy.find(nodes_placeholder); at != std::string::npos)
            verdict.remedy.replace(at, nodes_placeholder.size(),
                                   flux::format_hostlist(verdict.hosts));
    std::stable_sort(merged.begin(), merged.end(), [](auto& a, auto& b) {
        return std::pair(place_of(a.id), urgency_of(a.found))
               < std::pair(place_of(b.id), urgency_of(b.found));
    });
    return merged;
}

Exit exit_of(const std::vector<Verdict>& verdicts)
{
    auto worst = Exit::ok;
    // It comes first in a start, and what others say then follows from it.
    for (auto& verdict : verdicts)
        if (verdict.id == "configuration" && verdict.found == Found::failed)
            return verdict.exit;
    for (auto& verdict : verdicts) {
        // One that must be mended, where there is one, and not the right to look.
        bool first = worst == Exit::ok && verdict.exit != Exit::ok;
        bool graver = worst == Exit::not_permitted && verdict.found == Found::failed;
        if (first || graver)
            worst = verdict.exit;
        if (verdict.exit == Exit::failed)
            return Exit::failed;
    }
    return worst;
}

Verdict check_version(const std::string& version, const std::string& uri)
{
    auto numbers = [](std::string_view text) -> std::optional<std::pair<int, int>> {
        std::pair<int, int> out;
        auto end = text.data() + text.size();
        auto [dot, major] = std::from_chars(text.data(), end, out.first);
        if (major != std::errc{} || dot == end || *dot != '.')
            return {};
        auto [rest, minor] = std::from_chars(dot + 1, end, out.second);
        if (minor != std::errc{})
            return {};
        return out;
    };
    auto seen = fmt::format("Flux {} at {}", version, uri);
    auto there = numbers(version);
    auto tested = numbers(flux_version_tested);
    if (there == tested)
        return passed("flux", seen);
    auto told =
        fmt::format("{}; flux-dat is tested with {}", seen, flux_version_tested);
    if (!there || *there < *tested)
        return warned("flux", told,
                      fmt::format("upgrade Flux to {}, or try a DAT on one node first",
                                  flux_version_tested));
    return passed("flux", told);
}

Result<std::string> queue_of(const Asked& asked, const Json& config)
{
    const auto* queues = value_at(config, {"queues"});
    bool named = queues && queues->is_object() && !queues->empty();
    const auto* given =
        value_at(config, {"policy", "jobspec", "defaults", "system", "queue"});
    auto queue = asked.queue.value_or(
        named && given && given->is_string() ? given->get<std::string>() : "");
    if (!named && asked.queue)
        return fail(
            Exit::usage,
            "there is no queue {}, and no named queue at all; leave --queue out",
            flux::in_quotes(queue));
    if (named && queue.empty())
        return fail(Exit::usage,
                    "no queue was given and there is no default; choose one of {} with "
                    "--queue",
                    list_of_queues(*queues));
    if (named && !queues->contains(queue))
        return fail(Exit::usage, "there is no queue {}; choose one of {} with --queue",
                    flux::in_quotes(queue), list_of_queues(*queues));
    return queue;
}

Verdict check_queue(const QueueStatus& queue)
{
    auto name = queue.name.empty() ? std::string("the queue") : "queue " + queue.name;
    auto which = queue.name.empty() ? std::string() : " " + queue.name;
    auto reason = [&](const std::string& text) {
        return text.empty() ? text : ": " + text;
    };
    if (!queue.enabled)
        return failed(
            "queue",
            fmt::format("{} takes no jobs{}", name, reason(queue.disable_reason)),
            "flux queue enable" + which);
    if (!queue.started)
        return failed("queue",
                      fmt::format("{} is stopped, so that its jobs wait{}", name,
                                  reason(queue.stop_reason)),
                      "flux queue start" + which);
    return passed("queue", name + " takes jobs and runs them");
}

double default_time_limit(const std::optional<std::string>& queue, const Json& config)
{
    Asked asked;
    asked.queue = queue;
    return duration_of(policy_value(config, queue_of(asked, config).value_or(""),
                                    "jobspec.defaults.system.duration"));
}

Verdict check_limits(const Asked& asked, const std::string& queue, const Json& config)
{
    auto longest = policy_value(config, queue, "limits.duration");
    auto most = policy_value(config, queue, "limits.job-size.max.nnodes");
    auto least = policy_value(config, queue, "limits.job-size.min.nnodes");
    auto time_limit = asked.time_limit;
    if (time_limit == 0)
        time_limit = duration_of(
            policy_value(config, queue, "jobspec.defaults.system.duration"));
    if (auto limit = duration_of(longest); limit > 0 && std::isfinite(limit)) {
        auto text = flux::format_fsd(limit);
        if (time_limit == 0)
            return failed("limits",
                          fmt::format("no time limit is given, and {} allows {}",
                                      longest.key, text),
                          fmt::format("give --time-limit={} or less", text));
        if (time_limit > limit)
            return failed("limits",
                          fmt::format("{} is longer than {} allows, {}",
                                      flux::format_fsd(time_limit), longest.key, text),
                          fmt::format("give --time-limit={} or less, or have {} raised",
                                      text, longest.key));
    }
    if (auto limit = count_of(most); limit && asked.nodes > *limit)
        return failed("limits",
                      fmt::format("{} asked for, and {} allows {}",
                                  counted(asked.nodes), most.key, *limit),
                      fmt::format("give --nodes={} or less, or have {} raised", *limit,
                                  most.key));
    if (auto limit = count_of(least); limit && asked.nodes < *limit)
        return failed("limits",
                      fmt::format("{} asked for, and {} wants {}", counted(asked.nodes),
                                  least.key, *limit),
                      fmt::format("give --nodes={} or more", *limit));
    return passed("limits",
                  fmt::format("{}, {}", counted(asked.nodes),
                              time_limit > 0 ? "for " + flux::format_fsd(time_limit)
                                             : std::string("for as long as it takes")));
}

flux::Hostlist Nodes::hosts_of(const flux::Idset& ranks) const
{
    flux::Hostlist out;
    for (auto rank : ranks)
        out.push_back(rank < hosts.size() && !hosts[rank].empty()
                          ? hosts[rank]
                          : fmt::format("rank{}", rank));
    return out;
}

namespace {

// The ranks of an R (RFC 20).
Result<flux::Idset> ranks_of(const Json& R)
{
    flux::Idset out;
    const auto* lite = value_at(R, {"execution", "R_lite"});
    if (!lite || !lite->is_array())
        return std::unexpected(Error{"no R in the answer", EPROTO});
    for (const auto& entry : *lite) {
        auto ranks = flux::parse_idset(flux::text_at(entry, "rank"));
        if (!ranks)
            return std::unexpected(ranks.error());
        out.insert(*ranks);
    }
    return out;
}

} // namespace

Result<Nodes> nodes_from(const Json& sched_status)
{
    Nodes nodes;
    for (auto [key, ranks] : {std::pair("all", &nodes.all),
                              {"down", &nodes.down},
                              {"allocated", &nodes.allocated}}) {
        const auto* R = value_at(sched_status, {key});
        auto parsed = ranks_of(R ? *R : Json());
        if (!parsed)
            return fail("resource.sched-status: {}: {}", key, parsed.error().message);
        *ranks = std::move(*parsed);
    }
    auto size = nodes.all.last() ? *nodes.all.last() + std::size_t{1} : 0;
    nodes.hosts.resize(size);
    nodes.properties.resize(size);
    flux::Hostlist named;
    const auto* execution = value_at(sched_status, {"all", "execution"});
    if (const auto* lists = value_at(*execution, {"nodelist"}); lists)
        for (const auto& list : *lists)
            if (auto hosts = flux::parse_hostlist(
                    list.is_string() ? list.get<std::string>() : std::string()))
                named.insert(named.end(), hosts->begin(), hosts->end());
    std::size_t at = 0; // the hosts of a nodelist are in the order of its ranks
    for (auto rank : nodes.all)
        if (at < named.size())
            nodes.hosts[rank] = named[at++];
    const auto* properties = value_at(*execution, {"properties"});
    if (properties && properties->is_object())
        for (const auto& [name, ranks] : properties->items())
            if (auto parsed = flux::parse_idset(
                    ranks.is_string() ? ranks.get<std::string>() : std::string()))
                for (auto rank : *parsed)
                    if (rank < size)
                        nodes.properties[rank].insert(name);
    return nodes;
}

Result<flux::Idset> eligible(const Nodes& nodes, const Asked& asked,
                             const std::string& queue, const Json& config)
{
    auto constraint = flux::Constraint::parse(
        asked.constraint.is_null() ? Json::object() : asked.constraint);
    if (!constraint)
        return fail(Exit::usage, "--requires: {}", constraint.error().message);
    std::vector<std::string> required;
    auto add = [&](const std::string& name) {
        const auto* listed = value_at(config, {"queues", name, "requires"});
        if (listed && listed->is_array())
            for (const auto& property : *listed)
                if (property.is_string())
                    required.push_back(property.get<std::string>());
        if (value_at(config, {"queues", name, "hosts"}))
            required.push_back("+" + name);
    };
    add(queue);
    // A virtual queue has the nodes of the one behind it (RFC 33).
    if (const auto* parent = value_at(config, {"queues", queue, "parent"});
        parent && parent->is_string())
        add(parent->get<std::string>());
    constraint->also(flux::Constraint::properties(std::move(required)));
    flux::Idset out;
    for (auto rank : nodes.all)
        if (constraint->matches({rank, nodes.hosts[rank], nodes.properties[rank]}))
            out.insert(rank);
    return out;
}

std::vector<Verdict> check_nodes(const Nodes& nodes, const flux::Idset& eligible,
                                 const Asked& asked)
{
    std::vector<Verdict> out;
    auto up = eligible;
    up.remove(nodes.down);
    flux::Idset down = eligible;
    down.remove(up);
    auto free = up;
    free.remove(nodes.allocated);
    auto wanted = fmt::format("{} asked for", counted(asked.nodes));
    if (eligible.size() < asked.nodes)
        out.push_back(failed(
            "nodes",
            fmt::format("{}, and {} in all that constraint and queue allow", wanted,
                        eligible.size()),
            fmt::format("give --nodes={} or less, or another --requires or --queue",
                        eligible.size())));
    else if (up.size() < asked.nodes)
        out.push_back(failed("nodes",
                             fmt::format("{}, and {} of {} up: a start would wait",
                                         wanted, up.size(), eligible.size()),
                             "bring those up that are down"));
    else if (free.size() < asked.nodes)
        out.push_back(
            warned("nodes", fmt::format("{}, and {} of {} free now: a start would wait",
                                        wanted, free.size(), eligible.size())));
    else
        out.push_back(passed("nodes", fmt::format("{}, and {} of {} up", wanted,
                                                  up.size(), eligible.size())));
    if (!down.empty()) {
        auto verdict = warned("nodes", "down or drained",
                              "flux resource drain and flux resource status tell why; "
                              "flux resource undrain, or start its broker");
        verdict.hosts = nodes.hosts_of(down);
        out.push_back(std::move(verdict));
    }
    return out;
}

Verdict check_clock(double ahead, double uncertainty)
{
    auto off = std::max(0.0, std::abs(ahead) - uncertainty);
    if (off < clock_off_warned)
        return passed("clock", "as here");
    // Whole units: two nodes that are off alike are told in one line.
    auto seen = fmt::format("{} {} this node's clock",
                            off < 60     ? fmt::format("{:.0f} s", off)
                            : off < 7200 ? fmt::format("{:.0f} min", off / 60)
                                         : fmt::format("{:.0f} h", off / 3600),
                            ahead < 0 ? "behind" : "ahead of");
    auto remedy = "set the clocks by NTP: chronyc makestep, timedatectl set-ntp true";
    if (off < clock_off_failed)
        return warned("clock", seen, remedy);
    return failed("clock", seen + ", so that MUNGE refuses guests' jobs", remedy);
}

Verdict check_program(const std::string& there, const std::string& here,
                      const std::string& path)
{
    if (there == here)
        return passed("flux-dat", fmt::format("{} at {}", here, path));
    return failed("flux-dat",
                  fmt::format("{} is version {}, and {} here", path,
                              there.empty() ? "unknown" : there, here),
                  fmt::format("install flux-dat {} there, or keep them out: --requires "
                              "'-host:{}'",
                              here, nodes_placeholder));
}

} // namespace fluxdat::dat
