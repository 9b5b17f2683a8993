// SPDX-License-Identifier: LGPL-3.0-or-later
// Mustaches, output, command lines: what is text in and text out.
#include "lib/sandbox/broker_options.h"
#include "lib/sandbox/config.h"
#include "lib/sandbox/eventlog.h"
#include "lib/sandbox/mustache.h"
#include "lib/sandbox/output.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::sandbox;

TEST_CASE("names in braces get their values")
{
    auto render = [](std::string_view text) {
        return render_mustache(text,
                               [](std::string_view name) -> std::optional<std::string> {
                                   if (name == "id")
                                       return "ƒABC";
                                   if (name == "empty")
                                       return "";
                                   return std::nullopt;
                               });
    };
    CHECK(render("") == "");
    CHECK(render("plain") == "plain");
    CHECK(render("-c{{id}}/conf.json") == "-cƒABC/conf.json");
    CHECK(render("{{id}}{{id}}") == "ƒABCƒABC");
    CHECK(render("a{{empty}}b") == "ab");
    CHECK(render("{{nope}} {{ id }}") == "{{nope}} {{ id }}");
    CHECK(render("{{id") == "{{id");
    CHECK(render("}}{{id}}{") == "}}ƒABC{");
}

TEST_CASE("output is text where it can be")
{
    auto io = [](std::string_view bytes) {
        Json out;
        set_data(out, bytes);
        CHECK(get_data(out) == bytes);
        return out;
    };
    CHECK(io("hi\n") == Json{{"data", "hi\n"}});
    CHECK(io("ƒ") == Json{{"data", "ƒ"}});
    CHECK(io("a\xff"
             "b")
          == Json{{"encoding", "base64"}, {"data", "Yf9i"}});
    CHECK(io(std::string_view("a\0b", 3))["encoding"] == "base64");
    CHECK_FALSE(is_text("\xc3"));             // cut off
    CHECK_FALSE(is_text("\xc0\x80"));         // overlong
    CHECK_FALSE(is_text("\xed\xa0\x80"));     // surrogate
    CHECK_FALSE(is_text("\xf4\x90\x80\x80")); // beyond Unicode
    CHECK(is_text("\xf4\x8f\xbf\xbf"));
    CHECK(get_data(Json::object()) == "");
    CHECK(get_data({{"data", 3}}) == "");
    CHECK(get_data({{"data", "*"}, {"encoding", "base64"}}) == "");
}

TEST_CASE("a stream is cut into lines")
{
    std::vector<std::string> lines;
    auto sink = [&](std::string_view line) { lines.emplace_back(line); };
    LineBuffer buffer;
    buffer.feed("a\nb", sink);
    CHECK(lines == std::vector<std::string>{"a\n"});
    buffer.feed("c\n\nd", sink);
    CHECK(lines == std::vector<std::string>{"a\n", "bc\n", "\n"});
    buffer.flush(sink);
    CHECK(lines.back() == "d");
    lines.clear();
    buffer.flush(sink);
    CHECK(lines.empty());
    buffer.feed(std::string(LineBuffer::line_max + 5, 'x'), sink);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].size() == LineBuffer::line_max);
    buffer.flush(sink);
    CHECK(lines[1] == "xxxxx");
}

TEST_CASE("an event is one line of JSON")
{
    CHECK(format_event(1552593348.5, "start", nullptr)
          == "{\"timestamp\":1552593348.500000,\"name\":\"start\"}\n");
    CHECK(
        format_event(1, "finish", {{"status", 0}})
        == "{\"timestamp\":1.000000,\"name\":\"finish\",\"context\":{\"status\":0}}\n");
}

TEST_CASE("the command line of flux broker")
{
    auto parse = [](std::vector<std::string> words) {
        return parse_broker_options(words);
    };
    auto options = parse({"-c/tmp/conf.json", "-Slocal-uri=local:///d/local",
                          "--setattr=tbon.topo=kary:256", "-S", "broker.rc2_none=1",
                          "-v", "flux-dat", "supervise", "-S", "x"});
    REQUIRE(options);
    CHECK(options->config_path == "/tmp/conf.json");
    CHECK(options->attributes
          == std::map<std::string, std::string>{{"local-uri", "local:///d/local"},
                                                {"tbon.topo", "kary:256"},
                                                {"broker.rc2_none", "1"}});
    CHECK(options->program
          == std::vector<std::string>{"flux-dat", "supervise", "-S", "x"});
    CHECK(parse({"--config-path", "/x"})->config_path == "/x");
    CHECK(parse({"--", "-x"})->program == std::vector<std::string>{"-x"});
    CHECK(parse({})->program.empty());
    CHECK(parse({"-Sa"})->attributes.at("a") == "");
    CHECK(parse({"--nope"}).error().message == "unrecognized option '--nope'");
    CHECK(parse({"-c"}).error().message == "option '-c' requires an argument");
    CHECK(parse({"-S=1"}).error().message == "--setattr: no attribute in \"=1\"");
}

TEST_CASE("a configuration is TOML or JSON")
{
    CHECK(*parse_config("[access]\nallow-guest-user = true\n[[a.b]]\nx = 1.5\n", "f")
          == Json::parse(R"({"access": {"allow-guest-user": true},
                             "a": {"b": [{"x": 1.5}]}})"));
    CHECK(*parse_config(" {\"a\": [1]}", "f") == Json{{"a", {1}}});
    CHECK_THAT(parse_config("[a]\nb = \n", "f.toml").error().message,
               Catch::StartsWith("f.toml:2:"));
    CHECK_THAT(parse_config("{\"a\"", "f.json").error().message,
               Catch::StartsWith("f.json: "));
    CHECK_THAT(load_config("/nonexistent/x.toml").error().message,
               Catch::StartsWith("cannot read /nonexistent/x.toml: No such file"));
    Json config = {{"a", {{"x", 1}, {"y", 2}}}};
    merge_config(config, {{"a", {{"x", 3}}}, {"b", 4}});
    CHECK(config == Json{{"a", {{"x", 3}, {"y", 2}}}, {"b", 4}});
}
