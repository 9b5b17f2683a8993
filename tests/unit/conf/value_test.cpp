// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/value.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::conf;

TEST_CASE("keys split into parts as TOML writes them", "[value]")
{
    CHECK(split_key("a") == std::vector<std::string>{"a"});
    CHECK(split_key("job-manager.prolog.per-rank")
          == std::vector<std::string>{"job-manager", "prolog", "per-rank"});
    CHECK(split_key("a.\"x.y\".'z='") == std::vector<std::string>{"a", "x.y", "z="});
    CHECK(split_key("\"\"") == std::vector<std::string>{""});
}

TEST_CASE("bad keys are told with their column", "[value]")
{
    CHECK(split_key("").error().message == "empty part at column 1");
    CHECK(split_key("a..b").error().message == "empty part at column 3");
    CHECK(split_key("a.").error().message == "empty part at column 3");
    CHECK(split_key(".a").error().message == "empty part at column 1");
    CHECK(split_key("a b").error().message
          == "unexpected ' ' at column 2; quote a part that has other characters than "
             "A-Z a-z 0-9 - _");
    CHECK(
        split_key("\"a\"b").error().message.starts_with("unexpected 'b' at column 4"));
    CHECK(split_key("a.\"b").error().message == "quote at column 3 is not closed");
    std::string deep = "a";
    for (std::size_t i = 0; i < value_depth_max; ++i)
        deep += ".a";
    CHECK(split_key(deep).error().message == "more than 32 parts at column 65");
}

TEST_CASE("keys are quoted where TOML wants it", "[value]")
{
    CHECK(quote_key("max-kill-count") == "max-kill-count");
    CHECK(quote_key("a.b") == "\"a.b\"");
    CHECK(quote_key("") == "\"\"");
    CHECK(quote_key("say \"hi\"\n\x7f") == "\"say \\\"hi\\\"\\n\\u007f\"");
    CHECK(join_key("queues", "x y") == "queues.\"x y\"");
    CHECK(join_key("", "x") == "x");
}

TEST_CASE("values are put at, found at and erased from a key", "[value]")
{
    Value root;
    put(root, {"a", "b", "c"}, Value{std::int64_t(1), {}});
    put(root, {"a", "d"}, Value{true, {}});
    REQUIRE(root.find("a.b.c"));
    CHECK(root.json() == Json::parse(R"({"a":{"b":{"c":1},"d":true}})"));
    CHECK_FALSE(root.find("a.b.x"));
    CHECK_FALSE(root.find("a.d.x"));
    CHECK_FALSE(root.find("a..b"));
    CHECK_FALSE(erase(root, "a.b.x"));
    CHECK_FALSE(erase(root, "a.d.x"));
    CHECK(erase(root, "a.b.c"));
    CHECK(root.json() == Json::parse(R"({"a":{"d":true}})")); // b went with c
    put(root, {"a", "d", "e"}, Value{std::string("x"), {}});  // over a boolean
    CHECK(root.json() == Json::parse(R"({"a":{"d":{"e":"x"}}})"));
    CHECK(erase(root, "a.d.e"));
    CHECK(root.json() == Json::object());
}

TEST_CASE("origins read as editors and people expect", "[value]")
{
    Origin origin{"/etc/x.toml", Origin::Kind::file, false, 3, 7};
    CHECK(origin.str() == "/etc/x.toml:3:7");
    CHECK(origin.exit() == Exit::failed);
    origin = {"--conf text (argument 2)", Origin::Kind::text, true, 3, 7};
    CHECK(origin.str() == "--conf text (argument 2), line 3, column 7");
    CHECK(origin.exit() == Exit::usage);
    CHECK(Origin{"parent instance", Origin::Kind::parent}.str() == "parent instance");
}

TEST_CASE("JSON becomes values, but for what a configuration cannot hold", "[value]")
{
    const Origin origin{"parent instance", Origin::Kind::parent};
    const Json json = Json::parse(R"({"a":[1,2.5,"x",{"y":false}],"b":{}})");
    auto value = from_json(json, origin);
    REQUIRE(value);
    CHECK(value->json() == json);
    CHECK(
        from_json(Json::parse(R"({"a":{"b":null}})"), origin).error().message
        == "parent instance: a.b: null has no place in a configuration; leave the key "
           "out");
    CHECK(from_json(Json::parse(R"({"a":9223372036854775808})"), origin).error().message
          == "parent instance: a: integer beyond 64 bits signed");
    CHECK(from_json(Json::parse("9223372036854775807"), origin));
    Json deep = 1;
    for (std::size_t i = 0; i <= value_depth_max; ++i)
        deep = Json{{"k", deep}};
    CHECK(
        from_json(deep, origin).error().message.ends_with("nested more than 32 deep"));
}

TEST_CASE("text for people is one line of valid UTF-8", "[value]")
{
    CHECK(printable("plain \xc3\xa9") == "plain \xc3\xa9");
    CHECK(printable("a\nb\tc\x1b[2Jd\x7f") == "a b c?[2Jd?");
    CHECK(printable("\xff\xc3(\xed\xa0\x80")
          == std::string(2, '?') + "(" + std::string(3, '?'));
    CHECK(printable(std::string(300, 'x')) == std::string(200, 'x') + "...");
}
