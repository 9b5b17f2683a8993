// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/undrain.h"

#include "lib/dat/audit.h"
#include "lib/dat/ranks.h"
#include "lib/flux/services.h"
#include "lib/flux/text.h"

#include <algorithm>

namespace fluxdat::dat {

namespace {

constexpr std::string_view reason_end = " terminated before first barrier";
// Seconds before what could not be judged is looked at again.
constexpr double retry_pause = 60;

} // namespace

std::optional<flux::JobId> job_ended_early(std::string_view reason)
{
    if (!reason.ends_with(reason_end))
        return {};
    auto job = flux::parse_jobid(reason.substr(0, reason.size() - reason_end.size()));
    return job ? std::optional(*job) : std::nullopt;
}

Result<bool> is_off_list(const Desired& list, uid_t user,
                         const std::optional<std::vector<gid_t>>& groups)
{
    bool unknown = false;
    bool on = list.admits(user, [&](uid_t) {
        unknown = !groups;
        return groups;
    });
    if (on && unknown)
        return fail("it cannot be told at the moment in which groups the user {} is",
                    user);
    return !on;
}

void Drains::apply(const Json& answer)
{
    auto take = [this](const std::string& name, const Json& event) {
        if (name == "restart")
            by_rank_.clear();
        if (name != "drain" && name != "undrain")
            return;
        auto ranks = flux::parse_idset(flux::text_at(event["context"], "idset"));
        if (!ranks)
            return;
        std::optional<flux::JobId> job;
        if (name == "drain")
            job = job_ended_early(flux::text_at(event["context"], "reason"));
        double when = flux::number_at(event, "timestamp");
        for (auto rank : *ranks)
            if (job)
                by_rank_[rank] = {*job, when, current_};
            else // no longer drained, or for another reason
                by_rank_.erase(rank);
    };
    if (for_each_resource_event(answer, take))
        current_ = true;
}

Undrainer::Undrainer(flux::Loop& loop, flux::Connection& dat, flux::Interrupt& end,
                     OffList off_list)
    : loop_(loop), dat_(dat), end_(end), off_list_(std::move(off_list))
{
}

void Undrainer::apply(const Json& answer)
{
    drains_.apply(answer);
    auto is_over = [&](auto& one) {
        auto found = drains_.by_rank().find(one.first);
        return found == drains_.by_rank().end() || found->second != one.second;
    };
    std::erase_if(judged_, is_over);
    std::erase_if(failed_, is_over);
    if (ready_ && !at_work_ && next_unjudged())
        loop_.spawn(work());
}

void Undrainer::judge()
{
    ready_ = true;
    if (!at_work_ && next_unjudged())
        loop_.spawn(work());
}

std::optional<Drains::Drain> Undrainer::next_unjudged() const
{
    for (auto& [rank, drain] : drains_.by_rank())
        if (!judged_.contains(rank) && !failed_.contains(rank))
            return drain;
    return {};
}

flux::Task<void> Undrainer::work()
{
    at_work_ = true;
    while (auto drain = next_unjudged()) {
        auto judged = co_await judge(*drain);
        if (judged)
            continue;
        if (end_.reason())
            break; // which may be why
        complain(
            fmt::format("cannot tell whether the nodes are to be undrained that the "
                        "job {} drained: {}",
                        flux::format_jobid(drain->job), judged.error().message));
        for (auto& [rank, each] : drains_.by_rank())
            if (each.job == drain->job)
                failed_[rank] = each;
    }
    at_work_ = false;
    if (!failed_.empty() && !retrying_)
        loop_.spawn(retry());
}

flux::Task<void> Undrainer::retry()
{
    retrying_ = true;
    auto slept = co_await loop_.sleep(retry_pause, &end_);
    retrying_ = false;
    if (!slept)
        co_return; // the end
    failed_.clear();
    if (!at_work_)
        co_await work();
}

// All ranks that this job drained. An error: not judged.
flux::Task<Result<>> Undrainer::judge(Drains::Drain drain)
{
    // Nothing is asked for that the job's owner could make too large to be read.
    Json payload{{"id", drain.job}, {"attrs", Json::array({"userid"})}};
    auto job = co_await dat_.rpc("job-list.list-id", std::move(payload));
    if (!job && job.error().errnum != ENOENT)
        co_return std::unexpected(job.error());
    auto user = flux::userid_unknown;
    if (job && job->contains("job"))
        user = flux::integer_at((*job)["job"], "userid", user);
    Result<bool> off = false; // of a job that is forgotten nothing can be said
    if (user != flux::userid_unknown)
        off = co_await off_list_(user, drain);
    if (!off)
        co_return std::unexpected(off.error());
    for (auto& [rank, each] : drains_.by_rank())
        if (each.job == drain.job)
            judged_[rank] = each;
    if (*off)
        co_await undrain(drain.job, user);
    co_return Result<>{};
}

flux::Task<void> Undrainer::undrain(flux::JobId job, uid_t user)
{
    // What somebody else has undrained meanwhile makes Flux refuse all of a request, so
    // it is then made rank by rank.
    std::vector<flux::Idset> requests{{}};
    for (auto& [rank, drain] : drains_.by_rank())
        if (drain.job == job)
            requests.front().insert(rank);
    for (std::size_t i = 0; i < requests.size(); i++) {
        auto ranks = requests[i];
        if (ranks.empty())
            continue;
        Json payload{{"targets", flux::format_idset(ranks)}};
        auto done = co_await dat_.rpc("resource.undrain", std::move(payload), 0);
        if (done) {
            if (on_undrain)
                on_undrain(ranks, job, user);
        } else if (done.error().errnum != EEXIST) {
            complain(fmt::format("cannot undrain the ranks {}: {}",
                                 flux::format_idset(ranks), done.error().message));
            co_return;
        } else if (ranks.size() > 1) {
            for (auto rank : ranks)
                requests.emplace_back(rank);
        }
    }
}

} // namespace fluxdat::dat
