// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/evict.h"

#include "lib/dat/audit.h"
#include "lib/flux/services.h"
#include "lib/imp/user.h"

#include <algorithm>

namespace fluxdat::dat {

namespace {

// Seconds before another try to follow the jobs: the first, which doubles up to the
// second.
constexpr double retry_pause_min = 1, retry_pause_max = 60;
// The id, -1, of the answer between the jobs that were there and what happens next.
constexpr auto id_before_news = static_cast<flux::JobId>(-1);

} // namespace

std::optional<std::vector<gid_t>> groups_of(uid_t uid)
{
    auto user = imp::user_by_uid(uid);
    if (!user && user.error().errnum == ENOENT)
        return std::vector<gid_t>{};
    auto groups = user ? imp::groups_of(*user) : std::unexpected(user.error());
    return groups ? std::optional(std::move(*groups)) : std::nullopt;
}

std::string name_of(uid_t uid)
{
    auto user = imp::user_by_uid(uid);
    return user ? fmt::format("{} ({})", user->name, uid) : std::to_string(uid);
}

Evictor::Evictor(flux::Loop& loop, flux::Connection& dat, std::string name)
    : loop_(loop), dat_(dat), name_(std::move(name))
{
}

flux::Task<void> Evictor::follow(flux::Interrupt& end)
{
    double pause = retry_pause_min;
    while (true) {
        auto jobs_known = journal_jobs_;
        auto followed = co_await follow_journal();
        if (dat_.lost() || end.reason())
            co_return;
        complain("cannot follow the jobs of this DAT; those of revoked guests are not "
                 "cancelled until the next try: "
                 + (followed ? "the journal ended" : followed.error().message));
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
        if (auto found = jobs_.find(id); found != jobs_.end()) {
            judge(id, found->second);
            groups_.clear();
        }
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
    // A user may have very many jobs, and a directory server takes its time.
    groups_.clear();
    for (auto& [id, job] : jobs_)
        judge(id, job);
    groups_.clear();
}

void Evictor::judge(flux::JobId id, Job& job)
{
    auto groups = [this](uid_t uid) {
        auto [known, is_new] = groups_.try_emplace(uid);
        if (is_new)
            known->second = groups_of(uid);
        return known->second;
    };
    if (!has_list_ || job.judged || desired_.admits(job.user, groups))
        return;
    if (job.started && desired_.keeps(job.user, job.submitted, groups))
        return;
    job.judged = true;
    loop_.spawn(cancel(id, job.user));
}

flux::Task<void> Evictor::cancel(flux::JobId id, uid_t user)
{
    auto note = fmt::format("user {} is not on the guest list of the DAT \"{}\"",
                            name_of(user), name_);
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
