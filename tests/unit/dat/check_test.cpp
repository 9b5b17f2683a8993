// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/check.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

Verdict at(Verdict verdict, flux::Hostlist hosts)
{
    verdict.hosts = std::move(hosts);
    return verdict;
}

Json R(const std::string& ranks, const std::string& hosts,
       Json properties = Json::object())
{
    Json lite = Json::array();
    if (!ranks.empty())
        lite.push_back({{"rank", ranks}, {"children", {{"core", "0-1"}}}});
    return {{"version", 1},
            {"execution",
             {{"R_lite", lite},
              {"nodelist", Json::array({hosts})},
              {"properties", std::move(properties)}}}};
}

Nodes four_nodes(const std::string& down = "", const std::string& allocated = "")
{
    Json status = {{"all", R("0-3", "fluke[131-134]", {{"batch", "0-2"}})},
                   {"down", R(down, "")},
                   {"allocated", R(allocated, "")}};
    return *nodes_from(status);
}

flux::Idset eligible_by(const Json& constraint, const std::string& queue = "",
                        const Json& config = Json::object())
{
    Asked asked;
    asked.constraint = constraint;
    return *eligible(four_nodes(), asked, queue, config);
}

Asked nodes_asked(std::uint32_t count)
{
    Asked asked;
    asked.nodes = count;
    return asked;
}

const Json limits = Json::parse(R"({
    "policy": {"limits": {"duration": "2h", "job-size": {"max": {"nnodes": 8}}}},
    "queues": {
        "debug": {"policy": {"limits": {"duration": "30m",
                  "job-size": {"max": {"nnodes": 2}, "min": {"nnodes": 2}}}}},
        "long": {"policy": {"limits": {"job-size": {"max": {"nnodes": -1}}},
                 "jobspec": {"defaults": {"system": {"duration": "1h"}}}}}}})");

Verdict limited(std::uint32_t nodes, double seconds, const std::string& queue)
{
    Asked asked;
    asked.nodes = nodes;
    asked.time_limit = seconds;
    return check_limits(asked, queue, limits);
}

} // namespace

TEST_CASE("verdicts that are equal but for their nodes become one", "[check]")
{
    auto out =
        in_order({at(passed("munge", "works"), {"n2"}),
                  at(failed("munge", "no", "start it on @NODES@"), {"n3"}),
                  passed("flux", "there"), at(passed("munge", "works"), {"n1", "n2"}),
                  at(failed("munge", "no", "start it on @NODES@"), {"n4"})});
    REQUIRE(out.size() == 3);
    CHECK(out[0].id == "flux");
    CHECK(out[1].found == Found::failed);
    CHECK(out[1].hosts == flux::Hostlist{"n3", "n4"});
    CHECK(out[1].remedy == "start it on n[3-4]");
    CHECK(out[2].hosts == flux::Hostlist{"n2", "n1"});
}

TEST_CASE("the exit status is 0 only if nothing failed and all was seen", "[check]")
{
    auto blind = skipped("exec", "no", "", Exit::not_permitted);
    auto wrong_usage = failed("queue", "no", "", Exit::usage);
    CHECK(exit_of({}) == Exit::ok);
    CHECK(exit_of({passed("flux", ""), warned("nodes", ""), skipped("prolog", "")})
          == Exit::ok);
    CHECK(exit_of({passed("flux", ""), blind}) == Exit::not_permitted);
    CHECK(exit_of({blind, failed("imp", "", "")}) == Exit::failed);
    CHECK(exit_of({failed("imp", "", ""), blind, wrong_usage}) == Exit::failed);
    CHECK(exit_of({blind, wrong_usage}) == Exit::usage);
    // A start comes no further than a configuration that is wrong.
    auto wrong = failed("configuration", "no", "", Exit::usage);
    CHECK(exit_of({wrong, failed("imp", "", "")}) == Exit::usage);
    CHECK(exit_of({failed("flux", "", "", Exit::not_permitted)})
          == Exit::not_permitted);
}

TEST_CASE("a verdict survives the way from a node", "[check]")
{
    for (auto& verdict : {passed("imp", "there"), warned("imp", "well"),
                          failed("imp", "no", "do"), skipped("imp", "why")}) {
        auto back = verdict_from_json(to_json(verdict));
        REQUIRE(back);
        CHECK(*back == verdict);
    }
    CHECK(to_json(passed("imp", "x"))["remedy"].is_null());
    CHECK(to_json(at(passed("imp", "x"), {"n1", "n2"}))["nodes"] == "n[1-2]");
    CHECK(verdict_from_json({{"id", "imp"}, {"state", "other"}}).error().message
          == "an answer without a verdict");
    CHECK_FALSE(verdict_from_json({{"state", "ok"}}));
    CHECK_FALSE(verdict_from_json(Json::array()));
}

