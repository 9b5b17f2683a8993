// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/ranks.h"

#include <catch2/catch.hpp>

using namespace fluxdat::dat;
using nlohmann::json;

namespace {

json event(const char* name, json context)
{
    return {{"timestamp", 1.0}, {"name", name}, {"context", std::move(context)}};
}

json answer(std::vector<json> events)
{
    return {{"events", std::move(events)}};
}

} // namespace

TEST_CASE("The ranks that are up are followed once the past has been told")
{
    RanksUp ranks;
    ranks.apply(answer({event("restart", {{"ranks", "0-3"}, {"online", "0"}})}));
    ranks.apply(answer({event("resource-define", {{"method", "job-info"}}),
                        event("online", {{"idset", "1-3"}}),
                        event("offline", {{"idset", "2"}})}));
    CHECK(!ranks.is_current());
    ranks.apply(answer({}));
    CHECK(ranks.is_current());
    CHECK(ranks.count() == 3);
    ranks.apply(answer({event("offline", {{"idset", "1,3"}})}));
    CHECK(ranks.count() == 1);
    ranks.apply(answer({event("online", {{"idset", "1"}})}));
    CHECK(ranks.count() == 2);
    ranks.apply(answer({event("restart", {{"ranks", "0-3"}, {"online", ""}})}));
    CHECK(ranks.count() == 0);
}

TEST_CASE("What is no news of ranks changes nothing")
{
    RanksUp ranks;
    ranks.apply(answer({event("online", {{"idset", "0-1"}})}));
    for (auto& strange :
         {json(nullptr), json(3), json::object(), json{{"events", 3}},
          answer({json(3)}), answer({json::object()}), answer({event("online", 3)}),
          answer({event("online", {{"idset", "x"}})}),
          answer({event("offline", {{"idset", 1}})}),
          answer({event("drain", {{"idset", "0"}})})}) {
        ranks.apply(strange);
        CHECK(ranks.count() == 2);
        CHECK(!ranks.is_current());
    }
}

TEST_CASE("A rank and what is wrong with it go through JSON")
{
    Rank rank{3, "fluke134", "/run/flux/dat-fABC.3", true, {"mode is 0755, not 0710"}};
    auto back = rank_from_json(to_json(rank));
    CHECK(back.rank == rank.rank);
    CHECK(back.host == rank.host);
    CHECK(back.door == rank.door);
    CHECK(back.up == rank.up);
    CHECK(back.wrong == rank.wrong);
    CHECK(rank_from_json(3).wrong.empty());
}
