// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/find.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

Dat make(flux::JobId id, const char* name, unsigned job_state = flux::job_state_run,
         State state = State::ready)
{
    Dat dat;
    dat.job.id = id;
    dat.job.state = job_state;
    dat.record.name = name;
    dat.record.state = state;
    return dat;
}

constexpr uid_t stranger = 12345;

} // namespace

TEST_CASE("Without a selector it is the only one")
{
    CHECK(select_dat({}, {}, stranger).error().exit == Exit::no_such_dat);
    CHECK(select_dat({make(1, "a")}, {}, stranger)->job.id == 1);
    auto several = select_dat({make(1, "a"), make(2, "b")}, {}, stranger);
    REQUIRE(!several);
    CHECK(several.error().exit == Exit::several_match);
    CHECK_THAT(several.error().message,
               Catch::Contains("a (ƒ2)") && Catch::Contains("b (ƒ3)"));
}

TEST_CASE("By name or by job id")
{
    std::vector<Dat> dats{make(1000, "a"), make(2000, "b"), make(3000, "a")};
    CHECK(select_dat(dats, "b", stranger)->job.id == 2000);
    CHECK(select_dat(dats, "1000", stranger)->job.id == 1000);
    CHECK(select_dat(dats, flux::format_jobid(3000), stranger)->job.id == 3000);
    CHECK(select_dat(dats, flux::format_jobid_ascii(3000), stranger)->job.id == 3000);
    CHECK(select_dat(dats, "a", stranger).error().exit == Exit::several_match);
    auto none = select_dat(dats, "c", stranger);
    REQUIRE(!none);
    CHECK(none.error().exit == Exit::no_such_dat);
    CHECK_THAT(none.error().message, Catch::Contains("a (") && Catch::Contains("b ("));
    CHECK(select_dat({}, "c", stranger).error().exit == Exit::no_such_dat);
}

TEST_CASE("A name that reads as another's job id is ambiguous, not a trap")
{
    std::vector<Dat> dats{make(1000, "a"),
                          make(2000, flux::format_jobid_ascii(1000).c_str())};
    CHECK(select_dat(dats, flux::format_jobid_ascii(1000), stranger).error().exit
          == Exit::several_match);
}

TEST_CASE("Only jobs that carry a record are DATs")
{
    flux::JobInfo job;
    job.id = 7;
    CHECK(!dat_of(job));
    job.annotations = {{"user", {{"uri", "ssh://h/p"}}}};
    CHECK(!dat_of(job));
    job.annotations["user"]["dat"] = "mine";
    CHECK(!dat_of(job));
    Record record;
    record.name = "demo";
    job.annotations["user"]["dat"] = to_json(record);
    REQUIRE(dat_of(job));
    CHECK(dat_of(job)->uri() == "ssh://h/p");
}

TEST_CASE("Phases as people see them")
{
    using enum flux::JobState;
    CHECK(make(1, "a", job_state_sched, State::submitted).phase() == "pending");
    CHECK(make(1, "a", job_state_run, State::submitted).phase() == "starting");
    CHECK(make(1, "a", job_state_run, State::ready).phase() == "ready");
    CHECK(make(1, "a", job_state_run, State::stopping).phase() == "stopping");
    CHECK(make(1, "a", job_state_cleanup, State::ready).phase() == "stopping");
    CHECK(make(1, "a", job_state_inactive, State::ready).phase() == "ended");
}

TEST_CASE("Among several, one of the caller's own is meant")
{
    auto mine = make(1000, "demo");
    mine.job.userid = 7;
    auto forged = make(2000, "demo");
    forged.job.userid = 8;
    std::vector<Dat> dats{mine, forged};
    CHECK(select_dat(dats, "demo", 7)->job.id == 1000);
    CHECK(select_dat(dats, {}, 8)->job.id == 2000);
    CHECK(select_dat(dats, "demo", 9).error().exit == Exit::several_match);
}

TEST_CASE("Names that differ in case only")
{
    CHECK(same_but_for_case("lab", "Lab"));
    CHECK(same_but_for_case("A-1.b", "a-1.B"));
    CHECK_FALSE(same_but_for_case("lab", "lab"));
    CHECK_FALSE(same_but_for_case("lab", "labs"));
    CHECK_FALSE(same_but_for_case("lab", "lob"));
}
