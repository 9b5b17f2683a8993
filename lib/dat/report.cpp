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
    return {{"version", report_version},
            {"as_of", report.as_of},
            {"final", report.final},
            {"users", std::move(users)},
            {"others", std::move(others)}};
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
    double margin = overlap / real_seconds(1);
    Json over{{"states", {"inactive"}}};
    if (counted_until_ > margin) {
        auto since = fmt::format(">={:.6f}", counted_until_ - margin);
        over = {{"and", Json::array({over, {{"t_inactive", Json::array({since})}}})}};
    }
    auto ended = ended_;
    auto recent = recent_;
    double until = counted_until_;
    listed = co_await for_each_job(
        dat, std::move(over), used_attributes(),
        [&](const Json& job) {
            auto id = flux::integer_at<flux::JobId>(job, "id");
            double when = flux::number_at(job, "t_inactive");
            running.erase(id);
            if (recent_.contains(id))
                return;
            until = std::max(until, when);
            if (when >= until - margin) // not all that there have ever been
                recent.emplace(id, when);
            auto used = usage_of(job, when);
            ended[used.userid] += used.usage;
        },
        interrupt);
    if (!listed)
        co_return listed;
    std::erase_if(recent,
                  [&](const auto& entry) { return entry.second < until - margin; });
    ended_ = std::move(ended);
    recent_ = std::move(recent);
    counted_until_ = until;
    running_.clear();
    for (auto& [id, used] : running)
        running_[used.userid] += used.usage;
    co_return Result<>{};
}

Report Tally::report(double as_of, bool final) const
{
    auto sums = ended_;
    for (auto& [userid, usage] : running_)
        sums[userid] += usage;
    Report out;
    out.as_of = as_of;
    out.final = final;
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
