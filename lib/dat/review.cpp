// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/review.h"

#include "lib/dat/changes.h"

#include <algorithm>

namespace fluxdat::dat {

namespace {

// Eventlogs that are read at a time: anybody can give a job a record, and an eventlog
// of any size with it.
constexpr std::size_t eventlogs_at_once_max = 4;
// Bytes of it that its history may come of: some thousand changes.
constexpr std::size_t history_source_max = 1u << 20;

flux::Task<bool> read_jobspec(flux::Connection& parent, Reviewed& reviewed)
{
    auto text = co_await flux::lookup(parent, reviewed.dat.job.id, "jobspec");
    auto jobspec = text ? flux::parse_json(*text) : std::unexpected(text.error());
    if (jobspec)
        reviewed.asked = asked_in(*jobspec, reviewed.dat.job.t_submit);
    co_return jobspec.has_value();
}

// Of what the caller may not read, or is too large to be looked up, the job-list's
// part is left.
flux::Task<bool> read_more(flux::Connection& parent, Reviewed& reviewed)
{
    (void)co_await read_jobspec(parent, reviewed);
    auto log = co_await flux::lookup(parent, reviewed.dat.job.id, "eventlog");
    if (!log)
        co_return false;
    Ledger ledger;
    for_each_event(*log, [&](flux::Event event) {
        if (ledger.bytes_kept() <= history_source_max)
            ledger.take(std::move(event));
    });
    if (ledger.bytes_kept() <= history_source_max)
        reviewed.changes = history(ledger.events(), reviewed.dat.job.userid);
    co_return true;
}

} // namespace

WindowAsked asked_in(const Json& jobspec, double t_submit)
{
    auto part = [](const Json& json, const char* key) {
        return json.is_object() ? json.value(key, Json()) : Json();
    };
    auto attributes = part(jobspec, "attributes");
    auto system = part(attributes, "system");
    double duration = flux::number_at(system, "duration"), begin = 0;
    auto dependencies = part(system, "dependencies");
    for (auto& dependency : dependencies)
        if (flux::text_at(dependency, "scheme") == "begin-time")
            begin =
                flux::begin_time_in("begin-time=" + flux::text_at(dependency, "value"))
                    .value_or(0);
    auto window = part(part(part(attributes, "user"), "dat"), "window");
    if (window.is_number() && begin > 0)
        return {begin, window.get<double>()};
    return {std::max(begin, t_submit), duration};
}

std::string missing_from(const Reviewed& reviewed)
{
    auto& job = reviewed.dat.job;
    if (job.t_run <= 0)
        return job.active() ? "it has not begun" : "it never had its nodes";
    if (job.state == flux::job_state_inactive && !reviewed.report)
        return "its supervisor left no report; what its guests used is not known";
    if (job.state == flux::job_state_inactive && !reviewed.report->final)
        return "its supervisor was gone before its end; what was used after the "
               "report is not known";
    if (!reviewed.report)
        return "it has no report yet";
    if (!reviewed.report->complete)
        return "jobs that ended are missing from it: its Flux forgot them before they "
               "were counted, or its clock was set";
    return {};
}

flux::Task<Result<std::vector<Reviewed>>> review(flux::Connection& parent,
                                                 std::optional<std::string> selector,
                                                 double since, double now)
{
    Json active{{"states", {"pending", "running"}}};
    Json ended{{"t_inactive", Json::array({fmt::format(">={:.6f}", since)})}};
    Json constraint{{"or", Json::array({std::move(active), std::move(ended)})}};
    auto jobs =
        co_await flux::list_jobs(parent, std::move(constraint), flux::Ends::yes);
    if (!jobs)
        co_return std::unexpected(std::move(jobs.error()));
    auto id = selector ? flux::parse_jobid(*selector) : Result<flux::JobId>(0);
    std::vector<Reviewed> out;
    for (auto& job : *jobs) {
        auto dat = dat_of(std::move(job));
        if (!dat
            || (selector && dat->record.name != *selector
                && !(id && dat->job.id == *id)))
            continue;
        Reviewed reviewed{std::move(*dat), {}, 0, {}, {}, nullptr};
        auto& its = reviewed.dat.job;
        reviewed.asked = {its.t_submit, its.duration};
        reviewed.report = report_of(its);
        bool over = its.state == flux::job_state_inactive;
        if (its.t_run > 0)
            reviewed.got = std::max(0.0, (over ? its.t_inactive : now) - its.t_run);
        reviewed.missing = missing_from(reviewed);
        out.push_back(std::move(reviewed));
    }
    std::size_t next = 0;
    auto one_by_one = [&]() -> flux::Task<bool> {
        while (next < out.size())
            (void)co_await read_more(parent, out[next++]);
        co_return true;
    };
    std::vector<flux::Task<bool>> reading;
    for (std::size_t i = 0; i < std::min(out.size(), eventlogs_at_once_max); i++)
        reading.push_back(one_by_one());
    (void)co_await flux::when_all(std::move(reading));
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
        return a.asked.begin < b.asked.begin;
    });
    co_return out;
}

} // namespace fluxdat::dat
