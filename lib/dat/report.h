// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What a DAT was used for: per user jobs, failures, node-hours and core-hours. Jobs of
// a subinstance are in nobody's accounting, and gone with it; so its supervisor sums
// them up from the DAT's own job-list (RFC 43), and puts the sum in a memo `dat_report`
// on the DAT's job in the parent (RFC 21), where it stays: at the end, and at most once
// an hour before, so that something is known of a DAT whose rank 0 crashed. What else a
// report says, "flux-dat report" takes from the parent itself (cli/report.cpp).
//
// Rejected: a line for each job, which has no bound; a file, which is on one node and
// may meet a full disk.
#pragma once

#include "lib/dat/links.h"
#include "lib/flux/services.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::dat {

using flux::Json;

constexpr const char* report_key = "dat_report"; // of the memo

// Users that have a line of their own, those with the most node-hours; the others' jobs
// are summed up. The memo is in each job-list answer: about 100 bytes a user.
constexpr std::size_t report_users_max = 100;

// What one user had, or several.
struct Usage {
    std::uint64_t jobs = 0; // that run or have ended, also before they ran
    std::uint64_t failed = 0, canceled = 0, timeout = 0;
    double node_seconds = 0, core_seconds = 0;

    Usage& operator+=(const Usage& more);
    bool operator==(const Usage&) const = default;
};

struct Report {
    double as_of = 0;     // seconds since the epoch
    bool final = false;   // nothing came after it
    bool complete = true; // no job that ended before it is missing, as far as is known
    std::vector<std::pair<std::uint32_t, Usage>> users; // by userid, most hours first
    std::uint64_t other_users = 0;                      // how many are not in `users`
    Usage others;

    Usage total() const;
};

Json to_json(const Usage& usage);
Json to_json(const Report& report);
// The error says which member is wrong. Unknown ones are ignored.
Result<Report> report_from_json(const Json& json);
// The report on a DAT's job, if it carries a valid one.
std::optional<Report> report_of(const flux::JobInfo& job);

// A job as job-list has it, in so far as it counts here.
struct UsedBy {
    std::uint32_t userid = 0;
    Usage usage;
};
// `until`: up to when one that still runs is counted.
UsedBy usage_of(const Json& job, double until);

// Sums up the jobs of a DAT, for one worker: another one begins anew, from what
// job-list still has, so a memo may say less than the one before. Those that have ended
// are asked for once, by the time at which they did; but a clock may be set, and
// job-list forget what it was told to. So their number is compared with what job-list
// has counted itself: where it is another, all are counted anew, and where that does
// not help the report says so.
class Tally
{
public:
    // Asks the DAT's job-list. At an error everything is as before.
    flux::Task<Result<>> update(flux::Connection& dat,
                                flux::Interrupt* interrupt = nullptr);
    Report report(double as_of, bool final) const;

private:
    struct Ended {
        std::map<std::uint32_t, Usage> usage;
        std::uint64_t jobs = 0;
        double until =
            0; // the newest t_inactive that was counted, and not in the future
        std::map<flux::JobId, double> recent; // those after it and near it, which may
                                              // be listed again
    };
    static flux::Task<Result<>> count(flux::Connection& dat, Ended& ended,
                                      std::map<flux::JobId, UsedBy>& running,
                                      flux::Interrupt* interrupt);

    Ended ended_;
    std::map<std::uint32_t, Usage> running_;
    bool complete_ = true;
};

// The supervisor's part: keeps the memo.
class Reporter
{
public:
    explicit Reporter(Links& links) : links_(links) {}

    // Once an hour of calendar time, when there is something new; until the DAT is to
    // end.
    flux::Task<void> hourly();
    // The last one. Both connections are to be there; what could not be done is
    // complained of. Takes at most some seconds.
    flux::Task<void> finish();

private:
    flux::Task<Result<>> post(bool final, flux::Interrupt* interrupt);

    Links& links_;
    Tally tally_;
    Json posted_; // without its time; null: nothing yet
};

} // namespace fluxdat::dat
