// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/text.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::conf;

namespace {

const Origin file{"f", Origin::Kind::file};
const Origin argument{"--conf k=v", Origin::Kind::argument, true};

std::string toml_error(std::string_view text)
{
    auto value = parse_toml(text, file);
    return value ? "accepted" : value.error().message;
}

std::string json_error(std::string_view text)
{
    auto value = parse_json(text, file);
    return value ? "accepted" : value.error().message;
}

std::string repeated(std::size_t count, const std::string& text)
{
    std::string out;
    out.reserve(count * text.size());
    for (std::size_t i = 0; i < count; ++i)
        out += text;
    return out;
}

} // namespace

TEST_CASE("TOML: every key knows where it stands", "[text]")
{
    auto value = parse_toml("top = 1\n"
                            "[exec]\n"
                            "  imp = \"/x\"\n"
                            "[a.b]\n"
                            "c.d = [1,\n  \"\u00e9\", { x = true }]\n",
                            file);
    REQUIRE(value);
    CHECK(
        value->json()
        == Json::parse(
            R"({"top":1,"exec":{"imp":"/x"},"a":{"b":{"c":{"d":[1,"é",{"x":true}]}}}})"));
    CHECK(value->find("top")->origin.str() == "f:1:1");
    CHECK(value->find("exec.imp")->origin.str() == "f:3:3");
    CHECK(value->find("a.b.c.d")->origin.line == 5);
    const Array& array = *value->find("a.b.c.d")->array();
    CHECK(array[0].origin.str() == "f:5:8");
    CHECK(array[1].origin.str() == "f:6:3");
    CHECK(array[2].find("x")->origin.str() == "f:6:10"); // characters, not bytes
}

TEST_CASE("TOML: what is wrong, with line and column", "[text]")
{
    CHECK(toml_error("a = 1\nb = \n").starts_with("f:2:"));
    CHECK(toml_error("a = 1\nb = \n").find("not TOML: ") != std::string::npos);
    CHECK(toml_error("a = 1\na = 2\n").starts_with("f:2:"));
    CHECK(toml_error("[x\n").starts_with("f:1:"));
    CHECK(toml_error(std::string_view("a = \"\0\"", 7)).starts_with("f:1:"));
    CHECK(toml_error("a = \"\xff\"").starts_with("f:"));
    CHECK(toml_error("a = 1\nt = 2026-01-31T10:00:00Z\n")
          == "f:2:1: dates and times have no JSON form; write a string");
    CHECK(toml_error("x = inf")
          == "f:1:1: infinite and undefined numbers have no JSON form; write a string");
    CHECK(toml_error("x = [nan]").starts_with("f:1:6: infinite and undefined"));
    CHECK(toml_error("") == "accepted");
}

TEST_CASE("TOML: depth is bounded before it can hurt", "[text]")
{
    const std::string deep = ": nested more than 32 deep";
    CHECK(toml_error(repeated(200000, "a.") + "a = 1").ends_with(deep));
    CHECK(toml_error("[" + repeated(200000, "a.") + "a]\n").ends_with(deep));
    CHECK(toml_error("x = " + repeated(200000, "[")).ends_with(deep));
    CHECK(toml_error("x = " + repeated(200000, "{a=")).ends_with(deep));
    CHECK(toml_error(repeated(20, "a.") + "a = { " + repeated(20, "b.") + "b = 1 }")
              .ends_with(deep)); // each on its own would do
    CHECK(toml_error("\n\n" + repeated(40, "a.") + "a = 1").starts_with("f:3:64: "));
    // Dots and brackets that are no depth.
    CHECK(toml_error("a = \"" + repeated(100, ".[") + "\"") == "accepted");
    CHECK(toml_error("a = '" + repeated(100, ".[") + "\\'") == "accepted");
    CHECK(toml_error("a = \"\\\"" + repeated(100, ".[") + "\"") == "accepted");
    CHECK(toml_error("a = '''x'" + repeated(100, ".[\n") + "'''") == "accepted");
    CHECK(toml_error("a = \"\"\"x\\\"\"" + repeated(100, ".[\n") + "\"\"\"")
          == "accepted");
    CHECK(
        toml_error("# " + repeated(100, ".[") + "\na = [" + repeated(100, "1.5,") + "]")
        == "accepted");
}

