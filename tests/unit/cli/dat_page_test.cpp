// SPDX-License-Identifier: LGPL-3.0-or-later
// cli/dat_page.h
#include "cli/dat_page.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fmt/format.h>

using namespace fluxdat;
using namespace fluxdat::cli;
using dat::Json;

namespace {

Details demo()
{
    setenv("TZ", "UTC", 1);
    tzset();
    Details details;
    auto& job = details.dat.job;
    job.id = 11383743709184;
    job.userid = 4000000001;
    job.state = flux::job_state_run;
    job.nnodes = 3;
    job.nodelist = "fluke[131-133]";
    job.t_run = 6 * 3600;
    job.expiration = 10 * 3600;
    job.annotations = {
        {"user", {{"uri", "ssh://fluke131/run/flux/dat-f6A2qT64o.0/local"}}}};
    auto& record = details.dat.record;
    record.name = "demo";
    record.state = dat::State::ready;
    record.ranks_up = 2;
    record.guests.users = {4000000002, 4000000003};
    record.guests.generation = record.applied = 1;
    details.viewer = 4000000001;
    auto rank = [](int number, bool up, const char* host) {
        return Json{{"rank", number},         {"host", host},
                    {"door", "/x"},           {"up", up},
                    {"wrong", Json::array()}, {"applied", 1},
                    {"reason", ""},           {"warnings", Json::array()}};
    };
    details.supervisor = {
        {"ranks",
         {rank(0, true, "fluke131"), rank(1, true, "fluke132"),
          rank(2, false, "fluke133")}},
        {"jobs", {{"pending", 3}, {"running", 12}, {"done", 118}, {"failed", 2}}},
        {"imp", {{"path", "/imp"}, {"asks_guest_list", true}}}};
    return details;
}

std::string text_of(const std::vector<std::string>& lines)
{
    return fmt::format("{}\n", fmt::join(lines, "\n"));
}

constexpr double now = 8 * 3600;

} // namespace

TEST_CASE("page: what is looked for at a glance", "[page]")
{
    Screen screen;
    screen.columns = 64;
    CHECK(text_of(detail_page(demo(), now, screen))
          == "dat      demo (ƒ6A2qT64o) of 4000000001\n"
             "state    ready (2/3 ranks up)\n"
             "window   06:00 ━━━━━━━━━━━━━━━━━━━━━●────────────────────┤ 10:00\n"
             "left     2h00m of 4h00m\n"
             "next     end 10:00 (in 2h00m)\n"
             "nodes    2 up fluke[131-132]\n"
             "         1 down fluke133\n"
             "jobs     3 pending, 12 running, 118 done, 2 failed\n"
             "guests   4000000002, 4000000003\n"
             "doors    right\n"
             "uri      ssh://fluke131/run/flux/dat-f6A2qT64o.0/local\n");
}

TEST_CASE("page: no line is longer than the screen, however narrow", "[page]")
{
    auto details = demo();
    details.dat.record.name = "日本\x1b[2J\u202e\n";
    details.dat.record.managers = {4000000009};
    details.viewer = 4000000002;
    details.supervisor["ranks"][1]["wrong"] = {"its ACL lets in \x1b[31muser 7"};
    details.supervisor["imp"]["asks_guest_list"] = false;
    Screen screen;
    for (screen.columns = 12; screen.columns < 100; screen.columns++)
        for (auto& line : detail_page(details, now, screen)) {
            CHECK(columns_of(line) <= screen.columns);
            CHECK(line.find('\x1b') == line.npos);
        }
    screen.columns = 20;
    auto text = text_of(detail_page(details, now, screen));
    CHECK(text.find("nodes    2 up fluke…") != text.npos);
}

TEST_CASE("page: a supervisor may say anything, or nothing", "[page]")
{
    auto details = demo();
    for (Json said : {Json(nullptr), Json("x"), Json::array({1}), Json{{"ranks", 3}},
                      Json{{"ranks", {1, "x", nullptr}}, {"jobs", "none"}, {"imp", 1}},
                      Json{{"guests", {{"users", {1, {{"id", "x"}}}}}}}}) {
        details.supervisor = said;
        CHECK_FALSE(detail_page(details, now, Screen{}).empty());
        CHECK_FALSE(detail_rows(details, now).empty());
    }
    details.supervisor = nullptr;
    auto text = text_of(detail_page(details, now, Screen{}));
    CHECK(text.find("nodes    3 (1 down) fluke[131-133]\n") != text.npos);
}

TEST_CASE("page: that jobs of the revoked go on is told", "[page]")
{
    auto details = demo();
    constexpr auto says = "jobs of those revoked are not cancelled: the journal ended";
    CHECK(text_of(detail_page(details, now, Screen{})).find(says) == std::string::npos);
    details.supervisor["evictor_fault"] = "the journal ended";
    CHECK(text_of(detail_page(details, now, Screen{})).find(says) != std::string::npos);
    CHECK(text_of(detail_rows(details, now)).find(says) != std::string::npos);
}

TEST_CASE("page: a DAT that waits for its begin time says until when", "[page]")
{
    auto details = demo();
    auto& job = details.dat.job;
    job.state = flux::job_state_depend;
    job.t_run = job.expiration = 0;
    job.duration = 7200;
    job.dependencies = {"begin-time=36000.0"};
    details.supervisor = nullptr;
    auto rows = text_of(detail_rows(details, now));
    CHECK(rows.find("state     pending (in 2h00m)\n") != rows.npos);
    CHECK(rows.find("window    not before 1970-01-01 10:00:00 UTC; 2h00m\n")
          != rows.npos);
}

TEST_CASE("page: rows for a pipe name each rank", "[page]")
{
    auto rows = text_of(detail_rows(demo(), now));
    CHECK(rows.find("rank 0    fluke131 up: door right\n") != rows.npos);
    CHECK(rows.find("rank 2    fluke133 down: door right\n") != rows.npos);
    CHECK(rows.find("jobs      3 pending, 12 running, 118 done, 2 failed\n")
          != rows.npos);
}
