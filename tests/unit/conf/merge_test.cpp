// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/merge.h"

#include <catch2/catch.hpp>

using namespace fluxdat::conf;

namespace {

Value value(const char* json, const char* source)
{
    auto parsed = from_json(Json::parse(json), {source, Origin::Kind::file});
    REQUIRE(parsed);
    return std::move(*parsed);
}

Json merged(const char* base, const char* overlay)
{
    Value result = value(base, "base");
    merge(result, value(overlay, "overlay"));
    return result.json();
}

} // namespace

TEST_CASE("tables merge, everything else replaces", "[merge]")
{
    CHECK(merged(R"({"a":{"x":1,"y":[1,2]},"b":1})", R"({"a":{"y":[3],"z":0},"c":{}})")
          == Json::parse(R"({"a":{"x":1,"y":[3],"z":0},"b":1,"c":{}})"));
    CHECK(merged(R"({"a":{"x":1}})", R"({"a":2})") == Json::parse(R"({"a":2})"));
    CHECK(merged(R"({"a":2})", R"({"a":{"x":1}})") == Json::parse(R"({"a":{"x":1}})"));
    CHECK(merged(R"({"a":[{"hosts":"a"}]})", R"({"a":[{"hosts":"b"}]})")
          == Json::parse(R"({"a":[{"hosts":"b"}]})")); // tables, but no directives
}

TEST_CASE("what is merged keeps its origins", "[merge]")
{
    Value result =
        value(R"({"a":{"x":1,"y":1},"p":[{"load":"a.so"},{"load":"b.so"}]})", "base");
    merge(result, value(R"({"a":{"y":2},"p":[{"load":"b.so","conf":{}}]})", "overlay"));
    CHECK(result.find("a")->origin.source == "base");
    CHECK(result.find("a.x")->origin.source == "base");
    CHECK(result.find("a.y")->origin.source == "overlay");
    const Array& plugins = *result.find("p")->array();
    CHECK(plugins[0].origin.source == "base");
    CHECK(plugins[1].origin.source == "overlay");
}

TEST_CASE("plugin directives merge by load", "[merge]")
{
    const char* base = R"([{"load":"a.so","conf":{"x":1}},{"load":"b.so"}])";
    CHECK(merged(base, R"([{"load":"c.so"}])")
          == Json::parse(
              R"([{"load":"a.so","conf":{"x":1}},{"load":"b.so"},{"load":"c.so"}])"));
    CHECK(merged(base, R"([{"load":"a.so","conf":{"y":2}}])")
          == Json::parse(R"([{"load":"a.so","conf":{"x":1,"y":2}},{"load":"b.so"}])"));
    CHECK(merged(base, R"([])") == Json::parse("[]"));
    CHECK(merged(R"([])", base) == Json::parse(base));
    CHECK(merged(base, R"([{"load":"c.so"},{"other":1}])")
          == Json::parse(
              R"([{"load":"c.so"},{"other":1}])")); // for check_types to refuse
}

TEST_CASE("a plugin that was removed in between is loaded anew", "[merge]")
{
    CHECK(merged(R"([{"load":"a.so"},{"remove":"a.*"}])", R"([{"load":"a.so"}])")
          == Json::parse(R"([{"load":"a.so"},{"remove":"a.*"},{"load":"a.so"}])"));
    CHECK(merged(R"([{"load":"a.so"},{"remove":"b.so"}])",
                 R"([{"load":"a.so","conf":{"x":1}}])")
          == Json::parse(R"([{"load":"a.so","conf":{"x":1}},{"remove":"b.so"}])"));
    CHECK(merged(R"([{"load":"a.so"}])", R"([{"remove":"all","load":"a.so"}])")
          == Json::parse(R"([{"load":"a.so"},{"remove":"all","load":"a.so"}])"));
}

TEST_CASE("whether a plugin ends up loaded", "[merge]")
{
    const auto loads = [](const char* json) {
        const Value directives = value(json, "x");
        return loads_plugin(&directives, "perilog.so");
    };
    CHECK(loads(R"([{"load":"perilog.so"}])"));
    CHECK(loads(R"([{"load":"/usr/lib/flux/perilog.so"}])"));
    CHECK(loads(R"([{"remove":"all","load":"perilog.so"}])"));
    CHECK(loads(R"([{"load":"perilog.so"},{"remove":"other.so"}])"));
    CHECK_FALSE(loads(R"([{"load":"perilog.so"},{"remove":"peri*"}])"));
    CHECK_FALSE(loads(R"([{"load":"perilog.so"},{"remove":"all"}])"));
    CHECK_FALSE(loads(R"([{"load":"notperilog.so"}])"));
    CHECK_FALSE(loads("[]"));
    CHECK_FALSE(loads("3"));
    CHECK_FALSE(loads_plugin(nullptr, "perilog.so"));
}
