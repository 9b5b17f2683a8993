// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/text.h
#include "lib/flux/text.h"

#include <catch2/catch.hpp>

using namespace fluxdat::flux;

TEST_CASE("text: what is quoted is printable and valid UTF-8", "[text]")
{
    CHECK(quoted("") == "\"\"");
    CHECK(quoted("demo") == "\"demo\"");
    CHECK(quoted("ƒ日😃") == "\"ƒ日😃\"");
    CHECK(quoted("a\nb\x1b[m\x7f") == "\"a\\x0ab\\x1b[m\\x7f\"");
    CHECK(quoted("\xc6") == "\"\\xc6\"");                   // cut off
    CHECK(quoted("\xc0\xaf") == "\"\\xc0\\xaf\"");          // overlong
    CHECK(quoted("\xed\xa0\x80") == "\"\\xed\\xa0\\x80\""); // surrogate
    CHECK(quoted("\xf4\x90\x80\x80") == "\"\\xf4\\x90\\x80\\x80\"");
    CHECK(quoted("\xe2\x28\xa1") == "\"\\xe2(\\xa1\"");
    CHECK(quoted("\x80\xff") == "\"\\x80\\xff\"");
}

TEST_CASE("text: what is quoted is short", "[text]")
{
    std::string characters;
    for (int i = 0; i < 1000; i++)
        characters += "ƒ";
    auto text = quoted(characters);
    CHECK(text.size() < quoted_bytes_max + 10);
    CHECK(text.ends_with("ƒ...\""));
    CHECK(quoted(std::string(quoted_bytes_max - 2, 'x')).ends_with("x\""));
}

TEST_CASE("text: white space is trimmed at the ends only", "[text]")
{
    CHECK(trimmed(" \t a b\r\n") == "a b");
    CHECK(trimmed("a") == "a");
    CHECK(trimmed(" \n ").empty());
    CHECK(trimmed("").empty());
}
