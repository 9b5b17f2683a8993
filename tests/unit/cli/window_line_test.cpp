// SPDX-License-Identifier: LGPL-3.0-or-later
// cli/window_line.h
#include "cli/window_line.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace fluxdat::cli;

namespace {

constexpr double six = 6 * 3600; // on the first day of the epoch
const Timeline four_hours{
    six,
    six + 4 * 3600,
    {{six + 2 * 3600, "warning", 'w'}, {six + 3 * 3600, "close", 'c'}}};

void use_utc()
{
    setenv("TZ", "UTC", 1);
    tzset();
}

} // namespace

TEST_CASE("window: now and what will happen are where they are in time", "[window]")
{
    use_utc();
    Screen screen;
    CHECK(window_line(four_hours, six + 3600, 29, screen)
          == "06:00 ━━━━●───w───c───┤ 10:00");
    CHECK(window_line(four_hours, six, 29, screen) == "06:00 ●───────w───c───┤ 10:00");
    CHECK(window_line(four_hours, six + 9 * 3600, 29, screen)
          == "06:00 ━━━━━━━━w━━━c━━━● 10:00");
    screen.utf8 = false;
    CHECK(window_line(four_hours, six + 3600, 29, screen)
          == "06:00 ====#---w---c---] 10:00");
}

TEST_CASE("window: a line is as long as it may be", "[window]")
{
    use_utc();
    for (std::size_t columns = 1; columns < 100; columns++)
        CHECK(columns_of(window_line(four_hours, six + 3600, columns, Screen{}))
              == columns);
    CHECK(window_line(four_hours, six, 0, Screen{}).empty());
}

TEST_CASE("window: without an end there is no scale", "[window]")
{
    use_utc();
    auto line = window_line({six, 0, {}}, six + 60, 30, Screen{});
    CHECK(line.ends_with(" no end"));
    CHECK(line.find("●") != line.npos);
}

TEST_CASE("window: what is over is not to come", "[window]")
{
    use_utc();
    CHECK(window_to_come(four_hours, six + 3600)
          == "warning 08:00 (in 1h00m), close 09:00, end 10:00");
    CHECK(window_to_come(four_hours, six + 2.5 * 3600)
          == "close 09:00 (in 30m00s), end 10:00");
    CHECK(window_to_come(four_hours, six + 9 * 3600).empty());
}

TEST_CASE("window: what the record plans is on the line", "[window]")
{
    use_utc();
    fluxdat::dat::Dat dat;
    dat.job.state = fluxdat::flux::job_state_run;
    dat.job.t_run = six;
    dat.job.expiration = six + 3600;
    CHECK(window_of(dat).points.empty());
    auto& plan = dat.record.window.plan;
    plan.warn_at = {six + 1800, six + 3000};
    plan.close_at = plan.term_at = six + 3560;
    plan.passed_over = {"warn 2h"};
    CHECK(window_to_come(window_of(dat), six + 1801)
          == "warning 06:50 (in 19m59s), closed to new jobs 06:59, SIGTERM 06:59, end "
             "07:00");
    CHECK(window_of(dat).passed_over == std::vector<std::string>{"warn 2h"});
    dat.record.state = fluxdat::dat::State::stopping;
    dat.record.stop_at = six + 600;
    CHECK(window_of(dat).end == six + 600);
}

TEST_CASE("window: numbers of others do no harm", "[window]")
{
    for (double odd : {-1e300, 1e300, 0.0, -1.0})
        for (double end : {-1e300, 1e300, 0.0, six})
            CHECK(columns_of(
                      window_line({odd, end, {{odd, "x", 'w'}}}, six, 40, Screen{}))
                  == 40);
}
