// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Changes of a DAT's guest list, and what they amount to.
//
// A change is an event of the DAT's job in the parent instance: a memo `dat_change`
// (RFC 21), which the job's eventlog keeps for good and puts in an order that is the
// same for everybody. The list is the first record's with all changes after it applied,
// in that order; its generation is one more than their number. So two changes at the
// same moment both count, whoever makes them and from where; a supervisor that was
// restarted finds the list that it had, and never an older one; and the eventlog is the
// history of the list. The record (record.h) repeats what this comes to, since that is
// what job-list shows.
//
// Rejected: writing the new list into the record alone. Two who read it, change it and
// write it back lose one of the changes, and a broker has nothing to compare and swap.
#pragma once

#include "lib/dat/record.h"
#include "lib/flux/services.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::dat {

constexpr const char* change_key = "dat_change"; // of the memo

// Those whom a change names. In any order, repeated or not.
struct Named {
    std::vector<uid_t> users;
    std::vector<gid_t> groups;
    std::vector<uid_t> managers;

    bool empty() const { return users.empty() && groups.empty() && managers.empty(); }
    bool operator==(const Named&) const = default;
    Named& operator+=(const Named& more);
};

struct Change {
    std::string key; // tells it from all others
    uid_t by = 0;    // who asked for it
    Named grant, revoke;
    std::optional<bool> open; // to everybody, or to those on the list only
    bool keep_jobs = false;   // what runs of those revoked may finish

    // Only the DAT's owner may do more than change users and groups.
    bool needs_owner() const
    {
        return open || !grant.managers.empty() || !revoke.managers.empty();
    }
    bool operator==(const Change&) const = default;
};

// A key for a new change: 128 bits at random, in hex.
std::string new_change_key();

Json to_json(const Named& named);
Json to_json(const Change& change);
// The error says which member is wrong. Unknown ones are ignored. At most
// perms::guests_max ids in each list.
Result<Change> change_from_json(const Json& json);

// The change that an event of the job's eventlog is, if it is one and it is valid.
std::optional<Change> change_in(const flux::Event& event);

// Whether an event takes the record off the job: an adopted instance is given up.
bool removes_record(const flux::Event& event);

// Who is to be let in, from when, and on whose word.
class Desired
{
public:
    struct Since {
        uid_t by = 0;
        double when = 0; // seconds since the epoch
    };

    Desired() = default;
    // The list that a DAT begins with.
    Desired(const Record& first, uid_t owner, double when);

    // What a change does to this list, the rest of what it says being so already.
    struct Effect {
        Named granted, revoked;
        std::optional<bool> open;
        bool kept = false; // which jobs may finish has changed

        bool none() const
        {
            return granted.empty() && revoked.empty() && !open && !kept;
        }
    };
    // Applies the change; it takes a generation even if it has no effect. One that
    // would give a list that no DAT can have (perms::validate) is an error, and takes a
    // generation without any effect. Revoking somebody without `keep_jobs` ends, too,
    // that jobs were kept before.
    Result<Effect> apply(const Change& change, double when);

    // The change without those whom it would name in vain: applied to this list, it
    // does the same. Whom `others` name, which may come before it, is left in.
    Change narrowed(const Change& change,
                    const std::vector<const Change*>& others = {}) const;

    // For the doors and the record.
    const perms::GuestList& guests() const { return guests_; }
    std::vector<uid_t> managers() const;
    bool is_manager(uid_t uid) const { return managers_.contains(uid); }

    // Whether this user may enter. `groups` gives a user's groups here, or nothing
    // where that cannot be told at the moment, and is asked only where the list has
    // groups. What cannot be told is decided for the user: nobody loses jobs since a
    // directory server is down, and the IMP, which decides the other way, starts none.
    using GroupsOf = std::function<std::optional<std::vector<gid_t>>(uid_t)>;
    bool admits(uid_t uid, const GroupsOf& groups) const;
    // Whether a job that this user submitted at that time, and that runs, may finish
    // though the user is no longer on the list.
    bool keeps(uid_t uid, double submitted, const GroupsOf& groups) const;

