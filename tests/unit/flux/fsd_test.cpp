// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/fsd.h: RFC 23 with its test vectors, and -t.
#include "lib/flux/fsd.h"

#include <catch2/catch.hpp>
#include <clocale>
#include <cmath>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;

namespace {

std::string refusal(const Result<double>& duration)
{
    REQUIRE_FALSE(duration.has_value());
    CHECK(duration.error().exit == Exit::usage);
    return duration.error().message;
}

} // namespace

TEST_CASE("fsd: the test vectors of RFC 23", "[fsd]")
{
    CHECK(parse_fsd("2ms") == 0.002);
    CHECK(parse_fsd("0.1s") == 0.1);
    CHECK(parse_fsd("30") == 30);
    CHECK(parse_fsd("1.2h") == 4320);
    CHECK(parse_fsd("5m") == 300);
    CHECK(parse_fsd("0s") == 0);
    CHECK(parse_fsd("5d") == 432000);
    CHECK(parse_fsd("inf") == INFINITY);
    CHECK(parse_fsd("INF") == INFINITY);
    CHECK(parse_fsd("infinity") == INFINITY);
}

TEST_CASE("fsd: numbers as strtod has them", "[fsd]")
{
    CHECK(parse_fsd("1e3s") == 1000);
    CHECK(parse_fsd("1E-3") == 0.001);
    CHECK(parse_fsd(".5h") == 1800);
    CHECK(parse_fsd("5.") == 5);
    CHECK(parse_fsd("+2m") == 120);
    CHECK(parse_fsd("0x10") == 16);
    CHECK(parse_fsd("0X1.8p1m") == 180);
    CHECK(parse_fsd("0") == 0);
}

TEST_CASE("fsd: what is no duration is refused with the reason", "[fsd]")
{
    CHECK_THAT(refusal(parse_fsd("")), Contains("\"\" is no duration: it is empty"));
    CHECK_THAT(refusal(parse_fsd("-1")), Contains("negative"));
    CHECK_THAT(refusal(parse_fsd("-0")), Contains("negative"));
    CHECK_THAT(refusal(parse_fsd("5x")), Contains("unknown unit \"x\""));
    CHECK_THAT(refusal(parse_fsd("5M")), Contains("unknown unit \"M\""));
    CHECK_THAT(refusal(parse_fsd("5m ")), Contains("unknown unit \"m \""));
    CHECK_THAT(refusal(parse_fsd("5 m")), Contains("unknown unit"));
    CHECK_THAT(refusal(parse_fsd("1:30")), Contains("unknown unit"));
    CHECK_THAT(refusal(parse_fsd("1e")), Contains("unknown unit \"e\""));
    CHECK_THAT(refusal(parse_fsd(" 5m")), Contains("expected a number"));
    CHECK_THAT(refusal(parse_fsd("h")), Contains("expected a number"));
    CHECK_THAT(refusal(parse_fsd("nan")), Contains("expected a number"));
    CHECK_THAT(refusal(parse_fsd("+-5")), Contains("expected a number"));
    CHECK_THAT(refusal(parse_fsd("++5")), Contains("expected a number"));
    CHECK_THAT(refusal(parse_fsd("0x")), Contains("expected a number"));
    CHECK_THAT(refusal(parse_fsd("0x-1")), Contains("expected a number"));
    CHECK_THAT(refusal(parse_fsd("infs")), Contains("infinity has no unit"));
    CHECK_THAT(refusal(parse_fsd("1e999")), Contains("too large"));
    CHECK_THAT(refusal(parse_fsd("1e308d")), Contains("too large"));
    CHECK_THAT(refusal(parse_fsd(std::string_view("5m\0", 3))),
               Contains("unknown unit \"m\\x00\""));
}

TEST_CASE("fsd: a time limit without a unit is in minutes", "[fsd]")
{
    CHECK(parse_time_limit("5") == 300);
    CHECK(parse_time_limit("1.5") == 90);
    CHECK(parse_time_limit("1e2") == 6000);
    CHECK(parse_time_limit("5s") == 5);
    CHECK(parse_time_limit("8h") == 28800);
    CHECK(parse_time_limit("0") == 0);
    CHECK_THAT(refusal(parse_time_limit("inf")), Contains("must be finite"));
    CHECK_THAT(refusal(parse_time_limit("1e307")), !Contains("unit"));
    CHECK_THAT(refusal(parse_time_limit("-1")), Contains("negative"));
}

TEST_CASE("fsd: the comma of a locale changes nothing", "[fsd]")
{
    // Where no such locale is installed the calls fail and the test holds trivially.
    std::setlocale(LC_ALL, "de_DE.UTF-8");
    CHECK(parse_fsd("1.5h") == 5400);
    CHECK(format_fsd(5400) == "1.5h");
    std::setlocale(LC_ALL, "C");
}

TEST_CASE("fsd: written for people", "[fsd]")
{
    CHECK(format_fsd(0) == "0s");
    CHECK(format_fsd(0.002) == "2ms");
    CHECK(format_fsd(0.0001) == "0.1ms");
    CHECK(format_fsd(1) == "1s");
    CHECK(format_fsd(30) == "30s");
    CHECK(format_fsd(59.99999) == "60s");
    CHECK(format_fsd(60) == "1m");
    CHECK(format_fsd(90) == "1.5m");
    CHECK(format_fsd(5430) == "1.508h");
    CHECK(format_fsd(7200) == "2h");
    CHECK(format_fsd(86400 * 3.5) == "3.5d");
    CHECK(format_fsd(86400 * 1000.0) == "1000d");
    CHECK(format_fsd(INFINITY) == "inf");
    CHECK(format_fsd(-90) == "-1.5m");
    for (double seconds : {1e-9, 0.25, 7.0, 600.0, 5400.0, 43200.0, 1e7, 1e12})
        CHECK(*parse_fsd(format_fsd(seconds)) == Approx(seconds).epsilon(0.001));
}
