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

// Of an eventlog that the caller may not read, or that is too large to be looked up,
// the job-list's part is left.
flux::Task<bool> read_eventlog(flux::Connection& parent, Reviewed& reviewed)
{
    auto log = co_await flux::lookup(parent, reviewed.dat.job.id, "eventlog");
    if (!log)
        co_return false;
    Ledger ledger;
    bool begins = false;
    for_each_event(*log, [&](flux::Event event) {
        if (!begins && event.name == "dependency-add")
            if (auto begin =
                    flux::begin_time_in(flux::text_at(event.context, "description"))) {
                reviewed.begin_asked = *begin;
                begins = true;
            }
        if (ledger.bytes_kept() <= history_source_max)
            ledger.take(std::move(event));
    });
    if (ledger.bytes_kept() <= history_source_max)
        reviewed.changes = history(ledger.events(), reviewed.dat.job.userid);
    co_return true;
}

} // namespace

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
        Reviewed reviewed{std::move(*dat), 0, 0, {}, {}, nullptr};
        auto& its = reviewed.dat.job;
        reviewed.begin_asked = its.t_submit;
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
            (void)co_await read_eventlog(parent, out[next++]);
        co_return true;
    };
    std::vector<flux::Task<bool>> reading;
    for (std::size_t i = 0; i < std::min(out.size(), eventlogs_at_once_max); i++)
        reading.push_back(one_by_one());
    (void)co_await flux::when_all(std::move(reading));
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
        return a.begin_asked < b.begin_asked;
    });
    co_return out;
}

} // namespace fluxdat::dat
