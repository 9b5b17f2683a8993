// SPDX-License-Identifier: LGPL-3.0-or-later
// cli/screen.h
#include "cli/screen.h"

#include <catch2/catch.hpp>

using namespace fluxdat::cli;

TEST_CASE("screen: wide characters take two columns, marks none", "[screen]")
{
    CHECK(columns_of("") == 0);
    CHECK(columns_of("demo") == 4);
    CHECK(columns_of("ƒ4T9") == 4);
    CHECK(columns_of("日本") == 4);
    CHECK(columns_of("😃") == 2);
    CHECK(columns_of("e\u0301") == 1);
    CHECK(columns_of("a\u200db") == 2);
    CHECK(columns_of("\xff") == 1); // a stray byte
}

TEST_CASE("screen: what is cut ends in an ellipsis and fits", "[screen]")
{
    Screen screen;
    CHECK(screen.cut("demo", 4) == "demo");
    CHECK(screen.cut("fluke[131-192]", 8) == "fluke[1…");
    CHECK(screen.cut("日本語", 4) == "日…"); // half of a character is none
    CHECK(screen.cut("日本語", 5) == "日本…");
    CHECK(screen.cut("demo", 1) == "…");
    CHECK(screen.cut("demo", 0).empty());
    screen.utf8 = false;
    CHECK(screen.cut("demo", 3) == "de~");
}

TEST_CASE("screen: colour where there is some, and nothing told by it alone",
          "[screen]")
{
    Screen screen;
    CHECK(screen.paint(Hue::bad, "down") == "down");
    screen.colour = true;
    CHECK(screen.paint(Hue::bad, "down") == "\x1b[1;31mdown\x1b[0m");
    CHECK(screen.paint(Hue::plain, "up") == "up");
    CHECK(screen.paint(Hue::good, "").empty());
}

TEST_CASE("screen: words are wrapped, and longer ones cut into pieces", "[screen]")
{
    using Lines = std::vector<std::string>;
    CHECK(wrapped("", 10) == Lines{""});
    CHECK(wrapped("alice, bob, carol", 10) == Lines{"alice,", "bob, carol"});
    CHECK(wrapped("a  b", 10) == Lines{"a b"});
    CHECK(wrapped("abcdefgh ij", 3) == Lines{"abc", "def", "gh", "ij"});
    CHECK(wrapped("日本", 1) == Lines{"日", "本"});
    for (std::size_t columns = 2; columns < 30; columns++)
        for (auto& line :
             wrapped("on the guest list: flux proxy ƒ4T9L3Z 日本語", columns))
            CHECK(columns_of(line) <= columns);
}

TEST_CASE("screen: durations for people have two units at most", "[screen]")
{
    CHECK(human_duration(0) == "0s");
    CHECK(human_duration(0.2) == "1s");
    CHECK(human_duration(61) == "1m01s");
    CHECK(human_duration(3599.5) == "1h00m");
    CHECK(human_duration(3 * 3600 + 5 * 60) == "3h05m");
    CHECK(human_duration(23 * 3600 + 59 * 60 + 1) == "1d00h");
    CHECK(human_duration(2 * 86400 + 4 * 3600) == "2d04h");
    CHECK(human_duration(-61) == "-1m01s");
    CHECK(human_duration(1e300) == "inf");
}

TEST_CASE("screen: padding counts columns, not bytes", "[screen]")
{
    CHECK(padded("ƒ", 3) == "ƒ  ");
    CHECK(padded("日", 3, Align::right) == " 日");
    CHECK(padded("a", 4, Align::centre) == " a  ");
    CHECK(padded("abc", 2) == "abc");
}