TEST_CASE("advice at the end of a message is the remedy", "[check]")
{
    auto verdict = failed_with("door-dir", {"a: b; c; do this"}, "other");
    CHECK(verdict.seen == "a: b; c");
    CHECK(verdict.remedy == "do this");
    CHECK(failed_with("door-dir", {"a: b"}, "other").remedy == "other");
    CHECK(failed_with("door-dir", {"a", 0, Exit::usage}).exit == Exit::usage);
}

TEST_CASE("the version of Flux", "[check]")
{
    CHECK(check_version("0.88.0", "u") == passed("flux", "Flux 0.88.0 at u"));
    CHECK(check_version("0.88.0-3-gabc", "u").seen == "Flux 0.88.0-3-gabc at u");
    auto newer = check_version("0.90.1", "u");
    CHECK(newer.found == Found::ok);
    CHECK(newer.seen == "Flux 0.90.1 at u; flux-dat is tested with 0.88");
    auto older = check_version("0.9.0", "u");
    CHECK(older.found == Found::warning);
    CHECK(older.remedy == "upgrade Flux to 0.88, or try a DAT on one node first");
    for (auto text : {"", "x", "1", "1.", "nonsense"})
        CHECK(check_version(text, "u").found == Found::warning);
}

TEST_CASE("which queue a start goes to", "[check]")
{
    Asked none, debug;
    debug.queue = "debug";
    CHECK(*queue_of(none, Json::object()) == "");
    CHECK(
        queue_of(debug, Json::object()).error().message
        == "there is no queue \"debug\", and no named queue at all; leave --queue out");
    CHECK(*queue_of(debug, limits) == "debug");
    CHECK(queue_of(none, limits).error().message
          == "no queue was given and there is no default; choose one of debug, long "
             "with --queue");
    auto with_default = limits;
    with_default["policy"]["jobspec"]["defaults"]["system"]["queue"] = "long";
    CHECK(*queue_of(none, with_default) == "long");
    Asked other;
    other.queue = "other";
    auto wrong = queue_of(other, limits);
    CHECK(wrong.error().message
          == "there is no queue \"other\"; choose one of debug, long with --queue");
    CHECK(wrong.error().exit == Exit::usage);
}

TEST_CASE("a queue that takes no jobs, or runs none", "[check]")
{
    CHECK(check_queue({"", true, true, "", ""})
          == passed("queue", "the queue takes jobs and runs them"));
    CHECK(check_queue({"debug", false, true, "upgrade", ""})
          == failed("queue", "queue debug takes no jobs: upgrade",
                    "flux queue enable debug"));
    CHECK(check_queue({"", true, false, "", "repair"})
          == failed("queue", "the queue is stopped, so that its jobs wait: repair",
                    "flux queue start"));
}

TEST_CASE("limits of policy and queue", "[check]")
{
    CHECK(limited(2, 600, "debug") == passed("limits", "2 nodes, for 10m"));
    CHECK(limited(2, 3600, "debug")
          == failed("limits",
                    "1h is longer than queues.debug.policy.limits.duration allows, 30m",
                    "give --time-limit=30m or less, or have "
                    "queues.debug.policy.limits.duration raised"));
    CHECK(limited(2, 0, "debug")
          == failed("limits",
                    "no time limit is given, and queues.debug.policy.limits.duration "
                    "allows 30m",
                    "give --time-limit=30m or less"));
    CHECK(limited(3, 60, "debug")
          == failed("limits",
                    "3 nodes asked for, and "
                    "queues.debug.policy.limits.job-size.max.nnodes allows 2",
                    "give --nodes=2 or less, or have "
                    "queues.debug.policy.limits.job-size.max.nnodes raised"));
    CHECK(limited(1, 60, "debug")
          == failed("limits",
                    "1 node asked for, and "
                    "queues.debug.policy.limits.job-size.min.nnodes wants 2",
                    "give --nodes=2 or more"));
    // The queue's own go before the general ones: no limit of nodes, a default time.
    CHECK(limited(100, 0, "long") == passed("limits", "100 nodes, for 1h"));
    CHECK(limited(1, 3 * 3600, "long").seen
          == "3h is longer than policy.limits.duration allows, 2h");
    CHECK(limited(9, 60, "").seen
          == "9 nodes asked for, and policy.limits.job-size.max.nnodes allows 8");
    CHECK(check_limits(Asked{}, "", Json::object())
          == passed("limits", "1 node, for as long as it takes"));
}

