// SPDX-License-Identifier: LGPL-3.0-or-later
// cli/format.h
#include "cli/format.h"

#include <catch2/catch.hpp>

using namespace fluxdat::cli;
using Catch::Matchers::Contains;

namespace {

const std::vector<FieldName> known{
    {"name", "NAME", ""}, {"id.f58", "ID", ""}, {"t_run", "T_RUN", "", true}};

std::vector<std::string> lines(const char* text, bool with_header = false)
{
    auto format = Format::parse(text, known);
    REQUIRE(format);
    const std::vector<Value> all[] = {{{"demo"}, {"ƒA"}, {"90", 90}},
                                      {{"later"}, {""}, {"0", 0}}};
    std::vector<std::vector<Value>> rows;
    for (auto& values : all) {
        auto& row = rows.emplace_back();
        for (auto field : format->fields())
            row.push_back(values[field]);
    }
    return format->lines(rows, with_header);
}

std::string error(const char* text)
{
    auto format = Format::parse(text, known);
    REQUIRE_FALSE(format);
    CHECK(format.error().exit == fluxdat::Exit::usage);
    return format.error().message;
}

using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("format: fields, widths and alignments are Python's", "[format]")
{
    CHECK(lines("{name} {id.f58}") == Lines{"demo ƒA", "later"});
    CHECK(lines("{name:<8}|{id.f58:>4}|") == Lines{"demo    |  ƒA|", "later   |    |"});
    CHECK(lines("{name:^8}|") == Lines{"  demo  |", " later  |"});
    CHECK(lines("{name:*>8}") == Lines{"****demo", "***later"});
    CHECK(lines("{name:8}|{t_run:4}|") == Lines{"demo    |  90|", "later   |   0|"});
    CHECK(lines("{name:.2}") == Lines{"de", "la"});
    CHECK(lines("{name:5.2s}|") == Lines{"de   |", "la   |"});
    CHECK(lines("{t_run:06.1f}") == Lines{"0090.0", "0000.0"});
    CHECK(lines("{t_run:d}") == Lines{"90", "0"});
    CHECK(lines("{{{name}}}") == Lines{"{demo}", "{later}"});
    CHECK(lines("{name:<6} {t_run:>5}", true)
          == Lines{"NAME   T_RUN", "demo      90", "later      0"});
}

TEST_CASE("format: conversions of flux-jobs", "[format]")
{
    CHECK(lines("{id.f58!h}") == Lines{"ƒA", "-"});
    CHECK(lines("{t_run!F}|") == Lines{"1.5m|", "|"});
    setenv("TZ", "UTC", 1);
    tzset();
    CHECK(lines("{t_run!D}|") == Lines{"1970-01-01T00:01:30|", "|"});
    CHECK(lines("{t_run!d:>13}|") == Lines{"  Jan01 00:01|", "             |"});
}

TEST_CASE("format: columns that fit, and go where they are empty", "[format]")
{
    CHECK(lines("+:{name:<1} {t_run}", true)
          == Lines{"NAME  T_RUN", "demo  90", "later 0"});
    auto format = Format::parse("?:{id.f58:>5} {name}", known);
    REQUIRE(format);
    CHECK(format->lines({{{""}, {"demo"}}}, true) == Lines{" NAME", " demo"});
}

TEST_CASE("format: what is wrong is told with what would be right", "[format]")
{
    CHECK_THAT(error("{nosuch}"),
               Contains("no field \"nosuch\"") && Contains("-o help"));
    CHECK_THAT(error("name"), Contains("no field in it"));
    CHECK_THAT(error(""), Contains("no field in it"));
    CHECK_THAT(error("{name"), Contains("column 1 is not closed"));
    CHECK_THAT(error("{name} }"), Contains("column 8"));
    CHECK_THAT(error("{name!X}"), Contains("!D, !d, !F and !h"));
    CHECK_THAT(error("{name!}"), Contains("conversions"));
    CHECK_THAT(error("{name!D}"), Contains("numbers"));
    CHECK_THAT(error("{name:d}"), Contains("numbers"));
    CHECK_THAT(error("{name:5x}"), Contains("WIDTH"));
    CHECK_THAT(error("{name:99999}"), Contains("at most"));
    CHECK_THAT(error("{name:.}"), Contains("number is missing"));
    CHECK_THAT(error("{name:日<8}"), Contains("one column"));
    CHECK_THAT(error(std::string(5000, '{').c_str()), Contains("longer than"));
    CHECK_THAT(error("{\x1b[2J}"), !Contains("\x1b"));
}
