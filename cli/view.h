// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What `flux-dat status` shows: all DATs, or one with what its supervisor says of it.
// It may be looked at again and again, at little cost: one call for all DATs, and of
// one that is shown in detail another for its jobs; its doors, a process on each of its
// nodes, are asked for only when its record has changed.
//
// It is asked every other second and not told: job-manager's journal is for the owner
// of the parent only, and job-list has none.
#pragma once

#include "lib/dat/find.h"
#include "lib/flux/loop.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::cli {

class View
{
public:
    // Without a selector, all there are.
    View(flux::Loop& loop, std::optional<std::string> selector)
        : loop_(loop), selector_(std::move(selector))
    {
    }

    // Asks the parent. Gives whether what json() says has changed. The first time, the
    // errors of find_dat(); later the DAT is known by its id, and may have ended. To
    // end it before its time, close the connection.
    flux::Task<Result<bool>> look(flux::Connection& parent);

    bool is_one() const { return selector_.has_value(); }
    const std::vector<dat::Dat>& dats() const { return dats_; }
    const dat::Json& supervisor() const { return supervisor_; }
    // Why its supervisor does not say what it might; empty: it does, or may not.
    const std::string& complaint() const { return complaint_; }
    bool has_ended() const
    {
        return is_one() && !dats_.empty() && !dats_[0].job.active();
    }
    std::string ended_in_words() const;

    // As flux-dat(1) has it.
    dat::Json json() const;

private:
    flux::Task<Result<dat::Dat>> find(flux::Connection& parent);
    flux::Task<Result<>> ask(flux::Connection& parent, const dat::Dat& dat);

    flux::Loop& loop_;
    std::optional<std::string> selector_;
    std::vector<dat::Dat> dats_;
    dat::Json supervisor_; // null where it does not answer, or not to us
    std::string complaint_;
    std::string asked_at_; // the record with which the supervisor was asked last
    std::string shown_;    // json(), when it was looked at last
};

} // namespace fluxdat::cli
