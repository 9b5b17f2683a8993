// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What a supervisor keeps of its DAT: the guest list as the job's eventlog has it
// (changes.h), the doors that follow it, and the record (record.h) that says so to
// everybody. Nothing in it is lost with the process: a new one reads it again.
#pragma once

#include "lib/dat/changes.h"
#include "lib/dat/doors.h"
#include "lib/dat/links.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace fluxdat::dat {

// Seconds in which a change that was posted must come back in the job's eventlog. It
// does in some milliseconds.
constexpr double event_time_max = 20;

class Book
{
public:
    // `first` is the record with which the DAT was submitted or adopted.
    Book(Links& links, Record first, double event_time = event_time_max)
        : links_(links), first_(std::move(first)), event_time_(event_time),
          record_(first_)
    {
    }

    // Called when a list is in force from now on.
    std::function<void()> on_list;
    // Called when the job is to expire at another time than before.
    std::function<void()> on_expiration;

    // What is not of the guest list may be changed; update() makes it known.
    Record& record() { return record_; }
    const Record& record() const { return record_; }
    const Desired& desired() const { return desired_; }
    Doors& doors() { return *doors_; }

    // The guest list as it is now, by the job's eventlog; and when the job expires,
    // which was at `expiration` (0: never) for some time; and the first time the
    // record, where a worker before this one has written it.
    flux::Task<Result<>> take_up(double expiration);
    double expiration() const { return expiration_; }

    // The guest list as it was at that time, in seconds since the epoch. An error where
    // the parent is away, and with it what was changed meanwhile.
    Result<Desired> list_at(double when) const;
    // How the list came to be, as changes.h has it.
    Json history() const;
    // How large the job's eventlog is, which nobody can make smaller again: bytes.
    std::size_t eventlog_size() const { return ledger_.bytes(); }

    // From now on the record here is the DAT's, not only the file's; posts it.
    flux::Task<Result<>> announce();

    // Posts the record if it is another than the parent has. update() also says what
    // went wrong, and update_if_announced() does nothing where there is no use.
    flux::Task<Result<>> post();
    flux::Task<void> update();
    flux::Task<void> update_if_announced();

    // Follows the job's eventlog, until the connection to the parent is lost or the DAT
    // is to end. A change that stands there is in force from then on.
    flux::Task<Result<>> follow();

    // Makes a change known to the job's eventlog, and gives what it was when it came
    // from there. One that was given up, since it did not come back in time, may come
    // later, and is in force then.
    struct Made {
        std::uint64_t generation = 0;
        Desired::Effect effect;
    };
    flux::Task<Result<Made>> change(Change change);

    // Which ranks are up, by the DAT's broker.
    flux::Task<void> ranks_up(const flux::Idset& ranks);

    // Takes the record off the job: an adopted instance is given up.
    flux::Task<Result<>> remove();
    bool removed() const { return removed_; }
    // It was not, after all: new doors, and the list in force.
    void reopen();

    // No more attempts at doors; who waits for a change goes on.
    void close();

private:
    // A change that was posted, until its event comes.
    struct Posted {
        const Change* change;
        flux::Interrupt seen = {};
        std::uint64_t generation = 0;
        Result<Desired::Effect> effect = fail("the change was posted, and is not to be "
                                              "found in the eventlog of the DAT's job");
    };

    flux::Task<Result<>> read_eventlog(std::function<void(flux::Event)> each);
    flux::Task<void> take_back_posts();
    void make_doors(std::uint64_t applied);
    void put_in_force();
    void take_change(const Change& change, double when);
    flux::Task<void> update_when_settled(std::uint64_t generation);

    Links& links_;
    const Record first_; // as the DAT was submitted
    const double event_time_;
    Record record_;
    double expiration_ = 0;                  // of the job
    Json posted_record_;                     // as it was posted last; null: not known
    std::size_t posts_ = 0, posts_seen_ = 0; // of the record; in the eventlog
    Desired desired_;
    Ledger ledger_; // of the eventlog, as far as desired_ has it in it
    std::map<std::string, Posted*> posted_; // by key, in the frames of who waits
    std::set<std::string> late_; // keys of those given up, which may still come
    std::optional<std::uint32_t> ranks_up_; // once the DAT's broker has told
    std::unique_ptr<Doors> doors_;
    bool announced_ = false;
    bool removed_ = false;
};

} // namespace fluxdat::dat
