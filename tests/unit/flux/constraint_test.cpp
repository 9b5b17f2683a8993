// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/constraint.h: RFC 35 with its examples, flux-alloc(1) with its own, and what
// Flux 0.88 was seen to make of each.
#include "lib/flux/constraint.h"

#include <catch2/catch.hpp>
#include <random>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;

namespace {

std::string json(std::string_view query)
{
    INFO(query);
    auto constraint = parse_constraint(query);
    if (!constraint)
        FAIL(constraint.error().message);
    return constraint->dump();
}

std::string refusal(std::string_view query)
{
    INFO(query);
    auto constraint = parse_constraint(query);
    REQUIRE_FALSE(constraint.has_value());
    CHECK(constraint.error().exit == Exit::usage);
    CHECK_THAT(constraint.error().message, Contains("constraint "));
    return constraint.error().message;
}

} // namespace

TEST_CASE("constraint: the examples of RFC 35", "[constraint]")
{
    CHECK(json("foo") == R"({"properties":["foo"]})");
    CHECK(json("foo bar") == R"({"properties":["foo","bar"]})");
    CHECK(json("foo bar rank:0")
          == R"({"and":[{"properties":["foo","bar"]},{"ranks":["0"]}]})");
    CHECK(
        json("a|b|c")
        == R"({"or":[{"properties":["a"]},{"properties":["b"]},{"properties":["c"]}]})");
    CHECK(json("a|b&c") == R"({"or":[{"properties":["a"]},{"properties":["b","c"]}]})");
    CHECK(
        json("(a|b)&c")
        == R"({"and":[{"or":[{"properties":["a"]},{"properties":["b"]}]},{"properties":["c"]}]})");
    CHECK(
        json("(a|-b)&c")
        == R"({"and":[{"or":[{"properties":["a"]},{"not":[{"properties":["b"]}]}]},{"properties":["c"]}]})");
}

TEST_CASE("constraint: the examples of flux-alloc(1)", "[constraint]")
{
    for (auto query : {"a b c", "a&b&c", "a,b,c", "a and b and c", "a && b && c",
                       "properties:a,b,c", "(a b) c", "a (b&c)", " a\tb\nc "})
        CHECK(json(query) == R"({"properties":["a","b","c"]})");
    CHECK(json("a|b|c") == json("a or b or c"));
    CHECK(json("a|b|c") == json("a || b||c"));
    CHECK(json("(a and b) or (b and c)")
          == R"({"or":[{"properties":["a","b"]},{"properties":["b","c"]}]})");
    CHECK(json("b|-c") == json("b or not c"));
    CHECK(json("b|-c")
          == R"({"or":[{"properties":["b"]},{"not":[{"properties":["c"]}]}]})");
    for (auto query : {"host:fluke[1-5]", "hosts:fluke[1-5]", "hostlist:fluke[1-5]"})
        CHECK(json(query) == R"({"hostlist":["fluke[1-5]"]})");
    CHECK(json("-host:fluke7") == R"({"not":[{"hostlist":["fluke7"]}]})");
    CHECK(json("rank:0") == R"({"ranks":["0"]})");
    CHECK(json("ranks:[0-2,5]") == R"({"ranks":["[0-2,5]"]})");
}

TEST_CASE("constraint: how tightly things bind", "[constraint]")
{
    CHECK(json("a b|c") == json("(a&b)|c"));
    CHECK(json("a and b or c") == json("(a b) or (c)"));
    CHECK(json("not a b")
          == R"({"and":[{"not":[{"properties":["a"]}]},{"properties":["b"]}]})");
    CHECK(json("not a|b")
          == R"({"or":[{"not":[{"properties":["a"]}]},{"properties":["b"]}]})");
    CHECK(json("not (a b)") == R"({"not":[{"properties":["a","b"]}]})");
    CHECK(json("not not a") == R"({"not":[{"not":[{"properties":["a"]}]}]})");
    CHECK(json("-a,b") == R"({"not":[{"properties":["a","b"]}]})");
    CHECK(json("- a") == json("-a"));
    CHECK(json("a -b")
          == R"({"and":[{"properties":["a"]},{"not":[{"properties":["b"]}]}]})");
    CHECK(
        json("a host:x b")
        == R"({"and":[{"properties":["a"]},{"hostlist":["x"]},{"properties":["b"]}]})");
    CHECK(json("host:a host:b")
          == R"({"and":[{"hostlist":["a"]},{"hostlist":["b"]}]})");
    CHECK(
        json("a|(b|c)")
        == R"({"or":[{"properties":["a"]},{"or":[{"properties":["b"]},{"properties":["c"]}]}]})");
    CHECK(json("((a))") == json("a"));
    CHECK(json("(a)(b)") == json("a b"));
}

