// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/idset.h: RFC 22, and the set against std::set.
#include "lib/flux/idset.h"

#include <catch2/catch.hpp>
#include <iterator>
#include <random>
#include <set>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;

static_assert(std::forward_iterator<Idset::Iterator>);

namespace {

Idset accepted(std::string_view text)
{
    INFO(text);
    auto ids = parse_idset(text);
    if (!ids)
        FAIL(ids.error().message);
    return *ids;
}

std::string refusal(std::string_view text)
{
    INFO(text);
    auto ids = parse_idset(text);
    REQUIRE_FALSE(ids.has_value());
    CHECK(ids.error().exit == Exit::usage);
    return ids.error().message;
}

std::vector<std::uint32_t> listed(const Idset& ids)
{
    return {ids.begin(), ids.end()};
}

} // namespace

TEST_CASE("idset: the examples of RFC 22", "[idset]")
{
    auto expected = std::vector<std::uint32_t>{1, 2, 3, 5, 6, 42};
    for (auto text : {"1,2,3,5,6,42", "1-3,5-6,42", "[1-3,5-6,42]", "[1,2-3,5,6,42]"}) {
        CHECK(listed(accepted(text)) == expected);
        CHECK(format_idset(accepted(text)) == "1-3,5-6,42");
        CHECK(format_idset_bracketed(accepted(text)) == "[1-3,5-6,42]");
    }
}

TEST_CASE("idset: none and one", "[idset]")
{
    for (auto text : {"", "[]"}) {
        auto ids = accepted(text);
        CHECK(ids.empty());
        CHECK(ids.size() == 0);
        CHECK(ids.begin() == ids.end());
        CHECK_FALSE(ids.first().has_value());
        CHECK_FALSE(ids.last().has_value());
        CHECK_FALSE(ids.contains(0));
        CHECK(format_idset(ids).empty());
        CHECK(format_idset_bracketed(ids).empty());
    }
    CHECK(listed(accepted("0")) == std::vector<std::uint32_t>{0});
    CHECK(accepted("[2-2]") == Idset(2));
    CHECK(format_idset_bracketed(Idset(2)) == "2");
}

TEST_CASE("idset: the largest id, and the most of them", "[idset]")
{
    CHECK(accepted("4294967294").last() == idset_id_max);
    CHECK_THAT(refusal("4294967295"), Contains("too large"));
    CHECK_THAT(refusal("99999999999999999999"), Contains("too large"));
    CHECK(accepted("0-1048575").size() == idset_ids_max);
    CHECK(accepted("0-1048574,2000000").size() == idset_ids_max);
    CHECK_THAT(refusal("0-1048576"), Contains("more than 1048576 ids"));
    CHECK_THAT(refusal("0-1048574,2000000-2000001"), Contains("more than"));
    CHECK_THAT(refusal("0-4294967294"), Contains("more than"));
}

TEST_CASE("idset: what RFC 22 does not allow is refused at its column", "[idset]")
{
    CHECK_THAT(refusal("1,2,a"),
               Contains("\"1,2,a\" is no idset: column 5: expected an id"));
    CHECK_THAT(refusal("01"), Contains("column 1") && Contains("leading zeros"));
    CHECK_THAT(refusal("1-02"), Contains("column 3") && Contains("leading zeros"));
    CHECK_THAT(refusal("00"), Contains("leading zeros"));
    CHECK_THAT(refusal("2,1"), Contains("must ascend"));
    CHECK_THAT(refusal("1,1"), Contains("must ascend"));
    CHECK_THAT(refusal("1-3,3-4"), Contains("must ascend"));
    CHECK_THAT(refusal("3-1"), Contains("wrong way round"));
    CHECK_THAT(refusal("1,"), Contains("column 3: expected an id"));
    CHECK_THAT(refusal(","), Contains("column 1: expected an id"));
    CHECK_THAT(refusal("1,,2"), Contains("column 3: expected an id"));
    CHECK_THAT(refusal("1-"), Contains("column 3: expected an id"));
    CHECK_THAT(refusal("-1"), Contains("column 1: expected an id"));
    CHECK_THAT(refusal("1-2-3"), Contains("column 4: expected a comma"));
    CHECK_THAT(refusal("1 2"), Contains("column 2: expected a comma"));
    CHECK_THAT(refusal(" 1"), Contains("column 1: expected an id"));
    CHECK_THAT(refusal("1\n"), Contains("column 2: expected a comma"));
    CHECK_THAT(refusal("["), Contains("never closed"));
    CHECK_THAT(refusal("[1"), Contains("never closed"));
    CHECK_THAT(refusal("1]"), Contains("column 2: expected a comma"));
    CHECK_THAT(refusal("[1]]"), Contains("column 3: expected a comma"));
    CHECK_THAT(refusal("[[1]]"), Contains("column 2: expected an id"));
    CHECK_THAT(refusal("[1],2"), Contains("never closed"));
    CHECK_THAT(refusal("1.5"), Contains("column 2"));
    CHECK_THAT(refusal(std::string_view("1\0", 2)), Contains("\\x00"));
}

TEST_CASE("idset: a set behaves as a set", "[idset]")
{
    std::mt19937 random(22);
    Idset ids;
    std::set<std::uint32_t> model;
    for (int step = 0; step < 3000; step++) {
        auto first = static_cast<std::uint32_t>(random() % 200);
        auto last = first + static_cast<std::uint32_t>(random() % 8);
        bool add = random() % 2;
        for (auto id = first; id <= last; id++)
            add ? void(model.insert(id)) : void(model.erase(id));
        add ? ids.insert(first, last) : ids.remove(first, last);

        REQUIRE(listed(ids) == std::vector<std::uint32_t>(model.begin(), model.end()));
        REQUIRE(ids.size() == model.size());
        REQUIRE(ids.contains(first) == model.contains(first));
        REQUIRE(parse_idset(format_idset(ids)) == ids);
    }
}

TEST_CASE("idset: union and difference", "[idset]")
{
    auto ids = accepted("0-3,10");
    ids.insert(accepted("4,8-12"));
    CHECK(format_idset(ids) == "0-4,8-12");
    ids.remove(accepted("0,3-9,12"));
    CHECK(format_idset(ids) == "1-2,10-11");
    ids.insert(ids);
    CHECK(format_idset(ids) == "1-2,10-11");
    ids.remove(ids);
    CHECK(ids.empty());

    Idset ends(0);
    ends.insert(idset_id_max);
    ends.insert(0, 0);
    CHECK(format_idset(ends) == "0,4294967294");
    ends.remove(idset_id_max);
    CHECK(ends == Idset(0));
}
