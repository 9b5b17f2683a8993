// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What `flux-dat check` says: verdicts, each about one thing that makes a DAT fail,
// with what was seen and how to mend it. This file has those that follow from what the
// parent instance answers, and what is done with all of them; nothing here waits or
// sends. check_node.h has what only a node itself can tell, preflight.h asks for both.
//
// The ids are for scripts: flux-dat(1) lists them, and they keep their meaning.
#pragma once

#include "lib/dat/queues.h"
#include "lib/flux/hostlist.h"
#include "lib/flux/idset.h"
#include "lib/flux/json.h"
#include "lib/result.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::dat {

using flux::Json;

enum class Found {
    ok,
    warning, // a start would work, perhaps not as wished
    failed,  // a start would fail, or guests' jobs in the DAT
    skipped, // it could not be looked at, or does not apply here
};
std::string_view to_string(Found found);

struct Verdict {
    std::string id;
    Found found = Found::ok;
    std::string seen;     // a line for people; for `skipped` why
    std::string remedy;   // a command, or a file and what to change there; or empty
    flux::Hostlist hosts; // the nodes it holds for; empty: it is not about nodes
    Exit exit = Exit::ok; // what the command exits with for it alone

    bool operator==(const Verdict&) const = default;
};
Verdict passed(std::string id, std::string seen);
Verdict warned(std::string id, std::string seen, std::string remedy = {});
Verdict failed(std::string id, std::string seen, std::string remedy,
               Exit exit = Exit::failed);
Verdict skipped(std::string id, std::string why, std::string remedy = {},
                Exit exit = Exit::ok);
// A failure with what an Error says. Where its message ends in advice, "WHAT: WHY;
// ADVICE" or "WHAT: choose ADVICE", that is the remedy, else `otherwise` is.
Verdict failed_with(std::string id, const Error& error, std::string otherwise = {});

Json to_json(const Verdict& verdict);
Result<Verdict> verdict_from_json(const Json& json); // without hosts

// What stands in a remedy for the nodes that it is for, until they are known.
constexpr std::string_view nodes_placeholder = "@NODES@";

// In the order in which they are told: by id as flux-dat(1) lists them, of one id what
// failed first. Those that are equal but for their nodes become one, with all of the
// nodes in the order they came; and their remedies name these.
std::vector<Verdict> in_order(std::vector<Verdict> verdicts);

// 0 only if nothing failed and nothing was kept from sight that could have.
Exit exit_of(const std::vector<Verdict>& verdicts);

// The version of Flux that flux-dat is tested with.
constexpr std::string_view flux_version_tested = "0.88";
// "flux": the answer to attr.get of "version", "0.88.0" or "0.88.0-12-g1234567".
Verdict check_version(const std::string& version, const std::string& uri);

// What a start asks of its parent.
struct Asked {
    std::uint32_t nodes = 1;
    double time_limit = 0; // seconds; 0: as the parent has it
    std::optional<std::string> queue;
    Json constraint; // RFC 31; null: none
};

// The queue that a job goes to by the parent's configuration (RFC 33): the one that was
// asked for, else the default; empty where the only queue is the anonymous one. An
// error where it is refused, as Flux would.
Result<std::string> queue_of(const Asked& asked, const Json& config);

// The time limit, in seconds, that the parent gives a job of this queue (none: the
// default one) that asks for none; 0: it has none then.
double default_time_limit(const std::optional<std::string>& queue, const Json& config);

// "queue": `status` is what job-manager.queue-status answered.
Verdict check_queue(const QueueStatus& queue);

// "limits": of policy and of the queue (RFC 33).
Verdict check_limits(const Asked& asked, const std::string& queue, const Json& config);

// The nodes of an instance, as resource.sched-status answers.
struct Nodes {
    flux::Idset all, down, allocated;              // ranks
    flux::Hostlist hosts;                          // by rank; "" where there is none
    std::vector<std::set<std::string>> properties; // by rank

    flux::Hostlist hosts_of(const flux::Idset& ranks) const;
};
Result<Nodes> nodes_from(const Json& sched_status);

// The ranks a DAT may get: those that the constraint and the queue's properties allow.
// A usage error where the constraint is none.
Result<flux::Idset> eligible(const Nodes& nodes, const Asked& asked,
                             const std::string& queue, const Json& config);

// "nodes": are there enough, are enough up, which are not; are enough free.
std::vector<Verdict> check_nodes(const Nodes& nodes, const flux::Idset& eligible,
                                 const Asked& asked);

// "clock": how far a node's clock is from ours, and how sure that is; seconds.
constexpr double clock_off_warned = 2;   // times in eventlogs and here seem wrong
constexpr double clock_off_failed = 240; // near what MUNGE takes, 300 s by default
Verdict check_clock(double ahead, double uncertainty);

// "munge": what is said of one that works, and how one is mended that does not.
constexpr const char* munge_works = "encodes, and decodes what was encoded elsewhere";
constexpr const char* munge_remedy =
    "the same /etc/munge/munge.key on all nodes (then systemctl restart munge), and "
    "clocks that agree";

// "flux-dat": the version that a node has.
Verdict check_program(const std::string& there, const std::string& here,
                      const std::string& path);

} // namespace fluxdat::dat
