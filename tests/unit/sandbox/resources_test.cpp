// SPDX-License-Identifier: LGPL-3.0-or-later
// Allocation and resource sets, with the notes and summaries that Flux 0.88 gives.
#include "lib/sandbox/resources.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::sandbox;

namespace {

Pool pool_of(const std::string& hosts, std::uint32_t cores)
{
    return Pool(uniform_inventory(*flux::parse_hostlist(hosts), cores));
}

ResourceRequest nodes(std::uint32_t count, std::uint32_t slots = 1,
                      std::uint32_t cores = 1)
{
    ResourceRequest request;
    request.nodes = count;
    request.slots = slots;
    request.cores = cores;
    return request;
}

ResourceRequest slots(std::uint32_t count, std::uint32_t cores = 1)
{
    ResourceRequest request;
    request.slots = count;
    request.cores = cores;
    return request;
}

std::string note(const Pool& pool, const ResourceRequest& request)
{
    auto rc = pool.feasible(request);
    return rc ? "" : rc.error().message;
}

} // namespace

TEST_CASE("a job gets cores of as many nodes as it asked for")
{
    auto pool = pool_of("fluke[131-134]", 4);
    auto first = pool.allocate(nodes(2));
    REQUIRE(first);
    CHECK(summarize(*first) == "rank[0-1]/core0");
    SECTION("the emptiest nodes come first")
    {
        auto second = pool.allocate(nodes(2));
        REQUIRE(second);
        CHECK(summarize(*second) == "rank[2-3]/core0");
    }
    SECTION("an exclusive job wants whole nodes")
    {
        auto request = nodes(2);
        request.exclusive = true;
        auto second = pool.allocate(request);
        REQUIRE(second);
        CHECK(summarize(*second) == "rank[2-3]/core[0-3]");
        CHECK_FALSE(pool.allocate(request));
        pool.free(*first, ranks_of(*first));
        CHECK(pool.allocate(request));
    }
}

TEST_CASE("slots without nodes fill one node after the other")
{
    auto pool = pool_of("fluke[131-134]", 4);
    auto allocation = pool.allocate(slots(5));
    REQUIRE(allocation);
    CHECK(summarize(*allocation) == "rank0/core[0-3] rank1/core0");
    CHECK(allocation->at(0).slots == 4);
    CHECK(allocation->at(1).slots == 1);
    CHECK_FALSE(pool.allocate(slots(12)));
    CHECK(pool.allocate(slots(11)));
}

TEST_CASE("what can never be had is refused with Flux's note")
{
    auto pool = pool_of("fluke[131-134]", 2);
    CHECK(
        note(pool, nodes(5))
        == "unsatisfiable request: need 5 node(s) with 1 cores each, only 4 eligible");
    CHECK(
        note(pool, nodes(1, 3, 2))
        == "unsatisfiable request: need 1 node(s) with 6 cores each, only 0 eligible");
    auto exclusive = nodes(9);
    exclusive.exclusive = true;
    CHECK(note(pool, exclusive)
          == "unsatisfiable request: need 9 exclusive node(s), only 4 eligible");
    CHECK(note(pool, slots(3, 3))
          == "unsatisfiable request: need 3 slot(s) of 3 core(s), only 0 such slot(s) "
             "available (total cores: 8)");
    auto gpu = nodes(1);
    gpu.gpus = 1;
    CHECK(
        note(pool, gpu)
        == "unsatisfiable request: need 1 node(s) with 1 cores and 1 GPUs each, only 0 "
           "eligible");
    gpu.nodes = 0;
    CHECK(
        note(pool, gpu)
        == "unsatisfiable request: need 1 slot(s) with 1 GPU(s) each, only 0 available "
           "(total GPUs: 0)");
    // Feasible is what could be had on an empty machine with all nodes up.
    pool.set_up(0, false);
    REQUIRE(pool.allocate(nodes(3)));
    CHECK(note(pool, nodes(4)) == "");
    CHECK_FALSE(pool.allocate(nodes(4)));
}

TEST_CASE("constraints choose nodes")
{
    auto inventory = uniform_inventory(*flux::parse_hostlist("fluke[131-134]"), 2);
    inventory.nodes[2].properties = {"big"};
    inventory.nodes[3].properties = {"big", "slow"};
    Pool pool(inventory);
    auto summary = [&](const char* json, std::uint32_t count = 1) {
        auto request = nodes(count);
        request.constraint = *Constraint::parse(Json::parse(json));
        auto allocation = pool.allocate(request);
        return allocation ? summarize(*allocation) : "none";
    };
    CHECK(summary(R"({"properties": ["big"]})", 2) == "rank[2-3]/core0");
    CHECK(summary(R"({"properties": ["big", "^slow"]})") == "rank2/core1");
    CHECK(summary(R"({"hostlist": ["fluke[132-133]"]})") == "rank1/core0");
    CHECK(summary(R"({"ranks": ["3"]})") == "rank3/core1");
    CHECK(
        summary(R"({"not": [{"or": [{"ranks": ["0-2"]}, {"properties": ["slow"]}]}]})")
        == "none");
    CHECK(summary(R"({"and": []})") == "rank0/core0");
    CHECK(summary(R"({"not": []})") == "none");
}

