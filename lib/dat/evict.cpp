// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/evict.h"

#include "lib/dat/audit.h"
#include "lib/flux/services.h"

#include <algorithm>
#include <utility>

namespace fluxdat::dat {

namespace {

// Seconds before another try to follow the jobs: the first, which doubles up to the
// second.
constexpr double retry_pause_min = 1, retry_pause_max = 60;
// Users whose groups are looked up at a time.
constexpr int lookups_max = 4;
// The id, -1, of the answer between the jobs that were there and what happens next.
constexpr auto id_before_news = static_cast<flux::JobId>(-1);

} // namespace

Evictor::Evictor(flux::Loop& loop, flux::Connection& dat, Lookups& lookups,
                 std::string name, double tell_pause)
    : loop_(loop), dat_(dat), lookups_(lookups), name_(std::move(name)),
      tell_pause_(tell_pause)
{
}

flux::Task<void> Evictor::follow(flux::Interrupt& end)
{
    end_ = &end;
    double pause = retry_pause_min;
    while (true) {
        auto jobs_known = journal_jobs_;
        auto followed = co_await follow_journal();
        if (dat_.lost() || end.reason())
            co_return;
        fault_ = followed ? "the journal of jobs ended" : followed.error().message;
        complain("cannot follow the jobs of this DAT; those of revoked guests are not "
                 "cancelled until the next try: "
                 + fault_);
        if (journal_jobs_ != jobs_known) // it went well for a while
            pause = retry_pause_min;
        (void)co_await loop_.sleep(pause, &end);
        if (dat_.lost() || end.reason())
            co_return;
        pause = std::min(pause * 2, retry_pause_max);
    }
}

flux::Task<Result<>> Evictor::follow_journal()
{
    // All jobs that there are come first, with these events of theirs.
    Json payload{{"full", false},
                 {"allow", {{"submit", 1}, {"alloc", 1}, {"clean", 1}}}};
    journal_++;
    auto journal = dat_.stream("job-manager.events-journal", std::move(payload));
    while (true) {
        auto answer = co_await journal.next();
        // A jobspec is in it, and so whatever the job's owner likes. One that cannot be
        // read must not hide all the others.
        if (!answer && !dat_.lost()
            && (answer.error().errnum == EPROTO || answer.error().errnum == EMSGSIZE)) {
            complain("cannot read what the journal of jobs says of one of them: "
                     + answer.error().message);
            continue;
        }
        if (!answer)
            co_return std::unexpected(answer.error());
        if (!*answer)
            co_return Result<>{};
        fault_.clear();
        auto& json = **answer;
        if (!json.contains("events") || !json["events"].is_array())
            continue;
        auto id = flux::integer_at<flux::JobId>(json, "id");
        if (id == id_before_news) {
            // Those ended while nobody followed.
            std::erase_if(jobs_,
                          [&](auto& job) { return job.second.journal != journal_; });
            continue;
        }
        journal_jobs_++;
        take(id, json["events"]);
        // After all its events: a job that was here before may have started.
        if (auto found = jobs_.find(id); found != jobs_.end())
            judge(id, found->second);
    }
}

void Evictor::take(flux::JobId id, const Json& events)
{
    for (auto& event : events) {
        auto name = flux::text_at(event, "name");
        if (name == "submit" && event.contains("context")) {
            auto& job = jobs_[id];
            job.user = flux::integer_at<uid_t>(event["context"], "userid",
                                               flux::userid_unknown);
            job.submitted = flux::number_at(event, "timestamp", job.submitted);
            job.journal = journal_;
        } else if (auto found = jobs_.find(id); found != jobs_.end()) {
            if (name == "alloc")
                found->second.started = true;
            else if (name == "clean")
                jobs_.erase(found);
        }
    }
}

void Evictor::judge(const Desired& desired)
{
    desired_ = desired;
    has_list_ = true;
    for (auto& [id, job] : jobs_)
        judge(id, job);
}

bool Evictor::may_stay(const Job& job, const Desired::GroupsOf& groups) const
{
    return desired_.admits(job.user, groups)
           || (job.started && desired_.keeps(job.user, job.submitted, groups));
}

void Evictor::evict(flux::JobId id, Job& job)
{
    job.judged = true;
    loop_.spawn(cancel(id, job.user));
}

void Evictor::judge(flux::JobId id, Job& job)
{
    if (!has_list_ || job.judged)
        return;
    bool asked = false; // who may stay by a group, and may not without
    auto groups = [&](uid_t) {
        asked = true;
        return std::nullopt;
    };
    if (!may_stay(job, groups))
        return evict(id, job);
    if (!asked)
        return;
    by_groups_[job.user].insert(id);
    if (looking_up_ < lookups_max)
        loop_.spawn(judge_by_groups());
}

// Until there is nothing left that hangs on groups. A user may have very many jobs, and
// a directory server takes its time.
flux::Task<void> Evictor::judge_by_groups()
{
    looking_up_++;
    while (!by_groups_.empty() && !dat_.lost() && !(end_ && end_->reason())) {
        // In turn: who submits without end is not always the first.
        auto at = by_groups_.upper_bound(looked_up_last_);
        auto next =
            by_groups_.extract(at == by_groups_.end() ? by_groups_.begin() : at);
        looked_up_last_ = next.key();
        auto account = co_await lookups_.of(next.key(), end_);
        if (end_ && end_->reason())
            break; // which is why it could not be told
        if (!account.groups) {
            unknown_.merge(next.mapped());
            if (!std::exchange(waiting_, true))
                loop_.spawn(judge_unknown());
            continue;
        }
        auto groups = [&](uid_t) { return account.groups; };
        for (auto id : next.mapped())
            if (auto found = jobs_.find(id); found != jobs_.end()
                                             && !found->second.judged
                                             && !may_stay(found->second, groups))
                evict(id, found->second);
    }
    looking_up_--;
}

// Their jobs stay until it can be told.
flux::Task<void> Evictor::judge_unknown()
{
    (void)co_await loop_.sleep(tell_pause_, end_);
    waiting_ = false;
    if (dat_.lost() || (end_ && end_->reason()))
        co_return;
    for (auto id : std::exchange(unknown_, {}))
        if (auto found = jobs_.find(id); found != jobs_.end())
            judge(id, found->second);
}

flux::Task<void> Evictor::cancel(flux::JobId id, uid_t user)
{
    // A number: nobody's job goes on since a directory server does not say a name.
    auto note =
        fmt::format("user {} is not on the guest list of the DAT \"{}\"", user, name_);
    auto raised = co_await flux::raise(dat_, id, "cancel", flux::severity_fatal, note);
    if (raised && on_cancel)
        on_cancel(id, user);
    if (raised || raised.error().errnum == ENOENT || raised.error().errnum == EINVAL)
        co_return; // done, or it has ended meanwhile
    if (auto job = jobs_.find(id); job != jobs_.end())
        job->second.judged = false; // the next list, or its next event, tries again
    complain(fmt::format("cannot cancel the job {} of user {}: {}",
                         flux::format_jobid(id), user, raised.error().message));
}

} // namespace fluxdat::dat