TEST_CASE("constraint: words that only look like operators", "[constraint]")
{
    CHECK(json("andy nota orb") == R"({"properties":["andy","nota","orb"]})");
    CHECK(json("a AND b") == R"({"properties":["a","AND","b"]})");
    CHECK(json("a-b") == R"({"properties":["a-b"]})");
    CHECK(json("properties:and") == R"({"properties":["and"]})");
    CHECK(json("'and'") == R"({"properties":["and"]})");
    CHECK(json("not \"not\"") == R"({"not":[{"properties":["not"]}]})");
    CHECK(json("not'a'") == json("not a"));
    CHECK(json("é+x@gpu a.b=c*d") == R"({"properties":["é+x@gpu","a.b=c*d"]})");
    CHECK(json("host:-a") == R"({"hostlist":["-a"]})");
}

TEST_CASE("constraint: a caret in front of a property is kept", "[constraint]")
{
    CHECK(json("^a") == R"({"properties":["^a"]})");
    CHECK(json("a ^b") == R"({"properties":["a","^b"]})");
    CHECK(json("properties:^a,b|^c")
          == R"({"or":[{"properties":["^a","b"]},{"properties":["^c"]}]})");
}

TEST_CASE("constraint: quotes", "[constraint]")
{
    CHECK(json("'a b'") == R"({"properties":["a b"]})");
    CHECK(json("\"a b\"|c")
          == R"({"or":[{"properties":["a b"]},{"properties":["c"]}]})");
    CHECK(json("properties:'a b'") == R"({"properties":["a b"]})");
    CHECK(json("-'a b'") == R"({"not":[{"properties":["a b"]}]})");
    CHECK(json("'host:a'") == R"({"hostlist":["a"]})");
    CHECK(json("host:\"a[1-2]\"") == R"({"hostlist":["a[1-2]"]})");
    CHECK(json("('a')") == json("a"));
    CHECK_THAT(refusal("it's"), Contains("column 3: a quote in the middle of a word"));
    CHECK_THAT(refusal("a 'b"), Contains("column 3: the quote is never closed"));
    CHECK_THAT(refusal("host:'b"), Contains("column 6: the quote is never closed"));
    CHECK_THAT(refusal("\"a'"), Contains("column 1: the quote is never closed"));
    CHECK_THAT(refusal("'a'b"), Contains("column 4: text follows the closing quote"));
    CHECK_THAT(refusal("''"), Contains("nothing follows \"properties:\""));
}

TEST_CASE("constraint: errors point at the column", "[constraint]")
{
    CHECK_THAT(
        refusal("a and"),
        Contains("constraint \"a and\": column 6: expected a term after \"and\""));
    CHECK_THAT(refusal("and"), Contains("column 1: expected a term"));
    CHECK_THAT(refusal("a or or b"),
               Contains("column 6: expected a term after \"or\""));
    CHECK_THAT(refusal("a & & b"), Contains("column 5: expected a term after \"&\""));
    CHECK_THAT(refusal("a|||b"), Contains("column 4: expected a term after \"||\""));
    CHECK_THAT(refusal("|a"), Contains("column 1: expected a term"));
    CHECK_THAT(refusal("not"), Contains("column 4: expected a term after \"not\""));
    CHECK_THAT(refusal("-"), Contains("column 2: expected a term after \"-\""));
    CHECK_THAT(refusal("--a"), Contains("column 2: expected a term after \"-\""));
    CHECK_THAT(refusal("-not a"), Contains("column 2: expected a term after \"-\""));
    CHECK_THAT(refusal("-(a|b)"), Contains("column 2: \"-\" negates a single term"));
    CHECK_THAT(refusal("()"), Contains("column 2: expected a term after \"(\""));
    CHECK_THAT(refusal("(a"), Contains("column 1: the parenthesis is never closed"));
    CHECK_THAT(refusal("a ((b) c"), Contains("column 3: the parenthesis is never"));
    CHECK_THAT(refusal("a)"), Contains("column 2: a closing parenthesis without"));
    CHECK_THAT(refusal(")"), Contains("column 1: expected a term"));
    // Columns are characters, not bytes.
    CHECK_THAT(refusal("éé and"), Contains("column 7: expected a term"));
}

