// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/hostlist.h: RFC 29 with its test vectors, and what Flux 0.88 was seen to do.
#include "lib/flux/hostlist.h"

#include <catch2/catch.hpp>
#include <fmt/ranges.h>
#include <random>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;

namespace {

Hostlist accepted(std::string_view text)
{
    INFO(text);
    auto hosts = parse_hostlist(text);
    if (!hosts)
        FAIL(hosts.error().message);
    return *hosts;
}

std::string expanded(std::string_view text)
{
    return fmt::format("{}", fmt::join(accepted(text), ","));
}

std::string refusal(std::string_view text)
{
    INFO(text);
    auto hosts = parse_hostlist(text);
    REQUIRE_FALSE(hosts.has_value());
    CHECK(hosts.error().exit == Exit::usage);
    return hosts.error().message;
}

std::string folded(std::string_view text)
{
    return format_hostlist(accepted(text));
}

} // namespace

TEST_CASE("hostlist: the test vectors of RFC 29", "[hostlist]")
{
    CHECK(accepted("").empty());
    CHECK(expanded("foox,fooy,fooz") == "foox,fooy,fooz");
    CHECK(expanded("[1-3,5-6]") == "1,2,3,5,6");
    CHECK(expanded("foo[1-5]") == "foo1,foo2,foo3,foo4,foo5");
    CHECK(expanded("foo[0-4]-eth2")
          == "foo0-eth2,foo1-eth2,foo2-eth2,foo3-eth2,foo4-eth2");
    CHECK(expanded("foo1,foo1,foo1") == "foo1,foo1,foo1");
    CHECK(expanded("[00-02]") == "00,01,02");
    CHECK(expanded("[00-2]") == "00,01,02");
    CHECK(expanded("foo[1,1,2,1]") == "foo1,foo1,foo2,foo1");
}

TEST_CASE("hostlist: leading zeros", "[hostlist]")
{
    CHECK(expanded("x[098-102]") == "x098,x099,x100,x101,x102");
    CHECK(expanded("x[9-11]") == "x9,x10,x11");
    CHECK(expanded("x[98-0100]") == "x98,x99,x100");
    // As Flux writes and reads it; RFC 29 says 005,004.
    CHECK(expanded("[005,4,11-12]") == "005,4,11,12");
    CHECK(expanded("[9,010]") == "9,010");
    CHECK(expanded("x[0-1]") == "x0,x1");
    CHECK(expanded("x[00000000000000000000000001]") == "x00000000000000000000000001");
}

TEST_CASE("hostlist: empty expressions count for nothing", "[hostlist]")
{
    CHECK(expanded("a,,b") == "a,b");
    CHECK(expanded("a,") == "a");
    CHECK(accepted(",").empty());
    CHECK(expanded("x[1],,[2]y,") == "x1,2y");
}

TEST_CASE("hostlist: what RFC 29 does not allow is refused at its column", "[hostlist]")
{
    CHECK_THAT(refusal("foo[1-2"),
               Contains("\"foo[1-2\" is no hostlist: column 4: the bracket is never"));
    CHECK_THAT(refusal("foo["), Contains("column 5: expected a number"));
    CHECK_THAT(refusal("foo[]"), Contains("column 5: expected a number"));
    CHECK_THAT(refusal("foo[1,]"), Contains("column 7: expected a number"));
    CHECK_THAT(refusal("foo[1,,2]"), Contains("column 7: expected a number"));
    CHECK_THAT(refusal("foo[1-]"), Contains("column 7: expected a number"));
    CHECK_THAT(refusal("foo[-1]"), Contains("column 5: expected a number"));
    CHECK_THAT(refusal("foo[a]"), Contains("column 5: expected a number"));
    CHECK_THAT(refusal("foo[ 1]"), Contains("column 5: expected a number"));
    CHECK_THAT(refusal("foo[1x]"), Contains("column 6: expected a comma"));
    CHECK_THAT(refusal("foo[1-2-3]"), Contains("column 8: expected a comma"));
    CHECK_THAT(refusal("foo[[1]]"), Contains("column 5: expected a number"));
    CHECK_THAT(refusal("foo[3-1]"), Contains("wrong way round"));
    CHECK_THAT(refusal("foo1]"), Contains("column 5: a closing bracket without"));
    CHECK_THAT(refusal("foo[1]]"), Contains("column 7: a closing bracket without"));
    CHECK_THAT(refusal("foo[0-1][2-3]"), Contains("column 9: a second bracket"));
    CHECK_THAT(refusal("a b"), Contains("column 2: white space"));
    CHECK_THAT(refusal("a, b"), Contains("column 3: white space"));
    CHECK_THAT(refusal("a\tb"), Contains("column 2: a character"));
    CHECK_THAT(refusal("é1"), Contains("column 1: a character"));
    CHECK_THAT(refusal(std::string_view("a\0b", 3)), Contains("column 2: a character"));
}

