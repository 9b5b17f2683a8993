// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The ranks of a running DAT and their doors, seen from the supervisor.
#pragma once

#include "lib/flux/hostlist.h"
#include "lib/flux/idset.h"
#include "lib/flux/services.h"
#include "lib/perms/guestlist.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::dat {

struct Rank {
    std::uint32_t rank = 0;
    std::string host;
    std::string door; // path; empty where the broker does not answer
    bool up = false;
    std::vector<std::string> wrong; // one line for people each; empty: all is right
};
nlohmann::json to_json(const Rank& rank);
Rank rank_from_json(const nlohmann::json& json);

// One answer of the streaming request resource.journal: {"events":[...]}. Calls `each`
// with those events that have a name and a context, in their order; what is not of this
// form is passed over. All that was before the request comes first, and ends with an
// answer without events: for that one it gives true.
bool for_each_resource_event(
    const nlohmann::json& answer,
    const std::function<void(const std::string& name, const nlohmann::json& event)>&
        each);

// Which ranks are up, as an instance's resource eventlog tells (`flux resource
// eventlog` shows it): events "restart", "online" and "offline". What it does not say,
// or says in another way than expected, changes nothing.
class RanksUp
{
public:
    // One answer of resource.journal, as above.
    void apply(const nlohmann::json& answer);

    // Whether what was before has been told; else size() is of some time in the past.
    bool is_current() const { return current_; }
    std::uint32_t count() const { return static_cast<std::uint32_t>(up_.size()); }
    const flux::Idset& ranks() const { return up_; }

private:
    flux::Idset up_;
    bool current_ = false;
};

// The names of the nodes of ranks 0 to size - 1, from the node list of the DAT's job,
// which has them in that order; empty where it has none. (What the brokers call
// themselves, attribute hostlist, may be less than what the parent calls its nodes.)
flux::Hostlist hosts_by_rank(const std::string& nodelist, std::uint32_t size);

// Through what guests reach a rank's broker.
enum class Entrance {
    door,    // made by its launcher (lib/perms/door.h)
    passage, // the way to its socket, opened by adopt.h (lib/perms/passage.h)
};

// The path of it, as the broker's attribute local-uri has it: of the door, or for a
// passage of the socket. Errors: the broker does not answer; its socket is behind no
// door (ENOTSOCK).
flux::Task<Result<std::string>> find_entrance(flux::Connection& dat, std::uint32_t rank,
                                              Entrance entrance,
                                              flux::Interrupt* interrupt = nullptr);

// What came of doing something at an entrance (at_entrance(), below).
struct AtEntrance {
    bool good = false;
    std::vector<std::string> lines; // as it prints them

    // Where it is not good: its first line. (Another version may give none.)
    std::string why() const
    {
        return lines.empty() ? "it said nothing" : lines.front();
    }
};
// Does it on that rank, LIST being the guest list as JSON: by the service of the rank's
// door (door_service.h), or where there is none by `flux-dat door WHAT PATH LIST` (or
// `flux-dat passage`), over the DAT's own rexec (RFC 42). Where that could not run the
// lines say why.
flux::Task<AtEntrance> run_at_entrance(flux::Connection& dat, std::uint32_t rank,
                                       Entrance entrance, std::string what,
                                       std::string path, std::string guests,
                                       flux::Interrupt* interrupt = nullptr);

// Asks every broker for its socket, and has each node's door checked there. `hosts` are
// the names of the ranks' nodes, in their order. Of a rank that has not answered when
// the interrupt is raised, that is what is wrong.
flux::Task<std::vector<Rank>> check_ranks(flux::Connection& dat, flux::Hostlist hosts,
                                          Entrance entrance, perms::GuestList guests,
                                          flux::Interrupt* interrupt = nullptr);

// `flux-dat door WHAT PATH LIST` and `flux-dat passage WHAT SOCKET LIST`. WHAT is
//
//     check    prints what is wrong, a line each; exit status 0 when nothing is
//     apply    puts that list in force, and prints why it could not, with exit status
//     1;
//              or, with 0, who on the list has no account on this node
//     restore  passage only: everything as it was before it was opened
//
// Nothing for any other WHAT. The first gives what it would print, the second prints it
// and gives the exit status.
std::optional<AtEntrance> act_at_entrance(Entrance entrance, const std::string& what,
                                          const std::string& path,
                                          const std::string& guests);
std::optional<int> at_entrance(Entrance entrance, const std::string& what,
                               const std::string& path, const std::string& guests);

} // namespace fluxdat::dat
