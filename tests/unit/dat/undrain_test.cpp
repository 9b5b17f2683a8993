// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/undrain.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::dat;
using nlohmann::json;

namespace {

// As Flux 0.88 has it.
const std::string of_job = "\u0192EcE4g5u terminated before first barrier";
constexpr flux::JobId job = 518013321216;

json event(const char* name, const json& context, double when = 0)
{
    return {{"timestamp", when}, {"name", name}, {"context", context}};
}

json answer(std::vector<json> events)
{
    return {{"events", std::move(events)}};
}

} // namespace

TEST_CASE("The job that a drain is about")
{
    CHECK(job_ended_early(of_job) == job);
    CHECK(job_ended_early("fEcE4g5u terminated before first barrier") == job);
    for (auto* other :
         {"", "terminated before first barrier", " terminated before first barrier",
          "the disk is full", "?! terminated before first barrier",
          "\u0192EcE4g5u terminated before first barrier, says the administrator",
          "prolog failed for job \u0192EcE4g5u"})
        CHECK(!job_ended_early(other));
}

TEST_CASE("Ranks that are drained for a job that ended early")
{
    Drains drains;
    drains.apply(answer({event("restart", {{"ranks", "0-3"}, {"online", ""}}),
                         event("drain", {{"idset", "0"}, {"reason", of_job}}, 5)}));
    CHECK(drains.by_rank().at(0) == Drains::Drain{job, 5, false});
    drains.apply(answer({}));
    drains.apply(answer({event("drain", {{"idset", "1-3"}, {"reason", of_job}}, 6)}));
    CHECK(drains.by_rank().at(3) == Drains::Drain{job, 6, true});
    drains.apply(answer({event("undrain", {{"idset", "1-2"}})}));
    CHECK(drains.by_rank().size() == 2);
    // An administrator's word counts from then on.
    drains.apply(
        answer({event("drain", {{"idset", "3"}, {"reason", "bad"}, {"overwrite", 1}}),
                event("drain", {{"idset", "0"}, {"overwrite", 1}})}));
    CHECK(drains.by_rank().empty());
}

TEST_CASE("What is no news of drains changes nothing")
{
    Drains drains;
    drains.apply(answer({event("drain", {{"idset", "0-1"}, {"reason", of_job}}, 5)}));
    for (auto& strange :
         {json(nullptr), json(3), json::object(), json{{"events", 3}},
          answer({json(3)}), answer({json::object()}), answer({event("undrain", 3)}),
          answer({event("undrain", {{"idset", "x"}})}),
          answer({event("undrain", {{"idset", 1}})}),
          answer({event("offline", {{"idset", "0"}})})}) {
        drains.apply(strange);
        CHECK(drains.by_rank().size() == 2);
        CHECK(!drains.by_rank().at(1).current);
    }
}
