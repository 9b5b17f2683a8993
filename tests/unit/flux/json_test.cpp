// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/json.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::flux;

namespace {

// An object that is nested `depth` deep, itself included.
std::string nested(std::size_t depth, std::string_view open, std::string_view close)
{
    std::string text = R"({"a":)";
    for (std::size_t i = 1; i < depth; i++)
        text += open;
    text += "1";
    for (std::size_t i = 1; i < depth; i++)
        text += close;
    return text + "}";
}

} // namespace

TEST_CASE("json: as deep as Flux lets it through, and what that is wrapped in")
{
    for (auto [open, close] : {std::pair{"[", "]"}, std::pair{R"({"a":)", "}"}})
        for (auto depth : {json_depth_flux, json_depth_flux + 1, json_depth_max}) {
            INFO(open << " " << depth);
            auto text = nested(depth, open, close);
            auto json = parse_json(text);
            REQUIRE(json.has_value());
            // Whatever is done with it must not run out of stack.
            CHECK(dump_json(*json) == text);
            Json copy = *json;
            CHECK(copy == *json);
            Json wrapped{{"job", {{"annotations", std::move(copy)}}}};
            CHECK(dump_json(wrapped).size() > text.size());
        }
}

TEST_CASE("json: what is nested deeper is refused before it is parsed")
{
    auto refusal = [](std::size_t depth, std::size_t depth_max) {
        auto json = parse_json(nested(depth, "[", "]"), depth_max);
        REQUIRE_FALSE(json.has_value());
        CHECK(json.error().errnum == EPROTO);
        return json.error().message;
    };
    CHECK(refusal(json_depth_max + 1, json_depth_max)
          == "JSON nested deeper than 2064");
    CHECK(refusal(json_depth_flux + 1, json_depth_flux)
          == "JSON nested deeper than 2048");
    CHECK(parse_json(nested(json_depth_flux, "[", "]"), json_depth_flux).has_value());
    CHECK(refusal(10'000'000, json_depth_max) == "JSON nested deeper than 2064");
    // Brackets in a string are no nesting.
    CHECK(parse_json(R"({"a":"\\\"[[[[{{{{"})", 1).has_value());
}
