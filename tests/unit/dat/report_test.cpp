// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/clock.h"
#include "lib/dat/report.h"
#include "lib/dat/review.h"
#include "tests/unit/dat/fake_dat.h"

#include <catch2/catch.hpp>
#include <cstdio>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

Report some_report()
{
    Report report;
    report.as_of = 1760000000;
    report.final = true;
    report.users = {{1001, {3, 1, 0, 1, 7200, 28800}}, {1002, {1, 0, 1, 0, 60, 240}}};
    report.other_users = 2;
    report.others = {5, 0, 0, 0, 100, 400};
    return report;
}

Json inactive(unsigned result)
{
    return {{"id", 1},         {"userid", 1001},      {"state", 64},
            {"t_run", 1000.0}, {"t_cleanup", 1090.0}, {"t_inactive", 1100.0},
            {"nnodes", 2},     {"ncores", 8},         {"result", result}};
}

} // namespace

TEST_CASE("A report goes into a memo and comes out of it")
{
    auto report = some_report();
    auto read = report_from_json(to_json(report));
    REQUIRE(read);
    CHECK(read->as_of == report.as_of);
    CHECK(read->final);
    CHECK(read->complete);
    report.complete = false;
    CHECK_FALSE(report_from_json(to_json(report))->complete);
    CHECK(read->users == report.users);
    CHECK(read->other_users == 2);
    CHECK(read->others == report.others);
    CHECK(report.total() == Usage{9, 1, 1, 1, 7360, 29440});
}

TEST_CASE("Keys of the memo are identifiers, or flux-jobs stops at them")
{
    auto json = to_json(some_report());
    for (auto& [key, value] : json.items())
        CHECK(key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == key.npos);
}

TEST_CASE("What is no report is refused with the member")
{
    auto good = to_json(some_report());
    CHECK(report_from_json(Json::array()).error().message.find("no JSON object")
          != std::string::npos);
    for (auto [pointer, value, says] : {std::tuple("/version", Json(2), "version"),
                                        {"/final", Json("yes"), "final"},
                                        {"/complete", Json("yes"), "complete"},
                                        {"/users", Json("many"), "users"},
                                        {"/users/0", Json(7), "users"},
                                        {"/users/0/jobs", Json(-1), "users"},
                                        {"/users/0/node_seconds", Json(-1.5), "users"},
                                        {"/users/0/core_seconds", Json("1"), "users"},
                                        {"/users/0/userid", Json("alice"), "users"},
                                        {"/others", Json(nullptr), "others"}}) {
        auto bad = good;
        bad[Json::json_pointer(pointer)] = value;
        INFO(pointer);
        auto read = report_from_json(bad);
        REQUIRE_FALSE(read);
        CHECK(read.error().message.find(says) != std::string::npos);
    }
    auto many = good;
    many["users"] = Json(report_users_max + 1, good["users"][0]);
    CHECK_FALSE(report_from_json(many));
}

TEST_CASE("A job counts from its start to its end, by its nodes and cores")
{
    auto used = usage_of(inactive(1), 5000);
    CHECK(used.userid == 1001);
    CHECK(used.usage == Usage{1, 0, 0, 0, 200, 800});
    CHECK(usage_of(inactive(2), 0).usage.failed == 1);
    CHECK(usage_of(inactive(4), 0).usage.canceled == 1);
    CHECK(usage_of(inactive(8), 0).usage.timeout == 1);

    auto running = inactive(0);
    running["state"] = 16;
    running.erase("t_inactive");
    CHECK(usage_of(running, 1010).usage == Usage{1, 0, 0, 0, 20, 80});
    CHECK(usage_of(running, 900).usage.node_seconds == 0); // a clock that was set back

    auto never = inactive(4);
    never.erase("t_run");
    CHECK(usage_of(never, 5000).usage == Usage{1, 0, 1, 0, 0, 0});
    CHECK(usage_of(Json::object(), 0).usage.node_seconds == 0);
}

TEST_CASE("What is missing from a report is said")
{
    Reviewed reviewed;
    auto& job = reviewed.dat.job;
    job.state = flux::job_state_sched;
    CHECK(missing_from(reviewed) == "it has not begun");
    job.state = flux::job_state_inactive;
    CHECK(missing_from(reviewed) == "it never had its nodes");
    job.t_run = 1000;
    CHECK(missing_from(reviewed).find("left no report") != std::string::npos);
    reviewed.report = some_report();
    CHECK(missing_from(reviewed).empty());
    reviewed.report->complete = false;
    CHECK(missing_from(reviewed).find("missing from it") != std::string::npos);
    reviewed.report->final = false;
    CHECK(missing_from(reviewed).find("gone before its end") != std::string::npos);
    job.state = flux::job_state_run;
    reviewed.report->complete = true;
    CHECK(missing_from(reviewed).empty());
    reviewed.report.reset();
    CHECK(missing_from(reviewed) == "it has no report yet");
}

namespace {

// A job-list whose jobs ended at times that its clock gave.
struct JobList {
    std::map<int, double> ended; // t_inactive by id
    std::uint64_t forgotten = 0;
    std::atomic<int> lists = 0; // of those that have ended
    test::FakeDat fake;
    Tally tally;