    const std::map<uid_t, Since>& users() const { return users_; }
    const std::map<gid_t, Since>& groups() const { return groups_; }
    const std::map<uid_t, Since>& all_managers() const { return managers_; }

private:
    uid_t owner_ = 0;
    perms::GuestList guests_;
    std::map<uid_t, Since> users_, managers_;
    std::map<gid_t, Since> groups_;
    // Of those revoked with keep_jobs: when. Nothing: whoever is on no list.
    std::map<uid_t, double> kept_users_;
    std::map<gid_t, double> kept_groups_;
    std::optional<double> kept_open_;
    // Of those revoked without it while others were kept: when. It goes before being
    // kept, on whatever ground, for what was submitted until then.
    std::map<uid_t, double> ended_users_;
    std::map<gid_t, double> ended_groups_;
};

// {"users":[{"id","by","since"}..], "groups":[..], "managers":[..], "generation",
// "open"}
Json to_json(const Desired& desired);

// What the list comes of, out of a DAT's eventlog: the changes, and the record where it
// was the first or was taken off. Each record repeats the whole list, so an eventlog is
// many times as large as this.
class Ledger
{
public:
    // The events of the log, in their order.
    void take(flux::Event event);
    // Those that count, and the last record behind them; as fold() and history() take
    // them.
    std::vector<flux::Event> events() const;
    // Of all that were taken.
    std::size_t count() const { return count_; }
    std::size_t bytes() const { return bytes_; }
    // Of those that count, but the last record.
    std::size_t bytes_kept() const { return bytes_kept_; }

private:
    void keep(flux::Event event);

    std::vector<flux::Event> kept_;
    std::optional<flux::Event> last_record_;
    bool has_first_ = false; // since the record was taken off
    std::size_t count_ = 0, bytes_ = 0, bytes_kept_ = 0;
};

// What a DAT's whole eventlog amounts to: the list, and the last record. The list
// begins with the log's first record, or with `first` where that is known otherwise;
// and anew after the record was removed (an adopted instance that was given up,
// adopt.h).
struct Folded {
    Desired desired;
    std::optional<Record> record;
};
// `each` gets every change with what it did, or why it could not be.
using OnChange = std::function<void(const Change&, double when,
                                    const Result<Desired::Effect>& effect)>;
Folded fold(const std::vector<flux::Event>& events, uid_t owner,
            const std::optional<Record>& first, const OnChange& each = {});

// The history of the list, for people and programs, in the order in which it happened:
// [{"when","by","granted":{"users"..},"revoked":{..},"open"}..]. The first entry is the
// list that the DAT began with. What changed nothing is not in it.
Json history(const std::vector<flux::Event>& events, uid_t owner);

// A job's eventlog up to some event. What was posted is in it only after a while (Flux
// 0.88 writes it in batches), so whoever posted something reads until it comes: a
// lookup could be too early.
class EventlogSoFar
{
public:
    EventlogSoFar(flux::Connection& flux, flux::JobId id) : watch_(flux, id, "eventlog")
    {
    }
    // Reads on until one that fits has been read. An error if the eventlog ends before.
    flux::Task<Result<>> read_until(std::function<bool(const flux::Event&)> fits);
    const std::vector<flux::Event>& events() const { return events_; }

private:
    flux::EventlogWatch watch_;
    std::vector<flux::Event> events_;
};

// An eventlog as job-info.lookup gives it. Lines that are no event are passed over. It
// may be of some ten MiB, and ten times that when it is parsed: where it can, a caller
// takes one event after the other.
void for_each_event(std::string_view text,
                    const std::function<void(flux::Event)>& each);
std::vector<flux::Event> parse_eventlog(std::string_view text);

} // namespace fluxdat::dat
