// SPDX-License-Identifier: LGPL-3.0-or-later
// The jobs of a DAT that has more of them than one message holds.
#include "lib/dat/jobs.h"
#include "lib/dat/report.h"
#include "tests/unit/flux/fake_broker.h"

#include <atomic>
#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::dat;
using fluxdat::test::FakeBroker;

namespace {

constexpr flux::JobId many = 1000;

// A job-list that has too many jobs for one answer: jobs 1 to `many`, of user 1000 plus
// their id modulo 2, that each ran for ten seconds on one node; none runs.
void list_too_many(FakeBroker::Client& client, const flux::Message& request)
{
    if (*request.topic == "job-list.job-stats")
        return client.respond_json(
            request, Json{{"job_states", {{"inactive", std::uint64_t(many)}}}});
    if (!request.streaming())
        return client.send_too_much();
    auto payload = *flux::parse_json(request.payload_text());
    CHECK(payload["max_entries"] == 0);
    bool ended = payload["constraint"].dump().find("inactive") != std::string::npos;
    for (flux::JobId id = 1; ended && id <= many; id++)
        client.respond_json(request,
                            Json{{"jobs", Json::array({{{"id", id},
                                                        {"userid", 1000 + id % 2},
                                                        {"state", 64},
                                                        {"t_run", 1000.0},
                                                        {"t_inactive", 1010.0},
                                                        {"nnodes", 1},
                                                        {"ncores", 4},
                                                        {"result", 1}}})}});
    client.respond_error(request, ENODATA);
}

// Runs a task with a connection to such a broker.
template <class Run>
auto with(std::function<void(FakeBroker::Client&, const flux::Message&)> answer,
          Run run)
{
    auto broker = FakeBroker::answering(std::move(answer));
    flux::Loop loop;
    auto flow = [&]() -> decltype(run(std::declval<flux::Connection&>())) {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        co_return co_await run(**dat);
    };
    return loop.run(flow());
}

} // namespace

TEST_CASE("Jobs are listed one a message")
{
    auto jobs = with(list_too_many,
                     [](flux::Connection& dat) { return jobs_in(dat, "inactive"); });
    REQUIRE(jobs);
    REQUIRE(jobs->size() == many);
    CHECK(jobs->front() == 1);
    CHECK(jobs->back() == many);
}

TEST_CASE("Why jobs cannot be listed")
{
    auto refused =
        with([](auto& client,
                auto& request) { client.respond_error(request, EPERM, "not for you"); },
             [](flux::Connection& dat) { return jobs_in(dat, "running"); });
    REQUIRE(!refused);
    CHECK(refused.error().message == "not for you");
    auto strange =
        with([](auto& client, auto& request) { client.respond(request, "{}"); },
             [](flux::Connection& dat) { return jobs_in(dat, "running"); });
    REQUIRE(!strange);
    CHECK(strange.error().message == "job-list.list: an answer without jobs");
}

TEST_CASE("What jobs used is summed up however many there are, and each counts once")
{
    auto sum = with(list_too_many, [](flux::Connection& dat) -> flux::Task<Report> {
        Tally tally;
        for (int i = 0; i < 2; i++) {
            auto updated = co_await tally.update(dat);
            CHECK(updated);
        }
        co_return tally.report(2000, true);
    });
    REQUIRE(sum.users.size() == 2);
    CHECK(sum.total() == Usage{many, 0, 0, 0, 10.0 * many, 40.0 * many});
}

TEST_CASE("Something is done to all, some at a time")
{
    flux::Loop loop;
    std::vector<flux::JobId> jobs(many), done;
    for (flux::JobId id = 0; id < many; id++)
        jobs[id] = id + 1;
    std::size_t under_way = 0, most = 0;
    flux::Interrupt enough;
    auto act = [&](flux::JobId id) -> flux::Task<Result<>> {
        most = std::max(most, ++under_way);
        (void)co_await loop.sleep(0);
        under_way--;
        done.push_back(id);
        if (id == 500)
            enough.raise({"enough"});
        co_return fail("nobody minds");
    };
    auto all = [&](flux::Interrupt* interrupt) -> flux::Task<bool> {
        co_await to_all(jobs, act, interrupt);
        co_return true;
    };
    loop.run(all(nullptr));
    std::sort(done.begin(), done.end());
    CHECK(done == jobs);
    CHECK(most == jobs_at_once_max);

    done.clear();
    enough.clear();
    loop.run(all(&enough));
    CHECK(done.size() >= 500);
    CHECK(done.size() < 500 + jobs_at_once_max);
    CHECK(under_way == 0);
}
