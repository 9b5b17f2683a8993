// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/csv.h"

#include <catch2/catch.hpp>

using namespace fluxdat::dat;

TEST_CASE("A line of comma-separated values")
{
    CHECK(csv_line({"a", "", "1.50"}) == "a,,1.50\n");
    CHECK(csv_line({"a,b", "say \"so\"", " padded "})
          == "\"a,b\",\"say \"\"so\"\"\",\" padded \"\n");
    CHECK(csv_line({}) == "\n");
}

TEST_CASE("No value is a formula to a spreadsheet, or a line more")
{
    CHECK(csv_line({"=1+1"}) == "'=1+1\n");
    CHECK(csv_line({"+1", "-1", "@SUM(A1)"}) == "'+1,'-1,'@SUM(A1)\n");
    CHECK(csv_line({"=HYPERLINK(\"x\",\"y\")"})
          == "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"\n");
    CHECK(csv_line({"\t=1", "\r=1"}) == "'?=1,'?=1\n");
    CHECK(csv_line({"two\nlines\x1b[2J"}) == "two?lines?[2J\n");
    CHECK(csv_line({"a=1"}) == "a=1\n");
}
