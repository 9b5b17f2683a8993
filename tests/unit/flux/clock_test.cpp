// SPDX-License-Identifier: LGPL-3.0-or-later
//
// lib/clock.h, and waiting by it.
#include "lib/clock.h"
#include "lib/flux/loop.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace fluxdat;

namespace {

// The machine's clock again, whatever the test has set.
struct Restored {
    ~Restored() { (void)set_clock({}); }
};

} // namespace

TEST_CASE("without a setting it is the machine's clock")
{
    double before = machine_clock(), now = wall_clock();
    CHECK(before <= now);
    CHECK(now <= machine_clock());
    CHECK(real_seconds(5) == 5);
    CHECK(clock_setting().empty());
    CHECK(faster_clock(1).empty());
}

TEST_CASE("a faster clock runs on from now")
{
    Restored restored;
    double began = machine_clock();
    auto text = faster_clock(1000);
    double made = machine_clock();
    REQUIRE(set_clock(text));
    CHECK(clock_setting() == text);
    double before = machine_clock(), now = wall_clock(), after = machine_clock();
    CHECK(now >= made + (before - made) * 1000 - 1); // its origin has milliseconds
    CHECK(now <= began + (after - began) * 1000 + 1);
    CHECK(real_seconds(5000) == 5);
}

TEST_CASE("by a setting, all processes have the same clock")
{
    Restored restored;
    REQUIRE(set_clock("60@1000000000.5"));
    double before = machine_clock(), now = wall_clock(), after = machine_clock();
    CHECK(now >= 1000000000.5 + (before - 1000000000.5) * 60 - 1e-3);
    CHECK(now <= 1000000000.5 + (after - 1000000000.5) * 60 + 1e-3);
    REQUIRE(set_clock(""));
    CHECK(std::abs(wall_clock() - after) < 1e6);
}

TEST_CASE("what is no clock changes nothing")
{
    Restored restored;
    REQUIRE(set_clock("60@1000000000"));
    for (const char* text : {"60", "@", "60@", "@1", "0@1", "86401@1", "-1@1", "60@-1",
                             "60@inf", "60@nan", " 60@1", "60@1 ", "6.5@1"}) {
        auto set = set_clock(text);
        REQUIRE_FALSE(set);
        CHECK(set.error().exit == Exit::usage);
        CHECK(set.error().message.find("FLUX_DAT_SANDBOX_CLOCK") != std::string::npos);
        CHECK(clock_setting() == "60@1000000000");
    }
}

TEST_CASE("a wait for a point of time ends then, by that clock")
{
    Restored restored;
    flux::Loop loop;
    REQUIRE(set_clock(faster_clock(clock_speed_max)));
    double due = wall_clock() + 3600;
    REQUIRE(loop.run(loop.sleep_until(due)));
    CHECK(wall_clock() >= due);
    REQUIRE(loop.run(loop.sleep_until(1))); // long ago

    flux::Interrupt interrupt;
    interrupt.raise({"enough"});
    auto slept = loop.run(loop.sleep_until(wall_clock() + 1e9, &interrupt));
    REQUIRE_FALSE(slept);
    CHECK(slept.error().message == "enough");
}
