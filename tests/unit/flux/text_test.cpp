// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/text.h
#include "lib/flux/text.h"
#include "lib/harmless.h"

#include <catch2/catch.hpp>

using namespace fluxdat::flux;

TEST_CASE("text: what is quoted is printable and valid UTF-8", "[text]")
{
    CHECK(in_quotes("") == "\"\"");
    CHECK(in_quotes("demo") == "\"demo\"");
    CHECK(in_quotes("ƒ日😃") == "\"ƒ日😃\"");
    CHECK(in_quotes("a\nb\x1b[m\x7f") == "\"a\\x0ab\\x1b[m\\x7f\"");
    CHECK(in_quotes("\xc6") == "\"\\xc6\"");                   // cut off
    CHECK(in_quotes("\xc0\xaf") == "\"\\xc0\\xaf\"");          // overlong
    CHECK(in_quotes("\xed\xa0\x80") == "\"\\xed\\xa0\\x80\""); // surrogate
    CHECK(in_quotes("\xf4\x90\x80\x80") == "\"\\xf4\\x90\\x80\\x80\"");
    CHECK(in_quotes("\xe2\x28\xa1") == "\"\\xe2(\\xa1\"");
    CHECK(in_quotes("\x80\xff") == "\"\\x80\\xff\"");
}

TEST_CASE("text: nothing of a stranger's text drives a terminal", "[text]")
{
    using fluxdat::harmless;
    CHECK(harmless("demo ƒ日😃é") == "demo ƒ日😃é");
    CHECK(harmless("a\nb\tc") == "a b c");
    CHECK(harmless("\x1b[2J\r\x7f\b") == "?[2J???");
    CHECK(harmless("\xc2\x9b"
                   "31m")
          == "?31m"); // CSI of C1
    CHECK(harmless("\xff\xc6") == "??");
    // Unicode's controls of direction: U+202A to U+202E, U+2066 to U+2069, U+200E,
    // U+200F
    CHECK(harmless("a\u202eb\u202ac\u2066d\u2069e\u200ef\u200f") == "a?b?c?d?e?f?");
    CHECK(harmless("\u2028\u2029\ufeff\u061c") == "????");
    CHECK(in_quotes("a\u202e") == "\"a\\xe2\\x80\\xae\"");
    CHECK(harmless("aaaa", 3) == "aaa...");
    CHECK(harmless("aaa", 3) == "aaa");
}

TEST_CASE("text: what is quoted is short", "[text]")
{
    std::string characters;
    for (int i = 0; i < 1000; i++)
        characters += "ƒ";
    auto text = in_quotes(characters);
    CHECK(text.size() < quoted_bytes_max + 10);
    CHECK(text.ends_with("ƒ...\""));
    CHECK(in_quotes(std::string(quoted_bytes_max - 2, 'x')).ends_with("x\""));
}

TEST_CASE("text: white space is trimmed at the ends only", "[text]")
{
    CHECK(trimmed(" \t a b\r\n") == "a b");
    CHECK(trimmed("a") == "a");
    CHECK(trimmed(" \n ").empty());
    CHECK(trimmed("").empty());
}

TEST_CASE("text: what is UTF-8", "[text]")
{
    CHECK(valid_utf8(""));
    CHECK(valid_utf8("ƒ日😃\n"));
    CHECK(valid_utf8(std::string_view("a\0b", 3)));
    CHECK_FALSE(valid_utf8("a\xc6"));
    CHECK_FALSE(valid_utf8("\xc0\xaf"));
    CHECK_FALSE(valid_utf8("\xed\xa0\x80"));
    CHECK_FALSE(valid_utf8("\xf8\x88\x80\x80\x80"));
}

TEST_CASE("text: a character of UTF-8 is what RFC 3629 says", "[text]")
{
    CHECK(fluxdat::utf8_length("a") == 1);
    CHECK(fluxdat::utf8_length("\xc3\xa9") == 2);
    CHECK(fluxdat::utf8_length("\xe2\x82\xac") == 3);
    CHECK(fluxdat::utf8_length("\xf0\x9f\x98\x80") == 4);
    CHECK(fluxdat::utf8_length("") == 0);
    CHECK(fluxdat::utf8_length("\x80") == 0);
    CHECK(fluxdat::utf8_length("\xc0\x80") == 0);         // overlong
    CHECK(fluxdat::utf8_length("\xe0\x80\x80") == 0);     // overlong
    CHECK(fluxdat::utf8_length("\xed\xa0\x80") == 0);     // surrogate
    CHECK(fluxdat::utf8_length("\xf4\x90\x80\x80") == 0); // beyond U+10FFFF
    CHECK(fluxdat::utf8_length("\xe2\x82") == 0);         // cut
}

TEST_CASE("text: lines are what is between newlines, but for nothing", "[text]")
{
    using Lines = std::vector<std::string_view>;
    CHECK(lines_of("").empty());
    CHECK(lines_of("\n\n").empty());
    CHECK(lines_of("a") == Lines{"a"});
    CHECK(lines_of("a\n\nb c\nd") == Lines{"a", "b c", "d"});
}
