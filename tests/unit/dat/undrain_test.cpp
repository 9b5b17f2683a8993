// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/undrain.h"
#include "tests/unit/flux/fake_broker.h"

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

TEST_CASE("Whose groups cannot be told is not taken to be on the list, nor off it")
{
    Record record;
    record.guests = {1, false, {17}, {20}};
    Desired list(record, 1, 0);
    CHECK(*is_off_list(list, 18, std::vector<gid_t>{19}));
    CHECK_FALSE(*is_off_list(list, 18, std::vector<gid_t>{20}));
    CHECK_FALSE(*is_off_list(list, 17, std::nullopt));
    auto unknown = is_off_list(list, 18, std::nullopt);
    REQUIRE(!unknown);
    CHECK(unknown.error().message
          == "it cannot be told at the moment in which groups the user 18 is");
    record.guests.groups.clear(); // then nobody needs to know
    CHECK(*is_off_list(Desired(record, 1, 0), 18, std::nullopt));
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

TEST_CASE("A drain that cannot be judged does not keep the others from it")
{
    std::vector<std::string> undrained;
    auto broker = test::FakeBroker::answering([&](auto& client, const auto& request) {
        auto payload = *flux::parse_json(request.payload_text());
        if (*request.topic == "resource.undrain") {
            undrained.push_back(payload["targets"]);
            return client.respond(request, "{}");
        }
        CHECK(*request.topic == "job-list.list-id");
        // No memos: their owner could make the answer too large to be read.
        CHECK(payload["attrs"] == json::array({"userid"}));
        if (payload["id"] == job)
            return client.respond(request, "no JSON");
        client.respond_json(request,
                            {{"job", {{"id", payload["id"]}, {"userid", 17}}}});
    });
    flux::Loop loop;
    auto flow = [&]() -> flux::Task<Result<>> {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        flux::Interrupt end, done;
        Undrainer undrainer(loop, **dat, end,
                            [](uid_t user, Drains::Drain) -> flux::Task<Result<bool>> {
                                CHECK(user == 17);
                                co_return true;
                            });
        undrainer.on_undrain = [&](const flux::Idset&, flux::JobId id, uid_t) {
            CHECK(id == job + 1);
            done.raise({"done"});
        };
        undrainer.apply(answer(
            {event("drain", {{"idset", "0"}, {"reason", of_job}}),
             event("drain", {{"idset", "2"},
                             {"reason", flux::format_jobid(job + 1)
                                            + " terminated before first barrier"}})}));
        undrainer.judge();
        (void)co_await loop.sleep(60, &done);
        CHECK(done.reason());
        (void)co_await loop.sleep(0); // whoever called on_undrain goes on first
        end.raise({"the end"});
        (void)co_await loop.sleep(0);
        co_return Result<>{};
    };
    REQUIRE(loop.run(flow()));
    broker.join();
    CHECK(undrained == std::vector<std::string>{"2"});
}