TEST_CASE("hostlist: short texts that stand for too much", "[hostlist]")
{
    CHECK(accepted("x[0-1048575]").size() == hostlist_hosts_max);
    CHECK_THAT(refusal("x[0-1048576]"), Contains("more than 1048576 hosts"));
    CHECK_THAT(refusal("x[0-1048575],y"), Contains("more than"));
    CHECK_THAT(refusal("x[0-18446744073709551615]"), Contains("more than"));
    CHECK(expanded("x[18446744073709551614-18446744073709551615]")
          == "x18446744073709551614,x18446744073709551615");
    CHECK_THAT(refusal("x[18446744073709551616]"), Contains("number is too large"));
    CHECK_THAT(refusal(std::string(249, 'x') + "[100000-399999]"), Contains("32 MiB"));
    CHECK(accepted(std::string(254, 'x') + "[1]").size() == 1);
    CHECK_THAT(refusal(std::string(254, 'x') + "[9-10]"), Contains("255 characters"));
    CHECK_THAT(refusal(std::string(256, 'x')), Contains("255 characters"));
    CHECK_THAT(refusal("[" + std::string(255, '0') + "1]"), Contains("too long"));
}

TEST_CASE("hostlist: neighbours are folded, order and names kept", "[hostlist]")
{
    CHECK(format_hostlist({}).empty());
    CHECK(folded("fluke131,fluke132,fluke133,fluke134") == "fluke[131-134]");
    CHECK(folded("fluke131") == "fluke131");
    CHECK(folded("foo8,foo9,foo10,foo11") == "foo[8-11]");
    CHECK(folded("foo08,foo09,foo10,foo11") == "foo[08-11]");
    CHECK(folded("foo[1,1,2,1]") == "foo[1,1-2,1]");
    CHECK(folded("foo[5,4,3]") == "foo[5,4,3]");
    CHECK(folded("a1,a3,b1,b2,a2") == "a[1,3],b[1-2],a2");
    CHECK(folded("a,a,b1") == "a,a,b1");
    CHECK(folded("001,002") == "[001-002]");
    CHECK(folded("foo0-eth2,foo1-eth2") == "foo0-eth2,foo1-eth2");
    CHECK(folded("node1-ib,node2-ib") == "node1-ib,node2-ib");
    // Flux writes foo[9-10,011], which RFC 29 reads differently.
    CHECK(folded("foo9,foo10,foo011") == "foo[9-10],foo011");
    CHECK(folded("foo099,foo100,foo5") == "foo[099-100],foo5");
    CHECK(folded("x99999999999999999999,x100000000000000000000")
          == "x99999999999999999999,x100000000000000000000");
}

TEST_CASE("hostlist: what is folded unfolds to the same", "[hostlist]")
{
    std::mt19937 random(29);
    for (int round = 0; round < 2000; round++) {
        Hostlist hosts;
        for (auto n = random() % 12; n > 0; n--) {
            std::string host;
            for (auto length = 1 + random() % 4; length > 0; length--)
                host.push_back("ab-019"[random() % 6]);
            hosts.push_back(host);
        }
        auto text = format_hostlist(hosts);
        INFO(text);
        REQUIRE(parse_hostlist(text) == hosts);
    }
}
