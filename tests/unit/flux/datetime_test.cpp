// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/datetime.h. Time zones are given as POSIX rules: no tzdata is needed.
#include "lib/flux/datetime.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <ctime>
#include <optional>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;

namespace {

class Zone
{
public:
    explicit Zone(const char* zone)
    {
        if (auto old = getenv("TZ"))
            old_ = old;
        setenv("TZ", zone, 1);
    }
    ~Zone()
    {
        if (old_)
            setenv("TZ", old_->c_str(), 1);
        else
            unsetenv("TZ");
        tzset();
    }

private:
    std::optional<std::string> old_;
};

constexpr auto berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
// The clocks go forward at midnight, as they did in Brazil.
constexpr auto sao_paulo = "<-03>3<-02>,M11.1.0/0,M2.3.0/0";
constexpr double now = 1796032962.5; // 2026-11-30 11:02:42.5 in Berlin
constexpr double hour = 3600;
constexpr double day = 86400;
constexpr double nov30 = 1795993200; // 2026-11-30 00:00 in Berlin

std::string refusal(std::string_view text)
{
    INFO(text);
    auto time = parse_begin_time(text, now);
    REQUIRE_FALSE(time.has_value());
    CHECK(time.error().exit == Exit::usage);
    return time.error().message;
}

double accepted(std::string_view text, double at = now)
{
    INFO(text);
    auto time = parse_begin_time(text, at);
    if (!time)
        FAIL(time.error().message);
    return *time;
}

} // namespace

TEST_CASE("datetime: relative to now", "[datetime]")
{
    CHECK(accepted("now") == now);
    CHECK(accepted("+0") == now);
    CHECK(accepted("+1h") == now + hour);
    CHECK(accepted("+90") == now + 90);
    CHECK_THAT(refusal("+"), Contains("is no begin time") && Contains("it is empty"));
    CHECK_THAT(refusal("+1x"), Contains("unknown unit"));
    CHECK_THAT(refusal("+-5"), Contains("negative"));
    CHECK_THAT(refusal("+inf"), Contains("too far"));
    CHECK_THAT(refusal("+1e12"), Contains("too far"));
}

TEST_CASE("datetime: seconds since the epoch", "[datetime]")
{
    CHECK(accepted("1900000000") == 1900000000);
    CHECK(accepted("1900000000.5") == 1900000000.5);
    CHECK_THAT(refusal("2030"), Contains("YYYY-MM-DD"));
    CHECK_THAT(refusal("20300102"), Contains("YYYY-MM-DD"));
    CHECK_THAT(refusal("999999999999999"), Contains("too far"));
    CHECK_THAT(refusal("1.2.3"), Contains("\"+1h\""));
    CHECK_THAT(refusal("."), Contains("\"+1h\""));
}

TEST_CASE("datetime: local days and times", "[datetime]")
{
    Zone zone(berlin);
    CHECK(accepted("2026-11-30") == nov30);
    CHECK(accepted("today") == nov30);
    CHECK(accepted("tomorrow") == nov30 + day); // into the next month
    CHECK(accepted("yesterday") == nov30 - day);
    CHECK(accepted("yesterday 18:00", nov30 + day + 60) == nov30 + 18 * hour);
    CHECK(accepted("today 08:30") == nov30 + 8.5 * hour);
    CHECK(accepted("tomorrow 08:30:15") == nov30 + day + 8.5 * hour + 15);
    CHECK(accepted("2026-11-30 10:02") == nov30 + 10 * hour + 120);
    CHECK(accepted("2026-11-30T10:02:42") == nov30 + 10 * hour + 162);
    CHECK(accepted("2026-11-30 23:59:59") == nov30 + day - 1);
    CHECK(accepted(" 2026-11-30 ") == nov30);
    CHECK(accepted("2028-02-29") == 1835391600);
    CHECK(accepted("2027-01-01") == accepted("tomorrow", nov30 + 31.5 * day));

    // At 00:30 in Berlin it is still yesterday in UTC.
    CHECK(accepted("today", nov30 + 0.5 * hour) == nov30);
}