TEST_CASE("JSON: every key knows where it stands", "[text]")
{
    auto value = parse_json("{\"a\": {\n"
                            "   \"b\" : [10 , \"\u00e9\",{\"x\":true} ],\n"
                            "   \"c\":-1.5e3}, \"d\":\"\"\n"
                            "}",
                            file);
    REQUIRE(value);
    CHECK(value->json()
          == Json::parse(R"({"a":{"b":[10,"é",{"x":true}],"c":-1500.0},"d":""})"));
    CHECK(value->origin.str() == "f:1:1");
    CHECK(value->find("a")->origin.str() == "f:1:2");
    CHECK(value->find("a.b")->origin.str() == "f:2:4");
    CHECK(value->find("a.c")->origin.str() == "f:3:4");
    CHECK(value->find("d")->origin.str() == "f:3:17");
    const Array& array = *value->find("a.b")->array();
    CHECK(array[0].origin.str() == "f:2:11");
    CHECK(array[1].origin.str() == "f:2:16");
    CHECK(array[2].origin.str() == "f:2:20");
    CHECK(array[2].find("x")->origin.str() == "f:2:21");
}

TEST_CASE("JSON: what is wrong, with line and column", "[text]")
{
    CHECK(json_error("{\"a\": 1,\n  \"b\" 2}")
              .starts_with("f:2:7: not JSON: syntax error"));
    CHECK(json_error("{\"a\": tru}").starts_with("f:1:7: not JSON: syntax error"));
    CHECK(json_error("").starts_with("f:1:1: not JSON: syntax error"));
    CHECK(json_error("{} x").starts_with("f:1:4: not JSON: syntax error"));
    CHECK(json_error("{\"a\": \"\xff\"}").starts_with("f:1:7: not JSON: syntax error"));
    CHECK(json_error("{\"a\": 1e999}").find("not JSON: number overflow")
          != std::string::npos);
    CHECK(json_error("{\"a\": 1,\n\"a\": 2}") == "f:2:1: key \"a\" is given twice");
    CHECK(json_error("{\"a\":\n null}")
          == "f:2:2: null has no place in a configuration");
    CHECK(json_error("[18446744073709551615]")
          == "f:1:2: integer beyond 64 bits signed");
    CHECK(json_error("[99999999999999999999]")
          == "f:1:2: integer beyond 64 bits signed");
    CHECK(json_error(repeated(100000, "[")) == "f:1:33: nested more than 32 deep");
    CHECK(json_error(repeated(100000, "{\"a\":"))
          == "f:1:161: nested more than 32 deep");
    CHECK(json_error(repeated(32, "[") + repeated(32, "]")) == "accepted");
}

TEST_CASE("values on the command line need few quotes", "[text]")
{
    const auto json = [](std::string_view text) {
        auto value = parse_argument_value(text, argument);
        INFO(text);
        REQUIRE(value);
        CHECK(value->origin.str() == "--conf k=v");
        return value->json();
    };
    CHECK(json("true") == true);
    CHECK(json("12") == 12);
    CHECK(json("2.5") == 2.5);
    CHECK(json("\"0\"") == "0");
    CHECK(json("[1, \"a\"]") == Json::parse("[1,\"a\"]"));
    CHECK(json("{\"a\": {\"b\": 1}}") == Json::parse("{\"a\":{\"b\":1}}"));
    // TOML
    CHECK(json("'/x'") == "/x");
    CHECK(json("0x10") == 16);
    CHECK(json("[{load = \"x.so\"}]") == Json::parse("[{\"load\":\"x.so\"}]"));
    CHECK(json("{a = 1}") == Json::parse("{\"a\":1}"));
    // neither
    CHECK(json("/usr/libexec/imp") == "/usr/libexec/imp");
    CHECK(json("1h") == "1h");
    CHECK(json("kary:16") == "kary:16");
    CHECK(json("inf") == "inf");
    CHECK(json("2026-01-31") == "2026-01-31");
    CHECK(json("a b") == "a b");
}

TEST_CASE("values on the command line that are neither text nor value", "[text]")
{
    const auto error = [](std::string_view text) {
        auto value = parse_argument_value(text, argument);
        REQUIRE_FALSE(value);
        CHECK(value.error().exit == Exit::usage);
        return value.error().message;
    };
    const std::string neither = "--conf k=v: the value is neither JSON nor TOML; close "
                                "its quotes or brackets";
    CHECK(error("\"open") == neither);
    CHECK(error("'open") == neither);
    CHECK(error("[1,") == neither);
    CHECK(error("{a") == neither);
    CHECK(error("null") == "--conf k=v: null has no place in a configuration");
    CHECK(error("18446744073709551615") == "--conf k=v: integer beyond 64 bits signed");
}