TEST_CASE("a constraint that is none is refused")
{
    auto message = [](const char* json) {
        auto rc = Constraint::parse(Json::parse(json));
        return rc ? "" : rc.error().message;
    };
    CHECK(message("3") == "constraints must be a mapping");
    CHECK(message(R"({"foo": []})") == "unknown constraint operator 'foo'");
    CHECK(message(R"({"ranks": "1"})") == "ranks value must be an array");
    CHECK(message(R"({"ranks": [1]})") == "ranks value must be a string");
    CHECK(message(R"({"ranks": ["x"]})") == "Invalid idset: 'x'");
    CHECK(message(R"({"hostlist": ["fluke[1-"]})") == "Invalid hostlist: 'fluke[1-'");
    CHECK(message(R"({"ranks": [], "hostlist": []})")
          == "constraint must only contain one operator");
}

TEST_CASE("R says what a job got")
{
    auto inventory = uniform_inventory(*flux::parse_hostlist("fluke[131-134]"), 2);
    inventory.nodes[1].properties = {"big", "+batch"};
    Pool pool(inventory);
    auto allocation = pool.allocate(slots(3));
    auto R = pool.job_R(*allocation, 100, 160);
    CHECK(R == Json::parse(R"({"version": 1, "execution": {
        "R_lite": [{"rank": "0", "children": {"core": "0-1"}},
                   {"rank": "1", "children": {"core": "0"}}],
        "nodelist": ["fluke[131-132]"], "properties": {"big": "1"},
        "starttime": 100.0, "expiration": 160.0, "nslots": 3}})"));
    SECTION("and is renumbered by the instance that it makes")
    {
        auto request = nodes(2);
        request.constraint = *Constraint::parse({{"ranks", {"1,3"}}});
        auto part = pool.allocate(request);
        auto child = inventory_from_R(pool.job_R(*part, 1, 2));
        REQUIRE(child);
        REQUIRE(child->nodes.size() == 2);
        CHECK(child->nodes[0].host == "fluke132");
        CHECK(child->nodes[0].properties == std::set<std::string>{"big"});
        CHECK(child->nodes[1].host == "fluke134");
        CHECK(child->expiration == 2);
    }
}

TEST_CASE("the instance's resource sets")
{
    auto pool = pool_of("fluke[131-132]", 2);
    auto allocation = pool.allocate(nodes(1));
    pool.set_up(1, false);
    CHECK(pool.allocated_R()["execution"]["R_lite"]
          == Json::parse(R"([{"rank": "0", "children": {"core": "0"}}])"));
    CHECK(pool.down_R()["execution"]["nodelist"] == Json({"fluke132"}));
    CHECK(pool.all_R()["execution"]["R_lite"]
          == Json::parse(R"([{"rank": "0-1", "children": {"core": "0-1"}}])"));
    pool.free(*allocation, ranks_of(*allocation));
    CHECK(pool.allocated_R()["execution"]["R_lite"] == Json::array());
    CHECK(pool.allocated_R()["execution"]["nodelist"] == Json({""}));
}

TEST_CASE("resources come from a configuration")
{
    auto hosts = *flux::parse_hostlist("fluke[131-133]");
    auto good = inventory_from_config(
        Json::parse(R"([{"hosts": "fluke[131-133]", "cores": "0-3"},
                        {"hosts": "fluke133", "properties": ["big"]}])"),
        hosts);
    REQUIRE(good);
    CHECK(good->nodes[0].cores.size() == 4);
    CHECK(good->nodes[2].properties.contains("big"));
    auto message = [&](const char* json) {
        auto rc = inventory_from_config(Json::parse(json), hosts);
        return rc ? "" : rc.error().message;
    };
    CHECK(message("{}") == "resource.config: must be an array of tables");
    CHECK(message("[{}]") == "resource.config[0].hosts: must be there, and a string");
    CHECK_THAT(message(R"([{"hosts": "a[1"}])"),
               Catch::StartsWith("resource.config[0].hosts: "));
    CHECK(message(R"([{"hosts": "fluke131", "cores": 4}])")
          == "resource.config[0].cores: must be a string");
    CHECK(message(R"([{"hosts": "fluke131", "cores": "0-99999"}])")
          == "resource.config[0].cores: more than 65536 cores");
    CHECK(message(R"([{"hosts": "fluke131", "properties": "x"}])")
          == "resource.config[0].properties: must be an array");
    CHECK(message(R"([{"hosts": "fluke131", "properties": [1]}])")
          == "resource.config[0].properties: must be strings");
}

TEST_CASE("an R that is none is refused")
{
    auto message = [](const char* json) {
        auto rc = inventory_from_R(Json::parse(json));
        return rc ? "" : rc.error().message;
    };
    CHECK(message("{}") == "R: no execution.R_lite");
    CHECK(message(R"({"execution": {"R_lite": [{}]}})")
          == "R: an entry of R_lite without rank or cores");
    CHECK(message(R"({"execution": {"R_lite": [{"rank": "0-1",
                      "children": {"core": "0"}}], "nodelist": ["a"]}})")
          == "R: 2 ranks but 1 hosts");
}
