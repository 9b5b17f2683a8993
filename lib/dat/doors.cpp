// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/doors.h"

#include "lib/dat/record.h"
#include "lib/flux/text.h"

#include <algorithm>

namespace fluxdat::dat {

namespace {

// Seconds before a rank that failed is tried again: the first pause, which doubles up
// to the second.
constexpr double pause_min = 1, pause_max = 60;
// Seconds after which a rank that has not answered counts as one that failed, for those
// who wait. A list is at a rank in some milliseconds.
constexpr double answer_time_max = 20;

} // namespace

// What keeps one rank's door.
struct Doors::Keeper {
    Rank rank;
    std::string path;        // of its door or socket, once it is known
    std::uint64_t tried = 0; // the generation of the last attempt that ended
    bool at_work = false;    // its coroutine runs
    flux::Interrupt pause;   // raised: do not wait any longer
    flux::Interrupt gone;    // raised: no answer will come
    bool up = true;          // as far as is known
};

struct Doors::State {
    struct Waiting {
        std::uint64_t generation;
        flux::Interrupt* over; // in the frame of who waits
    };

    flux::Loop& loop;
    flux::Connection& dat;
    Entrance entrance;
    std::function<void()> changed;
    std::vector<Keeper> keepers;
    std::uint64_t wanted = 0;
    std::string list; // as JSON
    std::vector<Waiting> waiting;
    bool stopped = false;
    flux::Interrupt idle; // raised when it is stopped and no keeper is at work

    bool has_tried(std::uint64_t generation) const
    {
        return std::all_of(keepers.begin(), keepers.end(), [&](const Keeper& keeper) {
            return keeper.rank.applied >= generation || keeper.tried >= generation;
        });
    }

    void tell_waiting()
    {
        for (auto& one : std::vector(waiting))
            if (stopped || has_tried(one.generation))
                one.over->raise({"settled"});
    }

    void tell_idle()
    {
        if (stopped
            && std::none_of(keepers.begin(), keepers.end(),
                            [](const Keeper& keeper) { return keeper.at_work; }))
            idle.raise({"idle"});
    }

    std::uint64_t applied() const
    {
        std::uint64_t least = wanted;
        for (auto& keeper : keepers)
            least = std::min(least, keeper.rank.applied);
        return least;
    }
};

Doors::Doors(flux::Loop& loop, flux::Connection& dat, flux::Hostlist hosts,
             Entrance entrance, std::uint64_t applied, std::function<void()> changed)
    : state_(std::make_shared<State>(State{loop,
                                           dat,
                                           entrance,
                                           std::move(changed),
                                           std::vector<Keeper>(hosts.size()),
                                           applied,
                                           {},
                                           {},
                                           false,
                                           {}}))
{
    for (std::uint32_t rank = 0; rank < hosts.size(); rank++)
        state_->keepers[rank].rank = {rank, std::move(hosts[rank]), applied, {}, {}};
}

Doors::~Doors()
{
    stop();
}

void Doors::want(const perms::GuestList& guests)
{
    if (guests.generation <= state_->wanted && !state_->list.empty())
        return;
    state_->wanted = guests.generation;
    state_->list = flux::dump_json(to_json(guests));
    for (std::size_t i = 0; i < state_->keepers.size(); i++) {
        auto& keeper = state_->keepers[i];
        keeper.pause.raise({"a newer list"});
        if (!keeper.at_work)
            state_->loop.spawn(keep(state_, i));
    }
}

void Doors::up(const flux::Idset& ranks)
{
    for (auto& keeper : state_->keepers) {
        bool was_up = std::exchange(keeper.up, ranks.contains(keeper.rank.rank));
        if (!keeper.up)
            keeper.gone.raise({"its broker is gone"});
        else if (!was_up)
            keeper.pause.raise({"it is back"});
    }
}

// Until the rank has what is wanted.
flux::Task<void> Doors::keep(std::shared_ptr<State> state, std::size_t index)
{
    auto& keeper = state->keepers[index];
    auto number = keeper.rank.rank;
    keeper.at_work = true;
    double pause = pause_min;
    while (!state->stopped && keeper.rank.applied < state->wanted) {
        auto generation = state->wanted;
        auto list = state->list;
        keeper.pause.clear();
        keeper.gone.clear();
        if (keeper.path.empty()) {
            auto path = co_await find_entrance(state->dat, number, state->entrance,
                                               &keeper.gone);
            if (path)
                keeper.path = std::move(*path);
            else
                keeper.rank.reason = path.error().message;
        }
        if (!keeper.path.empty()) {
            auto ran =
                co_await run_at_entrance(state->dat, number, state->entrance, "apply",
                                         keeper.path, std::move(list), &keeper.gone);
            keeper.rank.reason = ran.good ? "" : ran.why();
            keeper.rank.warnings =
                ran.good ? std::move(ran.lines) : std::vector<std::string>{};
        }
        if (state->stopped)
            break;
        keeper.tried = generation;
        if (keeper.rank.reason.empty()) {
            auto before = state->applied();
            keeper.rank.applied = generation;
            pause = pause_min;
            if (state->applied() != before)
                state->changed();
            state->tell_waiting();
            continue;
        }
        state->tell_waiting();
        (void)co_await state->loop.sleep(pause, &keeper.pause); // cut short: try now
        pause = keeper.pause.reason() ? pause_min : std::min(pause * 2, pause_max);
    }
    keeper.at_work = false;
    state->tell_idle();
}

flux::Task<bool> Doors::settled(std::uint64_t generation)
{
    auto state = state_;
    flux::Interrupt over;
    if (!state->has_tried(generation) && !state->stopped) {
        state->waiting.push_back({generation, &over});
        (void)co_await state->loop.sleep(answer_time_max, &over); // either way
        std::erase_if(state->waiting, [&](auto& one) { return one.over == &over; });
    }
    for (auto& keeper : state->keepers)
        if (keeper.rank.applied < generation && keeper.tried < generation)
            keeper.rank.reason =
                fmt::format("no answer yet after {} s", answer_time_max);
    co_return state->applied() >= generation;
}

std::uint64_t Doors::applied() const
{
    return state_->applied();
}

std::vector<Doors::Rank> Doors::ranks() const
{
    std::vector<Rank> ranks;
    for (auto& keeper : state_->keepers)
        ranks.push_back(keeper.rank);
    return ranks;
}

void Doors::stop()
{
    if (std::exchange(state_->stopped, true))
        return;
    state_->tell_waiting();
    for (auto& keeper : state_->keepers)
        keeper.pause.raise({"the end"});
    state_->tell_idle();
}

flux::Task<void> Doors::stopped()
{
    auto state = state_;
    stop();
    if (!state->idle.reason())
        (void)co_await state->loop.sleep(answer_time_max, &state->idle); // either way
}

Json to_json(const Doors::Rank& rank)
{
    return {{"rank", rank.rank},
            {"host", rank.host},
            {"applied", rank.applied},
            {"reason", rank.reason},
            {"warnings", rank.warnings}};
}

Doors::Rank door_rank_from_json(const Json& json)
{
    Doors::Rank rank;
    rank.rank = flux::integer_at<std::uint32_t>(json, "rank");
    rank.host = flux::text_at(json, "host");
    rank.applied = flux::integer_at<std::uint64_t>(json, "applied");
    rank.reason = flux::text_at(json, "reason");
    if (json.is_object() && json.contains("warnings") && json["warnings"].is_array())
        for (auto& line : json["warnings"])
            if (line.is_string())
                rank.warnings.push_back(line.get<std::string>());
    return rank;
}

} // namespace fluxdat::dat
