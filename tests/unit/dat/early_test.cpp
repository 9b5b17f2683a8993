// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/early.h"

#include <catch2/catch.hpp>

using namespace fluxdat::dat;

TEST_CASE("A window is due from some time before its begin until its last minute")
{
    constexpr double begin = 1e9, hour = 3600;
    FixedWindow window{begin, 4 * hour, hour};
    CHECK(timeliness(window, begin - hour - 1) == Timeliness::early);
    CHECK(timeliness(window, begin - hour) == Timeliness::now);
    CHECK(timeliness(window, begin) == Timeliness::now);
    CHECK(timeliness(window, begin + 4 * hour - window_left_min) == Timeliness::now);
    CHECK(timeliness(window, begin + 4 * hour - window_left_min + 1)
          == Timeliness::over);
    CHECK(timeliness(window, begin + 4 * hour) == Timeliness::over);
    CHECK(timeliness(window, begin + 1000 * hour) == Timeliness::over);
}

TEST_CASE("What is submitted late ends when the window does")
{
    FixedWindow window{1000, 500, 100};
    CHECK(limit_from(window, 900) == 500);
    CHECK(limit_from(window, 1000) == 500);
    CHECK(limit_from(window, 1200) == 300);
}

TEST_CASE("A window without a known end is never over")
{
    FixedWindow window{1000, 0, 100};
    CHECK(timeliness(window, 1e10) == Timeliness::now);
    CHECK(limit_from(window, 1e10) == 0);
    CHECK(timeliness(window, 899) == Timeliness::early);
}

TEST_CASE("A short window can be started before it begins, or on time")
{
    FixedWindow window{1000, window_left_min / 2, 10};
    CHECK(timeliness(window, 995) == Timeliness::now);
    CHECK(timeliness(window, 1000) == Timeliness::now);
    CHECK(timeliness(window, 1001) == Timeliness::over);
}
