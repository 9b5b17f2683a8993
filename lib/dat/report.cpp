// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/report.h"

#include "lib/clock.h"
#include "lib/dat/audit.h"
#include "lib/dat/jobs.h"

#include <algorithm>
#include <cmath>

namespace fluxdat::dat {

namespace {

constexpr int report_version = 1;
constexpr double hour = 3600; // seconds between two reports before the end
// How long the last one may take: whoever ends the job from outside kills its processes
// after five seconds.
constexpr double finish_time_max = 3; // real seconds
// job-list learns of a job's end a little later, and not in the order of t_inactive: so
// much is asked for again.
constexpr double overlap = 60; // real seconds

// RFC 43: result bits of job-list.
enum JobResult : unsigned { completed = 1, failed = 2, canceled = 4, timeout = 8 };

std::unexpected<Error> bad_member(const char* key)
{
    return std::unexpected(Error{
        fmt::format("the DAT's report: \"{}\" is not as it should be", key), EPROTO});
}

bool read_usage(const Json& json, Usage& usage)
{
    if (!json.is_object())
        return false;
    for (auto [key, value] : {std::pair("jobs", &usage.jobs),
                              {"failed", &usage.failed},
                              {"canceled", &usage.canceled},
                              {"timeout", &usage.timeout}}) {
        auto found = json.find(key);
        if (found == json.end() || !found->is_number_unsigned())
            return false;
        *value = found->get<std::uint64_t>();
    }
    for (auto [key, value] : {std::pair("node_seconds", &usage.node_seconds),
                              {"core_seconds", &usage.core_seconds}}) {
        auto found = json.find(key);
        if (found == json.end() || !found->is_number() || found->get<double>() < 0)
            return false;
        *value = found->get<double>();
    }
    return true;
}

// How many jobs have ended, as job-list has counted them; and how many of these it has
// forgotten since (the job manager's inactive-age-limit or inactive-num-limit).
struct Endings {
    std::uint64_t all = 0, forgotten = 0;
};
flux::Task<Result<Endings>> count_ended(flux::Connection& dat,
                                        flux::Interrupt* interrupt)
{
    auto answer = co_await dat.rpc("job-list.job-stats", Json::object(),
                                   flux::nodeid_any, interrupt);
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    if (!answer->is_object() || !answer->contains("job_states"))
        co_return std::unexpected(
            Error{"job-list.job-stats: the answer lacks \"job_states\"", EPROTO});
    Endings endings;
    endings.forgotten = flux::integer_at<std::uint64_t>(*answer, "inactive_purged");
    endings.all =
        endings.forgotten
        + flux::integer_at<std::uint64_t>((*answer)["job_states"], "inactive");
    co_return endings;
}

// What usage_of() reads.
Json used_attributes()
{
    return {"userid", "state", "t_run", "t_inactive", "nnodes", "ncores", "result"};
}

} // namespace

Usage& Usage::operator+=(const Usage& more)
{
    jobs += more.jobs;
    failed += more.failed;
    canceled += more.canceled;
    timeout += more.timeout;
    node_seconds += more.node_seconds;
    core_seconds += more.core_seconds;
    return *this;
}

Usage Report::total() const
{
    Usage sum = others;
    for (auto& [userid, usage] : users)
        sum += usage;
    return sum;
}

Json to_json(const Usage& usage)
{
    // Whole seconds: the rest is noise, and takes a third of the room.
    return {{"jobs", usage.jobs},
            {"failed", usage.failed},
            {"canceled", usage.canceled},
            {"timeout", usage.timeout},
            {"node_seconds", std::llround(usage.node_seconds)},
            {"core_seconds", std::llround(usage.core_seconds)}};
}

Json to_json(const Report& report)
{
    Json users = Json::array();
    for (auto& [userid, usage] : report.users) {
        users.push_back(to_json(usage));
        users.back()["userid"] = userid;
    }
    Json others = to_json(report.others);
    others["users"] = report.other_users;
    return {{"version", report_version}, {"as_of", report.as_of},
            {"final", report.final},     {"complete", report.complete},
            {"users", std::move(users)}, {"others", std::move(others)}};
}

Result<Report> report_from_json(const Json& json)
{
    if (!json.is_object())
        return fail("the DAT's report is no JSON object");
    auto version = json.find("version");
    if (version == json.end() || *version != report_version)
        return fail("the DAT's report is not of version {}: it was written by another "
                    "version of flux-dat",
                    report_version);
    Report report;
    report.as_of = flux::number_at(json, "as_of");
    auto final = json.find("final");
    if (final == json.end() || !final->is_boolean())
        return bad_member("final");
    report.final = final->get<bool>();
    if (auto complete = json.find("complete"); complete != json.end()) {
        if (!complete->is_boolean())
            return bad_member("complete");
        report.complete = complete->get<bool>();
    }
    auto users = json.find("users");
    if (users == json.end() || !users->is_array() || users->size() > report_users_max)
        return bad_member("users");
    for (auto& entry : *users) {
        Usage usage;
        if (!read_usage(entry, usage) || !entry.contains("userid")
            || !entry["userid"].is_number_unsigned())
            return bad_member("users");
        report.users.emplace_back(entry["userid"].get<std::uint32_t>(), usage);
    }
    auto others = json.find("others");
    if (others == json.end() || !read_usage(*others, report.others))
        return bad_member("others");
    report.other_users = flux::integer_at<std::uint64_t>(*others, "users");
    return report;
}

std::optional<Report> report_of(const flux::JobInfo& job)
{
    static const Json::json_pointer path(std::string("/user/") + report_key);
    if (!job.annotations.is_object() || !job.annotations.contains(path))
        return {};
    auto report = report_from_json(job.annotations[path]);
    return report ? std::optional(std::move(*report)) : std::nullopt;
}

UsedBy usage_of(const Json& job, double until)
{
    UsedBy out;
    out.userid = flux::integer_at<std::uint32_t>(job, "userid", flux::userid_unknown);
    out.usage.jobs = 1;
    bool over = flux::integer_at<unsigned>(job, "state") == flux::job_state_inactive;
    auto result = over ? flux::integer_at<unsigned>(job, "result") : 0u;
    out.usage.failed = (result & JobResult::failed) != 0;
    out.usage.canceled = (result & JobResult::canceled) != 0;
    out.usage.timeout = (result & JobResult::timeout) != 0;
    double begin = flux::number_at(job, "t_run");
    if (begin <= 0)
        return out; // it never ran
    double end = over ? flux::number_at(job, "t_inactive") : until;
    double seconds = std::max(0.0, end - begin);
    out.usage.node_seconds = seconds * flux::integer_at<std::uint32_t>(job, "nnodes");
    out.usage.core_seconds = seconds * flux::integer_at<std::uint32_t>(job, "ncores");
    return out;
}

flux::Task<Result<>> Tally::update(flux::Connection& dat, flux::Interrupt* interrupt)
{
    // The running ones first: one that ends in between is then counted with those that
    // have ended, and taken off here.
    std::map<flux::JobId, UsedBy> running;
    double now = wall_clock();
    Json active{{"states", {"running"}}};
    auto listed = co_await for_each_job(
        dat, std::move(active), used_attributes(),
        [&](const Json& job) {
            running[flux::integer_at<flux::JobId>(job, "id")] = usage_of(job, now);
        },
        interrupt);
    if (!listed)
        co_return listed;
    // All that have ended by `before` are listed after it, and no more than by `after`.
    auto before = co_await count_ended(dat, interrupt);
    auto ended = ended_;
    bool anew = now < ended.until - overlap / real_seconds(1); // the clock was set back
    if (anew)
        ended = {};
    listed = co_await count(dat, ended, running, interrupt);
    if (!listed)
        co_return listed;
    auto after = co_await count_ended(dat, interrupt);
    auto fits = [&](const Ended& these) {
        return !before || !after
               || (these.jobs >= before->all && these.jobs <= after->all);
    };
    // What was forgotten would be missing then.
    if (!fits(ended) && !anew && after->forgotten == 0) {
        Ended all;
        listed = co_await count(dat, all, running, interrupt);
        if (!listed)
            co_return listed;
        after = co_await count_ended(dat, interrupt);
        if (fits(all) || all.jobs > ended.jobs)
            ended = std::move(all);
    }
    complete_ = fits(ended);
    ended_ = std::move(ended);
    running_.clear();
    for (auto& [id, used] : running)
        running_[used.userid] += used.usage;
    co_return Result<>{};
}

// Those that have ended since `ended` was counted, and takes them off the running ones.
flux::Task<Result<>> Tally::count(flux::Connection& dat, Ended& ended,
                                  std::map<flux::JobId, UsedBy>& running,
                                  flux::Interrupt* interrupt)
{
    const double now = wall_clock(), margin = overlap / real_seconds(1);
    Json over{{"states", {"inactive"}}};
    if (ended.until > margin) {
        auto since = fmt::format(">={:.6f}", ended.until - margin);
        over = {{"and", Json::array({over, {{"t_inactive", Json::array({since})}}})}};
    }
    auto listed = co_await for_each_job(
        dat, std::move(over), used_attributes(),
        [&](const Json& job) {
            auto id = flux::integer_at<flux::JobId>(job, "id");
            double when = flux::number_at(job, "t_inactive");
            running.erase(id);
            if (ended.recent.contains(id))
                return;
            // What a clock that was ahead has put into the future must not hide what
            // comes before it.
            ended.until = std::max(ended.until, std::min(when, now));
            if (when >= ended.until - margin) // not all that there have ever been
                ended.recent.emplace(id, when);
            auto used = usage_of(job, when);
            ended.usage[used.userid] += used.usage;
            ended.jobs++;
        },
        interrupt);
    if (!listed)
        co_return listed;
    std::erase_if(ended.recent, [&](const auto& entry) {
        return entry.second < ended.until - margin;
    });
    co_return Result<>{};
}

Report Tally::report(double as_of, bool final) const
{
    auto sums = ended_.usage;
    for (auto& [userid, usage] : running_)
        sums[userid] += usage;
    Report out;
    out.as_of = as_of;
    out.final = final;
    out.complete = complete_;
    out.users.assign(sums.begin(), sums.end());
    std::stable_sort(out.users.begin(), out.users.end(), [](auto& a, auto& b) {
        return a.second.node_seconds > b.second.node_seconds;
    });
    for (std::size_t i = report_users_max; i < out.users.size(); i++) {
        out.others += out.users[i].second;
        out.other_users++;
    }
    if (out.users.size() > report_users_max)
        out.users.resize(report_users_max);
    return out;
}

flux::Task<Result<>> Reporter::post(bool final, flux::Interrupt* interrupt)
{
    auto updated = co_await tally_.update(*links_.dat, interrupt);
    if (!updated)
        co_return fail("the report: the DAT's jobs: {}", updated.error().message);
    auto report = to_json(tally_.report(wall_clock(), final));
    auto content = report;
    content.erase("as_of");
    bool unused = posted_.is_null() && content["users"].empty();
    if (content == posted_ || (unused && !final) || !links_.parent)
        co_return Result<>{};
    Json memo{{"id", links_.id}, {"memo", {{report_key, std::move(report)}}}};
    auto posted = co_await links_.parent->rpc("job-manager.memo", std::move(memo),
                                              flux::nodeid_any, interrupt);
    if (!posted)
        co_return fail("the report: its memo on the DAT's job: {}",
                       posted.error().message);
    posted_ = std::move(content);
    co_return Result<>{};
}

flux::Task<void> Reporter::hourly()
{
    while (true) {
        auto slept = co_await links_.loop.sleep_until(wall_clock() + hour, &links_.end);
        if (!slept || links_.lost_dat)
            co_return;
        if (auto posted = co_await post(false, &links_.end);
            !posted && !links_.end.reason())
            complain(posted.error().message);
    }
}

flux::Task<void> Reporter::finish()
{
    // A broker that is stopped does not answer.
    flux::Interrupt limit;
    flux::InterruptSources timer(links_.loop, limit, finish_time_max,
                                 Error{"no answer in time", ETIMEDOUT},
                                 flux::InterruptSources::Signals::ignore);
    if (auto posted = co_await post(true, &limit); !posted)
        complain(posted.error().message);
}

} // namespace fluxdat::dat
