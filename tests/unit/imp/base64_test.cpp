// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/base64.h: RFC 4648 with its test vectors; strictness.
#include "lib/imp/base64.h"

#include <catch2/catch.hpp>

using namespace fluxdat::imp;
using Catch::Matchers::Contains;

namespace {

std::string refusal(std::string_view text)
{
    INFO(text);
    auto bytes = base64_decode(text);
    REQUIRE_FALSE(bytes.has_value());
    return bytes.error().message;
}

} // namespace

TEST_CASE("base64: the test vectors of RFC 4648", "[base64]")
{
    struct {
        std::string_view bytes, text;
    } vectors[] = {{"", ""},
                   {"f", "Zg=="},
                   {"fo", "Zm8="},
                   {"foo", "Zm9v"},
                   {"foob", "Zm9vYg=="},
                   {"fooba", "Zm9vYmE="},
                   {"foobar", "Zm9vYmFy"}};
    for (auto [bytes, text] : vectors) {
        CHECK(base64_encode(bytes) == text);
        CHECK(base64_decode(text) == std::string(bytes));
    }
    CHECK(base64_encode("\xfb\xff\xfe") == "+//+"); // not the URL alphabet
}

TEST_CASE("base64: all bytes, all lengths", "[base64]")
{
    std::string bytes;
    for (int i = 0; i < 700; i++) {
        auto text = base64_encode(bytes);
        CHECK(text.size() == (bytes.size() + 2) / 3 * 4);
        REQUIRE(base64_decode(text) == bytes);
        bytes.push_back(static_cast<char>(i * 7));
    }
}

TEST_CASE("base64: only one text for the same bytes", "[base64]")
{
    CHECK_THAT(refusal("Zg"), Contains("multiple of four"));
    CHECK_THAT(refusal("Zg="), Contains("multiple of four"));
    CHECK_THAT(refusal("Zm9vZ"), Contains("multiple of four"));
    CHECK_THAT(refusal("Zm9v\n"), Contains("multiple of four"));
    CHECK_THAT(refusal("Zm9\n"), Contains("byte 3 is not of the alphabet: \"\\x0a\""));
    CHECK_THAT(refusal("Zm 9"), Contains("byte 2 is not of the alphabet"));
    CHECK_THAT(refusal("Zm9-"), Contains("alphabet"));
    CHECK_THAT(refusal("Zm9_"), Contains("alphabet"));
    CHECK_THAT(refusal("Z==="), Contains("alphabet"));
    CHECK_THAT(refusal("===="), Contains("alphabet"));
    CHECK_THAT(refusal("Zg==Zg=="), Contains("alphabet"));
    CHECK_THAT(refusal("Z=g="), Contains("alphabet"));
    CHECK_THAT(refusal("Zh=="), Contains("bits behind the end"));
    CHECK_THAT(refusal("Zm9="), Contains("bits behind the end"));
    CHECK_THAT(refusal(std::string_view("Zm9\0", 4)), Contains("alphabet"));
    CHECK_THAT(refusal("Zm9\xff"), Contains("alphabet"));
}
