// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/jobs.h"

#include <algorithm>

namespace fluxdat::dat {

flux::Task<Result<>> for_each_job(flux::Connection& dat, Json constraint,
                                  Json attributes,
                                  std::function<void(const Json& job)> each,
                                  flux::Interrupt* interrupt)
{
    Json payload{{"max_entries", 0},
                 {"attrs", std::move(attributes)},
                 {"constraint", std::move(constraint)}};
    auto answers = dat.stream("job-list.list", std::move(payload));
    while (true) {
        auto answer = co_await answers.next(interrupt);
        if (!answer)
            co_return std::unexpected(std::move(answer.error()));
        if (!*answer)
            co_return Result<>{};
        auto& json = **answer;
        if (!json.is_object() || !json.contains("jobs") || !json["jobs"].is_array())
            co_return std::unexpected(
                Error{"job-list.list: an answer without jobs", EPROTO});
        for (auto& job : json["jobs"])
            each(job);
    }
}

flux::Task<Result<std::vector<flux::JobId>>>
jobs_in(flux::Connection& dat, std::string state, flux::Interrupt* interrupt)
{
    std::vector<flux::JobId> jobs;
    Json constraint{{"states", Json::array({std::move(state)})}};
    Json attributes = Json::array(); // the id comes anyway
    auto listed = co_await for_each_job(
        dat, std::move(constraint), std::move(attributes),
        [&](const Json& job) {
            jobs.push_back(flux::integer_at<flux::JobId>(job, "id"));
        },
        interrupt);
    if (!listed)
        co_return std::unexpected(std::move(listed.error()));
    co_return jobs;
}

flux::Task<void> to_all(std::vector<flux::JobId> jobs,
                        std::function<flux::Task<Result<>>(flux::JobId)> act,
                        flux::Interrupt* interrupt)
{
    std::size_t next = 0;
    auto one_by_one = [&]() -> flux::Task<bool> {
        while (next < jobs.size() && !(interrupt && interrupt->reason()))
            (void)co_await act(jobs[next++]);
        co_return true;
    };
    std::vector<flux::Task<bool>> lanes;
    for (std::size_t i = 0; i < std::min(jobs.size(), jobs_at_once_max); i++)
        lanes.push_back(one_by_one());
    (void)co_await flux::when_all(std::move(lanes));
}

} // namespace fluxdat::dat
