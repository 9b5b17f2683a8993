// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/text.h"
#include "tests/unit/conf/scratch.h"

#include <sstream>

using namespace fluxdat;
using namespace fluxdat::conf;

namespace {

Composed from(const std::string& toml)
{
    Composed composed;
    auto root = parse_toml(toml, {"f", Origin::Kind::file});
    REQUIRE(root);
    composed.root = std::move(*root);
    return composed;
}

// As a reader of the text would have it.
Json parsed_again(const Composed& composed)
{
    auto value = parse_toml(composed.toml(), {"again", Origin::Kind::file});
    INFO(composed.toml());
    INFO((value ? "" : value.error().message));
    REQUIRE(value);
    return value->json();
}

} // namespace

TEST_CASE("the configuration prints as TOML with origins", "[explain]")
{
    const auto composed =
        from("top = 1\n"
             "[access]\nallow-guest-user = true\n"
             "[queues.batch]\n"
             "[queues.\"a b\"]\nrequires = [\"x\", \"y\"]\n"
             "[job-manager]\nplugins = [\n"
             "{load = \"a.so\", conf = {x = 1}},\n{remove = \"b.so\"}]\n");
    CHECK(composed.toml()
          == "top = 1  # f:1:1\n"
             "\n"
             "[access]\n"
             "allow-guest-user = true  # f:3:1\n"
             "\n"
             "[job-manager]\n"
             "plugins = [\n"
             "    { conf = { x = 1 }, load = \"a.so\" },  # f:9:1\n"
             "    { remove = \"b.so\" },  # f:10:1\n"
             "]\n"
             "\n"
             "[queues.\"a b\"]\n"
             "requires = [\"x\", \"y\"]  # f:6:1\n"
             "\n"
             "[queues.batch]  # f:4:9\n");
    CHECK(parsed_again(composed) == composed.json());
}

TEST_CASE("whatever can be configured prints as TOML that says the same", "[explain]")
{
    for (const char* json :
         {"{}", R"({"a":{}})", R"({"a":{"b":{}}})", R"({"a":[]})",
          R"({"a":[[],[1],{}]})", R"({"a":[{}]})", R"({"":{"":""}})",
          R"({"a":"quote \" backslash \\ newline \n tab \t \u0001 \u007f é €"})",
          R"({"a.b":{"c d":{"é":1}}})",
          R"({"a":-9223372036854775808,"b":9223372036854775807})",
          R"({"a":1e22,"b":-0.5,"c":60.0,"d":1e-7,"e":1.7976931348623157e308})",
          R"({"a":true,"z":{"y":{"x":[{"w":[{"v":{"u":1}}]}]}},"b":false})"}) {
        INFO(json);
        Composed composed;
        auto root = from_json(Json::parse(json), {"x", Origin::Kind::parent});
        REQUIRE(root);
        composed.root = std::move(*root);
        CHECK(parsed_again(composed) == Json::parse(json));
    }
}

TEST_CASE("an origin cannot break out of its comment", "[explain]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.parent_label = "evil\n[exec]\nimp = \"/x\"\xff";
    inputs.parent = Json::parse(R"({"job-manager":{"prolog":{"command":["/p"]}}})");
    inputs.conf = {"tbon.topo=\"a\\u001b\"", "queues.a={}\n"};
    inputs.conf.pop_back();
    auto composed = compose(inputs);
    REQUIRE(composed);
    CHECK(parsed_again(*composed) == composed->json());
    CHECK(composed->toml().find("# evil [exec] imp = \"/x\"?\n") != std::string::npos);
    composed->explained().dump(); // valid UTF-8, or it would throw
}

TEST_CASE("the configuration explains itself to scripts", "[explain]")
{
    const auto composed = from("[access]\nallow-guest-user = true\n"
                               "[queues.\"a b\"]\n"
                               "[job-manager]\nplugins = [{load = \"a.so\"}]\n"
                               "[ingest.validator]\nplugins = [\"jobspec\"]\n");
    CHECK(composed.explained() == Json::parse(R"({
        "access.allow-guest-user": {"value": true, "origin": "f:2:1"},
        "queues.\"a b\"": {"value": {}, "origin": "f:3:9"},
        "job-manager.plugins[0]": {"value": {"load": "a.so"}, "origin": "f:5:12"},
        "ingest.validator.plugins": {"value": ["jobspec"], "origin": "f:7:1"}})"));
    CHECK(from("").explained() == Json::object());
}

TEST_CASE("the composed template prints every key's origin", "[explain]")
{
    const Scratch scratch;
    auto composed = compose(plain_inputs(scratch));
    REQUIRE(composed);
    CHECK(parsed_again(*composed) == composed->json());
    std::istringstream lines(composed->toml());
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        const bool key = line.find(" = ") != std::string::npos && !line.ends_with("[");
        CHECK(key == (line.find("  # ") != std::string::npos));
    }
}
