// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The doors of a running DAT's ranks, kept with the newest guest list: the supervisor's
// part. A list is brought to all ranks at the same time, by the hidden command
// `flux-dat door apply` on each, over the DAT's own rexec (RFC 42). A rank where that
// fails is tried again until it succeeds, after a pause, or at once when a newer list
// comes or the rank comes back.
#pragma once

#include "lib/dat/ranks.h"
#include "lib/flux/hostlist.h"
#include "lib/flux/idset.h"
#include "lib/flux/loop.h"
#include "lib/flux/services.h"
#include "lib/perms/guestlist.h"

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fluxdat::dat {

class Doors
{
public:
    // `hosts`: names of the ranks' nodes, in their order. `entrance`: what all ranks
    // have, a door or, where the instance was adopted, a passage. Every rank counts as
    // having the list of generation `applied`; 0: none is known. `changed` is called
    // when applied() has become another. The connection must outlive stop().
    Doors(flux::Loop& loop, flux::Connection& dat, flux::Hostlist hosts,
          Entrance entrance, std::uint64_t applied, std::function<void()> changed);
    ~Doors();
    Doors(const Doors&) = delete;
    Doors& operator=(const Doors&) = delete;

    // Brings this list to every rank that has an older one. Ignored if a list of this
    // generation or a newer one was wanted already.
    void want(const perms::GuestList& guests);

    // These ranks are up now, and the others are not. Those that were not up before are
    // tried again; nothing more is expected of the others: Flux 0.88 gives no answer to
    // a request that was under way when a broker died.
    void up(const flux::Idset& ranks);

    // Waits until each rank has the list of this generation, or has failed to take it,
    // or some seconds have passed. Whether all have it.
    flux::Task<bool> settled(std::uint64_t generation);

    // The generation that all ranks have.
    std::uint64_t applied() const;

    struct Rank {
        std::uint32_t rank = 0;
        std::string host;
        std::uint64_t applied = 0; // generation
        std::string reason;        // why no newer one; empty while none was refused
        std::vector<std::string> warnings; // about the list that it has, a line each
    };
    std::vector<Rank> ranks() const;

    // No more attempts; who waits in settled() goes on.
    void stop();
    // stop(), and waits for the end of the attempts that are under way.
    flux::Task<void> stopped();

private:
    struct Keeper;
    struct State;
    static flux::Task<void> keep(std::shared_ptr<State> state, std::size_t index);
    std::shared_ptr<State> state_; // shared with the keepers, which may end later
};

nlohmann::json to_json(const Doors::Rank& rank);
Doors::Rank door_rank_from_json(const nlohmann::json& json);

} // namespace fluxdat::dat