TEST_CASE("datetime: a zone of its own", "[datetime]")
{
    Zone zone(berlin);
    CHECK(accepted("2026-11-30T00:00Z") == nov30 + hour);
    CHECK(accepted("2026-11-30T00:00+01:00") == nov30);
    CHECK(accepted("2026-11-30T00:00:30-05:30") == nov30 + 6.5 * hour + 30);
    CHECK(accepted("2026-11-30 00:00Z") == nov30 + hour);
    for (auto text :
         {"2026-11-30T00:00z", "2026-11-30T00:00 Z", "2026-11-30T00:00+1",
          "2026-11-30T00:00+01", "2026-11-30T00:00+0100", "2026-11-30T00:00+24:00",
          "2026-11-30T00:00+01:60", "2026-11-30T00:00+01:00x", "today 08:00Z"})
        CHECK_THAT(refusal(text), Contains("follows the time of day"));
}

TEST_CASE("datetime: when the clocks change", "[datetime]")
{
    {
        Zone zone(berlin);
        CHECK_THAT(refusal("2027-03-28 02:30"), Contains("skip it"));
        CHECK(accepted("2027-03-28 03:00") == accepted("2027-03-28 01:59:59") + 1);
        CHECK(accepted("2027-03-29") == accepted("2027-03-28") + 23 * hour);
        // Shown twice: the first, in summer time, whatever was asked before.
        for (auto before : {"2027-12-01", "2027-07-01"}) {
            accepted(before);
            CHECK(accepted("2027-10-31 02:30") == accepted("2027-10-31T02:30+02:00"));
        }
        CHECK(accepted("2027-11-01") == accepted("2027-10-31") + 25 * hour);
        // "tomorrow" is a day of the calendar, not 24 hours.
        CHECK(accepted("tomorrow", accepted("2027-03-28 00:10"))
              == accepted("2027-03-29"));
    }
    {
        Zone zone(sao_paulo);
        CHECK_THAT(refusal("2027-11-07 00:00"), Contains("skip it"));
        CHECK(accepted("2027-11-07") == accepted("2027-11-06 23:59:59") + 1);
    }
}

TEST_CASE("datetime: what is no time is refused with the reason", "[datetime]")
{
    Zone zone(berlin);
    CHECK_THAT(refusal(""), Contains("it is empty"));
    CHECK_THAT(refusal("soon"), Contains("\"+1h\""));
    CHECK_THAT(refusal("in an hour"), Contains("\"+1h\""));
    CHECK_THAT(refusal("08:00"), Contains("\"+1h\""));
    CHECK_THAT(refusal("-1h"), Contains("\"+1h\""));
    CHECK_THAT(refusal("soon"), Contains("\"today 18:00\", \"2026-12-24 18:00\", or in "
                                         "seconds since the epoch"));
    CHECK_THAT(refusal("todayx"), Contains("\"+1h\""));
    CHECK_THAT(refusal("todayT08:00"), Contains("\"+1h\""));
    CHECK_THAT(refusal("2026/11/30"), Contains("\"+1h\""));
    CHECK_THAT(refusal("2026-1-30"), Contains("\"+1h\""));
    CHECK_THAT(refusal("2026-11-3"), Contains("\"+1h\""));
    CHECK_THAT(refusal("2026-11-30x"), Contains("\"+1h\""));
    CHECK_THAT(refusal("2026-13-01"), Contains("no such day"));
    CHECK_THAT(refusal("2026-00-01"), Contains("no such day"));
    CHECK_THAT(refusal("2026-11-31"), Contains("no such day"));
    CHECK_THAT(refusal("2026-02-29"), Contains("no such day"));
    CHECK_THAT(refusal("2026-11-00"), Contains("no such day"));
    CHECK_THAT(refusal("2026-+1-10"), Contains("no such day"));
    for (auto text : {"2026-11-30 24:00", "2026-11-30 10:60", "2026-11-30 10:00:60",
                      "2026-11-30 8:00", "2026-11-30 08", "2026-11-30  08:00",
                      "2026-11-30 8am", "2026-11-30T", "today noon", "tomorrow 08:0"})
        CHECK_THAT(refusal(text), Contains("HH:MM"));
}

TEST_CASE("datetime: for people, in the local zone", "[datetime]")
{
    Zone zone(berlin);
    tzset();
    CHECK(format_local_time(nov30) == "2026-11-30 00:00:00");
    CHECK(format_local_time(now) == "2026-11-30 11:02:42");
    CHECK(format_local_time(-1) == "1970-01-01 01:00:00");
    CHECK(format_local_time(1e300) == format_local_time(253402300799));
}