TEST_CASE("nodes of an instance", "[check]")
{
    auto nodes = four_nodes("1", "2-3");
    CHECK(nodes.all.size() == 4);
    CHECK(nodes.hosts_of(nodes.down) == flux::Hostlist{"fluke132"});
    CHECK(nodes.hosts_of(flux::Idset(9)) == flux::Hostlist{"rank9"});
    CHECK(nodes.properties[2].contains("batch"));
    CHECK_FALSE(nodes.properties[3].contains("batch"));
    CHECK(nodes_from(Json()).error().message
          == "resource.sched-status: all: no R in the answer");
    CHECK_FALSE(nodes_from({{"all", R("x", "")}}));
}

TEST_CASE("which nodes a DAT may get", "[check]")
{
    CHECK(format_idset(eligible_by(nullptr)) == "0-3");
    CHECK(format_idset(eligible_by({{"hostlist", {"fluke[132-133]"}}})) == "1-2");
    CHECK(format_idset(eligible_by({{"properties", {"^batch"}}})) == "3");
    auto config = Json::parse(R"({"queues": {
        "batch": {"requires": ["batch"]}, "own": {"hosts": "all"},
        "virtual": {"parent": "batch"}}})");
    CHECK(format_idset(eligible_by(nullptr, "batch", config)) == "0-2");
    CHECK(format_idset(eligible_by({{"ranks", {"2-3"}}}, "virtual", config)) == "2");
    CHECK(eligible_by(nullptr, "own", config).empty());
    Asked wrong;
    wrong.constraint = {{"colour", {"blue"}}};
    auto refused = eligible(four_nodes(), wrong, "", Json::object());
    CHECK(refused.error().message
          == "--requires: unknown constraint operator 'colour'");
    CHECK(refused.error().exit == Exit::usage);
}

TEST_CASE("enough nodes, up, and free", "[check]")
{
    flux::Idset all(0, 3);
    auto good = check_nodes(four_nodes(), all, nodes_asked(2));
    REQUIRE(good.size() == 1);
    CHECK(good[0] == passed("nodes", "2 nodes asked for, and 4 of 4 up"));
    auto none = check_nodes(four_nodes(), flux::Idset(0, 1), nodes_asked(3));
    CHECK(none[0]
          == failed("nodes",
                    "3 nodes asked for, and 2 in all that constraint and queue allow",
                    "give --nodes=2 or less, or another --requires or --queue"));
    auto down = check_nodes(four_nodes("1-2"), all, nodes_asked(3));
    REQUIRE(down.size() == 2);
    CHECK(down[0]
          == failed("nodes", "3 nodes asked for, and 2 of 4 up: a start would wait",
                    "bring those up that are down"));
    CHECK(down[1].found == Found::warning);
    CHECK(down[1].hosts == flux::Hostlist{"fluke132", "fluke133"});
    CHECK(down[1].seen == "down or drained");
    auto busy = check_nodes(four_nodes("", "0-2"), all, nodes_asked(2));
    CHECK(busy[0]
          == warned("nodes",
                    "2 nodes asked for, and 1 of 4 free now: a start would wait"));
}

TEST_CASE("clocks", "[check]")
{
    CHECK(check_clock(0.5, 0) == passed("clock", "as here"));
    // As far off as the answer took: nobody can tell.
    CHECK(check_clock(-5, 4).found == Found::ok);
    CHECK(check_clock(-30, 0.1).seen == "30 s behind this node's clock");
    CHECK(check_clock(-30, 0.1).found == Found::warning);
    auto far = check_clock(3 * 3600, 0);
    CHECK(
        far
        == failed("clock",
                  "3 h ahead of this node's clock, so that MUNGE refuses guests' jobs",
                  "set the clocks by NTP: chronyc makestep, timedatectl set-ntp "
                  "true"));
    CHECK(check_clock(-600, 0).seen
          == "10 min behind this node's clock, so that MUNGE refuses guests' jobs");
}

TEST_CASE("the version of flux-dat on a node", "[check]")
{
    CHECK(check_program("0.1.0", "0.1.0", "/p") == passed("flux-dat", "0.1.0 at /p"));
    CHECK(check_program("0.0.9", "0.1.0", "/p")
          == failed("flux-dat", "/p is version 0.0.9, and 0.1.0 here",
                    "install flux-dat 0.1.0 there, or keep them out: --requires "
                    "'-host:@NODES@'"));
}