TEST_CASE("constraint: operators and operands are checked", "[constraint]")
{
    CHECK_THAT(refusal("a bogus:x"),
               Contains("column 3: unknown operator \"bogus\" (known are properties, "
                        "hostlist, host, hosts, ranks and rank)"));
    CHECK_THAT(refusal(":a"), Contains("column 1: unknown operator \"\""));
    CHECK_THAT(refusal("and:b"), Contains("unknown operator \"and\""));
    CHECK_THAT(refusal("a:b:c"), Contains("unknown operator \"a\""));
    CHECK_THAT(refusal("host:"), Contains("column 1: nothing follows \"host:\""));
    CHECK_THAT(refusal("a|properties: b"), Contains("column 3: nothing follows"));
    CHECK_THAT(refusal("a host:b[1"),
               Contains("column 3: \"b[1\" is no hostlist: column 2: the bracket"));
    CHECK_THAT(refusal("host:'a b'"),
               Contains("is no hostlist: column 2: white space"));
    CHECK_THAT(refusal("host:,"), Contains("no host in it"));
    CHECK_THAT(refusal("rank:x"), Contains("\"x\" is no idset: column 1"));
    CHECK_THAT(refusal("rank:2,1"), Contains("is no idset"));
    CHECK_THAT(refusal("rank:[]"), Contains("no rank in it"));
    for (auto query : {"a,", ",a", "a,,b", "^", "a,^"})
        CHECK_THAT(refusal(query), Contains("column 1: a property without a name"));
    CHECK_THAT(refusal("a^b"), Contains("no property has \"^\" in its name"));
    CHECK_THAT(refusal("^^b"), Contains("no property has \"^\" in its name"));
    CHECK_THAT(refusal("a!"), Contains("no property has \"!\" in its name"));
    CHECK_THAT(refusal("'a|b'"), Contains("no property has \"|\" in its name"));
    CHECK_THAT(refusal("'a\"b'"), Contains("no property has"));
}

TEST_CASE("constraint: empty, too long, too deep, not UTF-8", "[constraint]")
{
    CHECK_THAT(refusal(""), Contains("it is empty"));
    CHECK_THAT(refusal(" \t"), Contains("it is empty"));
    CHECK_THAT(refusal(std::string(constraint_bytes_max + 1, 'a')), Contains("longer"));
    CHECK_THAT(refusal("a\xff"), Contains("not UTF-8"));

    auto repeated = [](std::string_view text, std::size_t times) {
        std::string out;
        while (times-- > 0)
            out += text;
        return out;
    };
    CHECK(json(repeated("(", 32) + "a" + repeated(")", 32)) == json("a"));
    CHECK_THAT(refusal(repeated("(", 33) + "a" + repeated(")", 33)),
               Contains("column 33: nested more than 32 deep"));
    CHECK_THAT(refusal(repeated("not ", 33) + "a"), Contains("nested more than"));
    CHECK_THAT(refusal(repeated("(", 60000)), Contains("nested more than"));
    // One after the other is not deep.
    CHECK_FALSE(json(repeated("(a) ", 1000)).empty());
}

TEST_CASE("constraint: any text is refused or made into JSON that holds",
          "[constraint]")
{
    const std::vector<std::string> pieces{
        "a",     "b:",   "host:", "x[1-2]", "(", ")", "|", "&",      "-",  "not ",
        " and ", " or ", "'",     "\"",     ",", "^", " ", "rank:0", "\n", "é"};
    std::mt19937 random(35);
    for (int i = 0; i < 20000; i++) {
        std::string query;
        for (auto n = random() % 12; n > 0; n--)
            query += pieces[random() % pieces.size()];
        INFO(query);
        auto constraint = parse_constraint(query);
        if (constraint) {
            CHECK(constraint->is_object());
            CHECK(constraint->size() == 1);
        } else {
            CHECK_FALSE(constraint.error().message.empty());
        }
    }
}
