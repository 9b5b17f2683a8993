// SPDX-License-Identifier: LGPL-3.0-or-later
// cli/dat_fields.h
#include "cli/dat_fields.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::cli;

namespace {

dat::Dat demo()
{
    dat::Dat dat;
    dat.job.id = 11383743709184;
    dat.job.userid = 4000000001; // without an account
    dat.job.state = flux::job_state_run;
    dat.job.nnodes = 2;
    dat.job.nodelist = "fluke[131-132]";
    dat.job.t_run = 1000;
    dat.job.expiration = 4600;
    dat.record.name = "demo";
    dat.record.state = dat::State::ready;
    dat.record.ranks_up = 2;
    dat.record.guests.users = {4000000002};
    return dat;
}

std::string field(const dat::Dat& dat, const std::string& name, double now = 1000)
{
    auto& names = dat_fields();
    for (std::size_t i = 0; i < names.size(); i++)
        if (names[i].name == name)
            return dat_field(dat, i, now).text;
    FAIL("no field " << name);
    return {};
}

} // namespace

TEST_CASE("fields: each has a value, and a line of help", "[fields]")
{
    auto dat = demo();
    for (std::size_t i = 0; i < dat_fields().size(); i++) {
        INFO(dat_fields()[i].name);
        CHECK_FALSE(dat_field(dat, i, 1000).text.find('\n') != std::string::npos);
        CHECK(std::string(dat_fields()[i].about).size() > 5);
    }
    CHECK(help_of_fields().size() == dat_fields().size() + 2);
    CHECK(field(dat, "id.dec") == "11383743709184");
    CHECK(field(dat, "owner") == "4000000001");
    CHECK(field(dat, "left") == "1h00m");
    CHECK(field(dat, "remaining") == "3600");
    CHECK(field(dat, "guests") == "1 user");
    CHECK(field(dat, "users") == "4000000002");
}

TEST_CASE("fields: the state tells of ranks lost and of a begin time", "[fields]")
{
    auto dat = demo();
    CHECK(state_in_short(dat, 0) == "ready");
    dat.record.ranks_up = 1;
    CHECK(state_in_short(dat, 0) == "ready (1/2 ranks up)");
    CHECK(hue_of_state(dat) == Hue::bad);
    dat.record.guests.generation = 2;
    CHECK(state_in_short(dat, 0) == "degraded (1/2 ranks up)");
    dat.job.state = flux::job_state_depend;
    dat.job.dependencies = {"begin-time=7300.000"};
    CHECK(state_in_short(dat, 100) == "pending (in 2h00m)");
    CHECK(field(dat, "begin_time") == "7300");
    dat.job.dependencies = {"begin-time=x", "after-start=1"};
    CHECK(state_in_short(dat, 100) == "pending");
}

TEST_CASE("fields: a table fits 80, 40 and 20 columns, and names are harmless",
          "[fields]")
{
    auto dat = demo();
    dat.record.name = "日本\x1b[2J\u202e";
    Screen screen;
    CHECK(dat_table({demo()}, 1000, false, screen)[0]
          == "demo  ƒ6A2qT64o  4000000001  ready  2  fluke[131-132]  1h00m  1 user");
    for (std::size_t columns : {80, 40, 20}) {
        screen.columns = columns;
        for (auto& line : dat_table({demo(), dat}, 1000, true, screen)) {
            CHECK(columns_of(line) <= columns);
            CHECK(line.find('\x1b') == line.npos);
        }
    }
    CHECK(dat_table({demo()}, 1000, false, screen)[0] == "demo  ready  1h00m");
}
