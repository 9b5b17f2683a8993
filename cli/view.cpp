// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/view.h"

#include "lib/accounts.h"
#include "lib/dat/ask.h"
#include "lib/flux/datetime.h"

namespace fluxdat::cli {

namespace {

using dat::Json;

Json to_json(const dat::Dat& dat)
{
    auto& job = dat.job;
    auto& guests = dat.record.guests;
    return {{"name", dat.record.name},
            {"id", flux::format_jobid(job.id)},
            {"jobid", job.id},
            {"owner", user_name(job.userid)},
            {"userid", job.userid},
            {"state", dat.phase()},
            {"degraded", dat.degraded()},
            {"nnodes", job.nnodes},
            {"ranks_up", dat.record.ranks_up},
            {"nodelist", job.nodelist},
            {"ranks", job.ranks},
            {"t_submit", job.t_submit},
            {"begin_time", job.begin_time()},
            {"t_run", job.t_run},
            {"duration", job.duration},
            {"expiration", job.expiration},
            {"window", dat::to_json(dat.record.window)},
            {"uri", dat.uri()},
            {"generation", guests.generation},
            {"applied", dat.record.applied},
            {"open", guests.open},
            {"users", guests.users},
            {"groups", guests.groups},
            {"managers", dat.record.managers}};
}

} // namespace

flux::Task<Result<bool>> View::look(flux::Connection& parent)
{
    if (selector_) {
        auto found = co_await find(parent);
        if (!found)
            co_return std::unexpected(std::move(found.error()));
        if (auto asked = co_await ask(parent, *found); !asked)
            co_return std::unexpected(std::move(asked.error()));
        dats_.clear();
        dats_.push_back(std::move(*found));
    } else {
        auto all = co_await dat::list_dats(parent);
        if (!all)
            co_return std::unexpected(std::move(all.error()));
        dats_ = std::move(*all);
    }
    auto now = flux::dump_json(json());
    bool changed = now != shown_;
    shown_ = std::move(now);
    co_return changed;
}

flux::Task<Result<dat::Dat>> View::find(flux::Connection& parent)
{
    if (dats_.empty())
        co_return co_await dat::find_dat(parent, selector_);
    auto job = co_await flux::list_job(parent, dats_[0].job.id);
    if (!job)
        co_return std::unexpected(std::move(job.error()));
    auto known = dats_[0].record; // an adopted one that is given up has none any more
    auto dat = dat::dat_of(*job);
    co_return dat ? std::move(*dat) : dat::Dat{std::move(*job), std::move(known)};
}

flux::Task<Result<>> View::ask(flux::Connection& parent, const dat::Dat& dat)
{
    auto phase = dat.phase();
    complaint_.clear();
    if (phase != "ready" && phase != "stopping") {
        supervisor_ = nullptr;
        co_return Result<>{};
    }
    auto record = flux::dump_json(dat::to_json(dat.record));
    bool all = record != asked_at_;
    if (!all && !supervisor_.is_object())
        co_return Result<>{};
    Json nothing = Json::object();
    auto answer = co_await dat::ask_supervisor(
        loop_, parent, dat, all ? "status" : "jobs", std::move(nothing));
    if (answer) {
        asked_at_ = std::move(record);
        if (all)
            supervisor_ = std::move(*answer);
        else
            supervisor_["jobs"] = std::move(*answer);
        co_return Result<>{};
    }
    if (parent.lost())
        co_return std::unexpected(std::move(answer.error()));
    if (answer.error().errnum == EPERM) { // not to this user, whenever asked
        asked_at_ = std::move(record);
        supervisor_ = nullptr;
        co_return Result<>{};
    }
    if (all)
        supervisor_ = nullptr;
    complaint_ = "its supervisor does not answer: " + answer.error().message;
    co_return Result<>{};
}

std::string View::ended_in_words() const
{
    return fmt::format("the DAT \"{}\" ({}) has ended, at {}", dats_[0].record.name,
                       flux::format_jobid(dats_[0].job.id),
                       flux::format_datetime(dats_[0].job.t_inactive));
}

Json View::json() const
{
    Json list = Json::array();
    for (auto& dat : dats_) {
        list.push_back(to_json(dat));
        if (is_one())
            list.back()["supervisor"] = supervisor_;
    }
    return {{"version", 1}, {"dats", std::move(list)}};
}

} // namespace fluxdat::cli
