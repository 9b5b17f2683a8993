// SPDX-License-Identifier: LGPL-3.0-or-later
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
    reviewed.report->final = false;
    CHECK(missing_from(reviewed).find("gone before its end") != std::string::npos);
    job.state = flux::job_state_run;
    CHECK(missing_from(reviewed).empty());
    reviewed.report.reset();
    CHECK(missing_from(reviewed) == "it has no report yet");
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