    JobList()
    {
        fake.dat["job-list.list"] = [this](auto& client, auto& request) {
            std::string asked(request.payload_text());
            double since = 0;
            if (auto at = asked.find(">="); at != asked.npos)
                since = std::strtod(asked.c_str() + at + 2, nullptr);
            bool of_ended = asked.find("[\"inactive\"]") != asked.npos;
            lists += of_ended;
            for (auto [id, when] : ended) {
                if (!of_ended || when < since)
                    continue;
                auto job = inactive(1);
                job["id"] = id;
                job["t_inactive"] = when;
                job["t_run"] = when - 1;
                client.respond_json(request, Json{{"jobs", {job}}});
            }
            client.respond_error(request, ENODATA);
        };
        fake.dat["job-list.job-stats"] = [this](auto& client, auto& request) {
            client.respond_json(request,
                                Json{{"job_states", {{"inactive", ended.size()}}},
                                     {"inactive_purged", forgotten}});
        };
    }
    Report report()
    {
        flux::Loop loop;
        Links links(loop, false);
        auto flow = [&]() -> flux::Task<bool> {
            bool connected = co_await fake.connect(links);
            REQUIRE(connected);
            auto updated = co_await tally.update(*links.dat);
            REQUIRE(updated);
            co_return true;
        };
        loop.run(flow());
        return tally.report(0, false);
    }
};

} // namespace

TEST_CASE("Jobs are counted once, whatever the clock did")
{
    JobList jobs;
    const double now = wall_clock();
    jobs.ended = {{1, now - 9000},
                  {2, now + 3600}}; // it was ahead when the second ended
    CHECK(jobs.report().total().jobs == 2);
    CHECK(jobs.lists == 1);
    jobs.ended[3] = now; // and was put right
    CHECK(jobs.report().total().jobs == 3);
    CHECK(jobs.report().total().jobs == 3);
    CHECK(jobs.lists == 3);
    jobs.ended[4] = now - 7200; // it was set back, and put right again
    auto report = jobs.report();
    CHECK(report.total().jobs == 4);
    CHECK(report.total().node_seconds == 8);
    CHECK(report.complete);
    CHECK(jobs.lists == 5); // all anew
    CHECK(jobs.report().total().jobs == 4);
    CHECK(jobs.lists == 6);
}

TEST_CASE("A broker that does not answer any more holds up no last report")
{
    JobList jobs;
    std::atomic<bool> asked = false;
    jobs.fake.dat["job-list.job-stats"] = [&](auto&, auto&) { asked = true; };
    flux::Loop loop;
    Links links(loop, false);
    flux::Interrupt interrupt;
    auto flow = [&]() -> flux::Task<bool> {
        bool connected = co_await jobs.fake.connect(links);
        REQUIRE(connected);
        loop.spawn([](auto& the_loop, auto& was_asked,
                      auto& raised) -> flux::Task<void> {
            (void)co_await test::comes_true(the_loop, [&] { return was_asked.load(); });
            raised.raise({"no answer in time", ETIMEDOUT});
        }(loop, asked, interrupt));
        auto updated = co_await jobs.tally.update(*links.dat, &interrupt);
        CHECK_FALSE(updated);
        co_return true;
    };
    loop.run(flow());
}

TEST_CASE("That jobs were forgotten before they were counted is told")
{
    JobList jobs;
    const double now = wall_clock();
    jobs.ended = {{1, now - 10}, {2, now}};
    CHECK(jobs.report().complete);
    jobs.ended = {{2, now}};
    jobs.forgotten = 1; // it was counted before
    auto report = jobs.report();
    CHECK(report.total().jobs == 2);
    CHECK(report.complete);
    jobs.forgotten = 3; // as two others were not
    report = jobs.report();
    CHECK(report.total().jobs == 2);
    CHECK_FALSE(report.complete);
}

TEST_CASE("A memo that cannot be posted is complained of, and posted the next time")
{
    test::FakeDat fake;
    std::atomic<int> memos = 0;
    fake.parent["job-manager.memo"] = [&](auto& client, auto& request) {
        if (memos++ == 0)
            client.respond_error(request, EIO, "the disk is full");
        else
            client.respond(request, "");
    };
    flux::Loop loop;
    Links links(loop, false);
    Reporter reporter(links);
    auto* said = tmpfile();
    REQUIRE(said);
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    dup2(fileno(said), STDERR_FILENO);
    auto flow = [&]() -> flux::Task<bool> {
        bool connected = co_await fake.connect(links);
        for (int i = 0; i < 3; i++) // the third has nothing new
            co_await reporter.finish();
        co_return connected;
    };
    bool connected = loop.run(flow());
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(said);
    std::string text(4096, 0);
    text.resize(fread(text.data(), 1, text.size(), said));
    fclose(said);
    CHECK(connected);
    CHECK(memos == 2);
    CHECK(text
          == "flux-dat supervise: the report: its memo on the DAT's job: the disk is "
             "full\n");
}
