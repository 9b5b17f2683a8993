// SPDX-License-Identifier: LGPL-3.0-or-later
// cli/table.h
#include "cli/table.h"

#include <catch2/catch.hpp>

using namespace fluxdat::cli;

namespace {

const std::vector<Column> columns{{"NAME", 6, 0}, {"ID", 0, 2}, {"NODELIST", 8, 1}};
const std::vector<Row> rows{{{"demo"}, {"ƒ4T9L3Z"}, {"fluke[131-140,150]"}},
                            {{"日本語"}, {"ƒA"}, {"-"}}};
using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("table: columns stand under each other, in a pipe uncut", "[table]")
{
    CHECK(table_lines(columns, rows, true, Screen{})
          == Lines{"NAME    ID       NODELIST", "demo    ƒ4T9L3Z  fluke[131-140,150]",
                   "日本語  ƒA       -"});
    CHECK(table_lines(columns, rows, false, Screen{}).size() == 2);
}

TEST_CASE("table: a narrow screen cuts, then leaves out, and wraps nothing", "[table]")
{
    Screen screen;
    screen.columns = 30;
    CHECK(table_lines(columns, rows, false, screen)
          == Lines{"demo    ƒ4T9L3Z  fluke[131-14…", "日本語  ƒA       -"});
    screen.columns = 20;
    CHECK(table_lines(columns, rows, true, screen)
          == Lines{"NAME    NODELIST", "demo    fluke[131-1…", "日本語  -"});
    screen.columns = 10;
    CHECK(table_lines(columns, rows, false, screen) == Lines{"demo", "日本語"});
    for (screen.columns = 1; screen.columns < 60; screen.columns++)
        for (auto& line : table_lines(columns, rows, true, screen))
            CHECK(columns_of(line) <= screen.columns);
}

TEST_CASE("table: what others wrote drives no terminal", "[table]")
{
    CHECK(table_lines({{"", 0, 0}}, {{{"a\x1b[2J\u202e\nb"}}}, false, Screen{})
          == Lines{"a?[2J? b"});
}

TEST_CASE("table: colour changes no column", "[table]")
{
    Screen screen;
    screen.colour = true;
    screen.columns = 80;
    CHECK(table_lines({{"", 0, 0}, {"", 0, 0}}, {{{"ok", Hue::good}, {"x"}}}, false,
                      screen)
          == Lines{"\x1b[32mok\x1b[0m  x"});
}
