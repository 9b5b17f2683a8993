// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/due.h"

#include <catch2/catch.hpp>

using namespace fluxdat::dat;

TEST_CASE("A window is due from some time before its begin until its last minute")
{
    constexpr double begin = 1e9, hour = 3600;
    Window window{begin, 4 * hour, hour};
    CHECK(due(window, begin - hour - 1) == Due::early);
    CHECK(due(window, begin - hour) == Due::now);
    CHECK(due(window, begin) == Due::now);
    CHECK(due(window, begin + 4 * hour - window_left_min) == Due::now);
    CHECK(due(window, begin + 4 * hour - window_left_min + 1) == Due::over);
    CHECK(due(window, begin + 4 * hour) == Due::over);
    CHECK(due(window, begin + 1000 * hour) == Due::over);
}

TEST_CASE("What is submitted late ends when the window does")
{
    Window window{1000, 500, 100};
    CHECK(limit_from(window, 900) == 500);
    CHECK(limit_from(window, 1000) == 500);
    CHECK(limit_from(window, 1200) == 300);
}

TEST_CASE("A window without a known end is never over")
{
    Window window{1000, 0, 100};
    CHECK(due(window, 1e10) == Due::now);
    CHECK(limit_from(window, 1e10) == 0);
    CHECK(due(window, 899) == Due::early);
}

TEST_CASE("A short window can be started before it begins, or on time")
{
    Window window{1000, window_left_min / 2, 10};
    CHECK(due(window, 995) == Due::now);
    CHECK(due(window, 1000) == Due::now);
    CHECK(due(window, 1001) == Due::over);
}
