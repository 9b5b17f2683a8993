// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/changes.h"

#include "lib/dat/find.h"
#include "lib/flux/text.h"

#include <algorithm>
#include <limits>
#include <set>
#include <sys/random.h>
#include <utility>

namespace fluxdat::dat {

namespace {

constexpr int change_version = 1;
constexpr std::size_t key_bytes = 16;
constexpr std::size_t managers_max = 1000; // more is a slip: they are to be few
constexpr std::size_t key_length_max = 64; // characters

std::unexpected<Error> bad_member(std::string_view where, const char* expected)
{
    return std::unexpected(
        Error{fmt::format("the change: \"{}\" is no {}", where, expected), EPROTO});
}

template <class Id>
Result<std::vector<Id>> ids_at(const Json& json, const char* key, const char* of)
{
    std::vector<Id> ids;
    auto found = json.find(key);
    if (found == json.end())
        return ids;
    auto where = fmt::format("{}.{}", of, key);
    if (!found->is_array())
        return bad_member(where, "list of ids");
    if (found->size() > perms::guests_max)
        return fail("the change names {} {}, at most {} are possible; put the users in "
                    "a group",
                    found->size(), key, perms::guests_max);
    for (auto& id : *found) {
        if (!id.is_number_unsigned()
            || id.get<std::uint64_t>() > std::numeric_limits<Id>::max())
            return bad_member(where, "list of ids");
        ids.push_back(id.get<Id>());
    }
    return ids;
}

Result<Named> named_at(const Json& json, const char* key)
{
    Named named;
    auto found = json.find(key);
    if (found == json.end())
        return named;
    if (!found->is_object())
        return bad_member(key, "object");
    auto users = ids_at<uid_t>(*found, "users", key);
    if (!users)
        return std::unexpected(users.error());
    auto groups = ids_at<gid_t>(*found, "groups", key);
    if (!groups)
        return std::unexpected(groups.error());
    auto managers = ids_at<uid_t>(*found, "managers", key);
    if (!managers)
        return std::unexpected(managers.error());
    return Named{std::move(*users), std::move(*groups), std::move(*managers)};
}

Result<bool> flag_at(const Json& json, const char* key, bool otherwise)
{
    auto found = json.find(key);
    if (found == json.end() || found->is_null())
        return otherwise;
    if (!found->is_boolean())
        return bad_member(key, "boolean");
    return found->get<bool>();
}

template <class Id>
std::vector<Id> ids_of(const std::map<Id, Desired::Since>& list)
{
    std::vector<Id> ids;
    for (auto& [id, since] : list)
        ids.push_back(id);
    return ids;
}

// Those who were not on the list and now are.
template <class Id>
std::vector<Id> add(std::map<Id, Desired::Since>& list, const std::vector<Id>& ids,
                    Desired::Since since)
{
    std::vector<Id> added;
    for (auto id : ids)
        if (list.emplace(id, since).second)
            added.push_back(id);
    return added;
}

// Those who were on the list and now are not.
template <class Id>
std::vector<Id> drop(std::map<Id, Desired::Since>& list, const std::vector<Id>& ids)
{
    std::vector<Id> dropped;
    for (auto id : ids)
        if (list.erase(id))
            dropped.push_back(id);
    return dropped;
}

// Those of `ids` that are wanted, each once.
template <class Id>
std::vector<Id> those(const std::vector<Id>& ids, const std::vector<Id>& by_others,
                      const std::function<bool(Id)>& wanted)
{
    const std::set<Id> named(ids.begin(), ids.end()),
        others(by_others.begin(), by_others.end());
    std::vector<Id> left;
    for (auto id : named)
        if (others.contains(id) || wanted(id))
            left.push_back(id);
    return left;
}

template <class Id>
bool contains(const std::vector<Id>& sorted, Id id)
{
    return std::binary_search(sorted.begin(), sorted.end(), id);
}

template <class Id>
void append(std::vector<Id>& ids, const std::vector<Id>& more)
{
    ids.insert(ids.end(), more.begin(), more.end());
}

template <class Id>
void keep(std::map<Id, double>& kept, const std::vector<Id>& granted,
          const std::vector<Id>& named, const std::vector<Id>& revoked, bool keep_jobs,
          double when)
{
    for (auto id : granted)
        kept.erase(id);
    if (!keep_jobs) {
        for (auto id : named)
            kept.erase(id);
        return;
    }
    for (auto id : revoked)
        kept[id] = when;
}

} // namespace

std::string new_change_key()
{
    unsigned char bytes[key_bytes];
    // Never short, nor interrupted, for up to 256 bytes (getrandom(2)).
    while (getrandom(bytes, sizeof(bytes), 0) < 0 && errno == EINTR)
        ;
    std::string key;
    for (auto byte : bytes)
        key += fmt::format("{:02x}", byte);
    return key;
}

Named& Named::operator+=(const Named& more)
{
    append(users, more.users);
    append(groups, more.groups);
    append(managers, more.managers);
    return *this;
}

Json to_json(const Named& named)
{
    return {
        {"users", named.users}, {"groups", named.groups}, {"managers", named.managers}};
}

Json to_json(const Change& change)
{
    // Flux merges memos: every member is always there, so that what job-list shows is
    // one change, and not a mixture.
    return {{"version", change_version},
            {"key", change.key},
            {"by", change.by},
            {"grant", to_json(change.grant)},
            {"revoke", to_json(change.revoke)},
            {"open", change.open ? Json(*change.open) : Json("as before")},
            {"keep_jobs", change.keep_jobs}};
}

Result<Change> change_from_json(const Json& json)
{
    if (!json.is_object())
        return fail("the change is no JSON object");
    auto version = json.find("version");
    if (version == json.end() || *version != change_version)
        return fail("the change is not of version {}: it was made by another version "
                    "of flux-dat",
                    change_version);
    Change change;
    change.key = flux::text_at(json, "key");
    if (change.key.empty() || change.key.size() > key_length_max)
        return bad_member("key", "key");
    auto by = json.find("by");
    if (by == json.end() || !by->is_number_unsigned()
        || by->get<std::uint64_t>() > std::numeric_limits<uid_t>::max())
        return bad_member("by", "user id");
    change.by = by->get<uid_t>();
    auto grant = named_at(json, "grant");
    if (!grant)
        return std::unexpected(grant.error());
    auto revoke = named_at(json, "revoke");
    if (!revoke)
        return std::unexpected(revoke.error());
    change.grant = std::move(*grant);
    change.revoke = std::move(*revoke);
    if (auto open = json.find("open"); open != json.end() && open->is_boolean())
        change.open = open->get<bool>();
    auto keep_jobs = flag_at(json, "keep_jobs", false);
    if (!keep_jobs)
        return std::unexpected(keep_jobs.error());
    change.keep_jobs = *keep_jobs;
    return change;
}

std::optional<Change> change_in(const flux::Event& event)
{
    if (event.name != "memo" || !event.context.is_object()
        || !event.context.contains(change_key))
        return {};
    auto change = change_from_json(event.context[change_key]);
    return change ? std::optional(std::move(*change)) : std::nullopt;
}

bool removes_record(const flux::Event& event)
{
    return event.name == "memo" && event.context.is_object()
           && event.context.contains("dat") && event.context["dat"].is_null();
}

Desired::Desired(const Record& first, uid_t owner, double when)
    : owner_(owner), guests_(first.guests)
{
    const Since since{owner, when};
    add(users_, first.guests.users, since);
    add(groups_, first.guests.groups, since);
    add(managers_, first.managers, since);
}

std::vector<uid_t> Desired::managers() const
{
    return ids_of(managers_);
}

Result<Desired::Effect> Desired::apply(const Change& change, double when)
{
    Desired next = *this;
    next.guests_.generation++;
    const Since since{change.by, when};
    Effect effect;
    effect.revoked = {drop(next.users_, change.revoke.users),
                      drop(next.groups_, change.revoke.groups),
                      drop(next.managers_, change.revoke.managers)};
    effect.granted = {add(next.users_, change.grant.users, since),
                      add(next.groups_, change.grant.groups, since),
                      add(next.managers_, change.grant.managers, since)};
    if (change.open && *change.open != guests_.open) {
        effect.open = change.open;
        next.guests_.open = *change.open;
        next.kept_open_.reset();
        if (!*change.open && change.keep_jobs)
            next.kept_open_ = when;
    } else if (change.open && !*change.open && !change.keep_jobs) {
        next.kept_open_.reset();
    }
    keep(next.kept_users_, change.grant.users, change.revoke.users,
         effect.revoked.users, change.keep_jobs, when);
    keep(next.kept_groups_, change.grant.groups, change.revoke.groups,
         effect.revoked.groups, change.keep_jobs, when);
    bool any_kept = kept_open_ || !kept_users_.empty() || !kept_groups_.empty();
    if (any_kept && !change.keep_jobs) {
        for (auto uid : change.revoke.users)
            next.ended_users_[uid] = when;
        for (auto gid : change.revoke.groups)
            next.ended_groups_[gid] = when;
    }
    next.guests_.users = ids_of(next.users_);
    next.guests_.groups = ids_of(next.groups_);
    auto valid = perms::validate(next.guests_, owner_);
    if (valid && next.managers_.size() > managers_max)
        valid = fail("there would be {} managers, at most {} are possible",
                     next.managers_.size(), managers_max);
    if (!valid) {
        guests_.generation++;
        return std::unexpected(valid.error());
    }
    effect.kept = next.kept_users_ != kept_users_ || next.kept_groups_ != kept_groups_
                  || next.kept_open_ != kept_open_ || next.ended_users_ != ended_users_
                  || next.ended_groups_ != ended_groups_;
    *this = std::move(next);
    return effect;
}

Change Desired::narrowed(const Change& change,
                         const std::vector<const Change*>& others) const
{
    Named theirs;
    bool keeps_any = kept_open_ || !kept_users_.empty() || !kept_groups_.empty();
    for (auto* other : others) {
        (theirs += other->grant) += other->revoke;
        keeps_any |= other->keep_jobs;
    }
    // Whom a revoke names loses what was kept, on whatever ground.
    bool ends_kept = !change.keep_jobs && keeps_any;
    auto revoked = [&](const auto& ids, const auto& by_others, const auto& list) {
        using Id = typename std::decay_t<decltype(ids)>::value_type;
        return those<Id>(ids, by_others,
                         [&](Id id) { return ends_kept || list.contains(id); });
    };
    // Who is revoked by the same change is on the list again by it.
    auto granted = [&](const auto& ids, const auto& by_others, const auto& list,
                       const auto& kept, const auto& gone) {
        using Id = typename std::decay_t<decltype(ids)>::value_type;
        return those<Id>(ids, by_others, [&](Id id) {
            return !list.contains(id) || kept.contains(id) || contains(gone, id);
        });
    };
    auto& [key, by, grant, revoke, open, keep_jobs] = change;
    const std::map<uid_t, double> none;
    Named out{revoked(revoke.users, theirs.users, users_),
              revoked(revoke.groups, theirs.groups, groups_),
              those<uid_t>(revoke.managers, theirs.managers,
                           [&](uid_t id) { return managers_.contains(id); })};
    Named in{granted(grant.users, theirs.users, users_, kept_users_, out.users),
             granted(grant.groups, theirs.groups, groups_, kept_groups_, out.groups),
             granted(grant.managers, theirs.managers, managers_, none, out.managers)};
    return {key, by, std::move(in), std::move(out), open, keep_jobs};
}

bool Desired::admits(uid_t uid, const GroupsOf& groups) const
{
    if (uid == owner_ || guests_.open || users_.contains(uid))
        return true;
    if (groups_.empty())
        return false;
    auto of_user = groups(uid);
    return !of_user || std::any_of(of_user->begin(), of_user->end(), [&](gid_t gid) {
        return groups_.contains(gid);
    });
}

bool Desired::keeps(uid_t uid, double submitted, const GroupsOf& groups) const
{
    auto until = [submitted](const auto& times, auto id) {
        auto found = times.find(id);
        return found != times.end() && submitted <= found->second;
    };
    if (until(ended_users_, uid))
        return false;
    bool asks_groups = !kept_groups_.empty() || !ended_groups_.empty();
    auto of_user = asks_groups ? groups(uid) : std::optional(std::vector<gid_t>{});
    auto any_group = [&](const auto& times) {
        return std::any_of(of_user->begin(), of_user->end(),
                           [&](gid_t gid) { return until(times, gid); });
    };
    if (of_user && any_group(ended_groups_))
        return false;
    return (kept_open_ && submitted <= *kept_open_) || until(kept_users_, uid)
           || !of_user || any_group(kept_groups_);
}

Json to_json(const Desired& desired)
{
    auto entries = [](auto& list) {
        Json out = Json::array();
        for (auto& [id, since] : list)
            out.push_back({{"id", id}, {"by", since.by}, {"since", since.when}});
        return out;
    };
    return {{"generation", desired.guests().generation},
            {"open", desired.guests().open},
            {"users", entries(desired.users())},
            {"groups", entries(desired.groups())},
            {"managers", entries(desired.all_managers())}};
}

void Ledger::take(flux::Event event)
{
    count_++;
    bytes_ += event.size;
    if (removes_record(event)) {
        last_record_.reset();
        has_first_ = false;
        keep(std::move(event));
    } else if (record_in(event)) {
        if (std::exchange(has_first_, true))
            last_record_ = std::move(event);
        else
            keep(std::move(event));
    } else if (change_in(event)) {
        keep(std::move(event));
    }
}

void Ledger::keep(flux::Event event)
{
    bytes_kept_ += event.size;
    kept_.push_back(std::move(event));
}

std::vector<flux::Event> Ledger::events() const
{
    auto events = kept_;
    if (last_record_)
        events.push_back(*last_record_);
    return events;
}

Folded fold(const std::vector<flux::Event>& events, uid_t owner,
            const std::optional<Record>& first, const OnChange& each)
{
    Folded folded;
    bool begun = first.has_value();
    if (begun)
        folded.desired =
            Desired(*first, owner, events.empty() ? 0 : events.front().timestamp);
    for (auto& event : events) {
        if (removes_record(event)) {
            begun = first.has_value();
            folded.desired =
                begun ? Desired(*first, owner, event.timestamp) : Desired();
            folded.record.reset();
        } else if (auto record = record_in(event)) {
            if (!begun)
                folded.desired = Desired(*record, owner, event.timestamp);
            begun = true;
            folded.record = std::move(*record);
        } else if (auto change = change_in(event); change && begun) {
            auto effect = folded.desired.apply(*change, event.timestamp);
            if (each)
                each(*change, event.timestamp, effect);
        }
    }
    return folded;
}

Json history(const std::vector<flux::Event>& events, uid_t owner)
{
    Json entries = Json::array();
    auto add = [&](double when, uid_t by, const Desired::Effect& effect) {
        entries.push_back({{"when", when},
                           {"by", by},
                           {"granted", to_json(effect.granted)},
                           {"revoked", to_json(effect.revoked)},
                           {"open", effect.open ? Json(*effect.open) : Json(nullptr)}});
    };
    auto begins = std::find_if(events.rbegin(), events.rend(), removes_record).base();
    auto first_event = std::find_if(begins, events.end(), [](const auto& event) {
        return record_in(event).has_value();
    });
    if (first_event != events.end()) {
        auto first = *record_in(*first_event);
        Desired::Effect begin;
        begin.granted = {first.guests.users, first.guests.groups, first.managers};
        if (first.guests.open)
            begin.open = true;
        add(first_event->timestamp, owner, begin);
    }
    fold({begins, events.end()}, owner, std::nullopt,
         [&](const Change& change, double when, const Result<Desired::Effect>& effect) {
             if (effect && !effect->none())
                 add(when, change.by, *effect);
         });
    return entries;
}

flux::Task<Result<>>
EventlogSoFar::read_until(std::function<bool(const flux::Event&)> fits)
{
    while (true) {
        auto event = co_await watch_.next();
        if (!event)
            co_return std::unexpected(event.error());
        if (!*event)
            co_return fail("the job has ended");
        events_.push_back(std::move(**event));
        if (fits(events_.back()))
            co_return Result<>{};
    }
}

void for_each_event(std::string_view text, const std::function<void(flux::Event)>& each)
{
    for (auto line : flux::lines_of(text))
        if (auto event = flux::parse_event(line))
            each(std::move(*event));
}

std::vector<flux::Event> parse_eventlog(std::string_view text)
{
    std::vector<flux::Event> events;
    for_each_event(text,
                   [&](flux::Event event) { events.push_back(std::move(event)); });
    return events;
}

} // namespace fluxdat::dat
