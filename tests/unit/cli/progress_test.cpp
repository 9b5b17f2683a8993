// SPDX-License-Identifier: LGPL-3.0-or-later
// cli/progress.h
#include "cli/progress.h"

#include <catch2/catch.hpp>

using namespace fluxdat::cli;

TEST_CASE("progress: phases with their time, the last one going on", "[progress]")
{
    Screen screen;
    std::vector<Phase> phases{{"pending", 0, ""}, {"alloc", 12.3, ""}};
    CHECK(phases_line("ƒA", phases, 12.4, screen) == "ƒA: pending 12s … alloc");
    phases.push_back({"booting", 12.5, ""});
    CHECK(phases_line("ƒA", phases, 15.6, screen)
          == "ƒA: pending 12s … alloc … booting 3s");
    phases.push_back({"ready", 16, ""});
    CHECK(phases_line("ƒA", phases, 99, screen)
          == "ƒA: pending 12s … alloc … booting 3s … ready");
    screen.utf8 = false;
    CHECK(phases_line("", phases, 99, screen)
          == "pending 12s ... alloc ... booting 3s ... ready");
}

TEST_CASE("progress: what it waits for is said of the present phase", "[progress]")
{
    std::vector<Phase> phases{{"pending", 0, "nodes"}};
    CHECK(phases_line("ƒA", phases, 61, Screen{}) == "ƒA: pending 1m01s (nodes)");
}

TEST_CASE("progress: the line fits, and what is over gives way", "[progress]")
{
    Screen screen;
    std::vector<Phase> phases{{"pending", 0, ""}, {"booting", 12, ""}};
    screen.columns = 20;
    CHECK(phases_line("ƒA", phases, 15, screen) == "ƒA: booting 3s");
    for (screen.columns = 1; screen.columns < 40; screen.columns++)
        CHECK(columns_of(phases_line("ƒA", phases, 15, screen)) < screen.columns);
}
