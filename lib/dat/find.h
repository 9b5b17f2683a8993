// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The DATs of an instance: jobs that carry a record. One job-list.list gives them all.
#pragma once

#include "lib/dat/record.h"
#include "lib/flux/services.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::dat {

struct Dat {
    flux::JobInfo job;
    Record record;

    std::string uri() const; // of rank 0's door; empty while there is none
    // What people see: "pending", "starting", "ready", "stopping", "ended".
    std::string_view phase() const;
    // It runs, and not all of its ranks have the newest guest list.
    bool degraded() const;
};

// The record on a job, if it carries a valid one.
std::optional<Dat> dat_of(flux::JobInfo job);

// The record that an event of the job's eventlog puts on it, if it does and it is
// valid.
std::optional<Record> record_in(const flux::Event& event);

// Puts the record on the DAT's job. The job's owner only.
flux::Task<Result<>> post_record(flux::Connection& parent, flux::JobId id,
                                 const Record& record);

// All DATs that are pending or running, of whomever, as far as the caller may see them,
// in the order of their submission.
flux::Task<Result<std::vector<Dat>>> list_dats(flux::Connection& parent);

// Picks the one that `selector` names, by name or by job id; without a selector, the
// only one. exit 3 when there is none, exit 4 when several match; both list what there
// is. Anybody may put a record of any name on a job of theirs: so among several that
// match, one of the caller's own is meant.
Result<Dat> select_dat(std::vector<Dat> dats,
                       const std::optional<std::string>& selector, uid_t caller);

// list_dats() and select_dat(). What has ended is no DAT any more: exit 3, and the
// error says when that was.
flux::Task<Result<Dat>> find_dat(flux::Connection& parent,
                                 std::optional<std::string> selector);

// As find_dat(), and one that is over where it is named by its job id.
flux::Task<Result<Dat>> find_dat_or_ended(flux::Connection& parent,
                                          std::optional<std::string> selector);

// Another name that differs from this one in nothing but the case of its letters.
bool same_but_for_case(std::string_view a, std::string_view b);

// The active DATs of one name and owner, other than `except`.
struct Namesakes {
    // The one with a record, or else the one that was submitted first. A start that was
    // killed between submitting and recording leaves a job without a record until its
    // ranks are up; its jobspec tells what it is.
    std::optional<flux::JobInfo> holder;
    bool recorded = false; // the holder has a record
    // Its job has ended, and its nodes are being cleaned up.
    std::optional<flux::JobInfo> cleaning_up;
    // A DAT with a record, of a name that is the same but for the case of its letters.
    std::optional<Dat> alike;
};
flux::Task<Result<Namesakes>> find_namesakes(flux::Connection& parent, std::string name,
                                             uid_t owner, flux::JobId except);

} // namespace fluxdat::dat
