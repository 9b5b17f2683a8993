// SPDX-License-Identifier: LGPL-3.0-or-later
// RFC 43: attributes and constraints of job-list.
#include "lib/sandbox/joblist.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::sandbox;

namespace {

JobRecord sample()
{
    JobRecord job;
    job.id = 27229421568;
    job.userid = 1001;
    job.state = state_run;
    job.priority = 16;
    job.name = "app";
    job.queue = "debug";
    job.t_submit = 100;
    job.t_run = 110;
    job.nnodes = 2;
    job.ranks = Idset(2, 3);
    job.hosts = {"fluke133", "fluke134"};
    return job;
}

bool matches(const JobRecord& job, const char* json)
{
    auto filter = JobFilter::parse(Json::parse(json));
    INFO(json);
    REQUIRE(filter);
    return filter->matches(job);
}

std::string refusal(const char* json)
{
    auto filter = JobFilter::parse(Json::parse(json));
    return filter ? "" : filter.error().message;
}

} // namespace

TEST_CASE("each operator looks at its attribute")
{
    auto job = sample();
    CHECK(matches(job, R"({})"));
    CHECK(matches(job, R"({"userid": [1000, 1001]})"));
    CHECK_FALSE(matches(job, R"({"userid": [1000]})"));
    CHECK(matches(job, R"({"userid": [-1]})"));
    CHECK(matches(job, R"({"states": ["running"]})"));
    CHECK(matches(job, R"({"states": ["RUN"]})"));
    CHECK(matches(job, R"({"states": [62]})"));
    CHECK_FALSE(matches(job, R"({"states": ["pending", 64]})"));
    CHECK_FALSE(matches(job, R"({"results": ["completed"]})"));
    CHECK(matches(job, R"({"name": ["x", "app"]})"));
    CHECK(matches(job, R"({"queue": ["debug"]})"));
    CHECK_FALSE(matches(job, R"({"queue": ["batch"]})"));
    CHECK(matches(job, R"({"hostlist": ["fluke[130-133]"]})"));
    CHECK_FALSE(matches(job, R"({"hostlist": ["fluke131"]})"));
    CHECK(matches(job, R"({"ranks": ["0,3"]})"));
    CHECK_FALSE(matches(job, R"({"ranks": ["0-1"]})"));
    CHECK(matches(job, R"({"t_submit": [">=100"]})"));
    CHECK_FALSE(matches(job, R"({"t_submit": [">100"]})"));
    CHECK(matches(job, R"({"t_run": ["<111.5"]})"));
    // A time that the job has not reached compares with nothing.
    CHECK_FALSE(matches(job, R"({"t_inactive": ["<1000"]})"));
    CHECK_FALSE(matches(job, R"({"t_inactive": [">0"]})"));
}

TEST_CASE("operators combine")
{
    auto job = sample();
    CHECK(matches(job, R"({"and": [{"userid": [1001]}, {"states": ["active"]}]})"));
    CHECK_FALSE(matches(job, R"({"and": [{"userid": [1001]}, {"states": [2]}]})"));
    CHECK(matches(job, R"({"or": [{"userid": [7]}, {"states": ["run"]}]})"));
    CHECK_FALSE(matches(job, R"({"not": [{"userid": [1001]}]})"));
    CHECK(matches(job, R"({"or": []})"));
    CHECK(matches(job, R"({"and": []})"));
    CHECK_FALSE(matches(job, R"({"not": []})"));
}

TEST_CASE("a constraint that is none is refused with Flux's text")
{
    CHECK(refusal("3") == "constraint must be JSON object");
    CHECK(refusal(R"({"foo": [1]})") == "unknown constraint operator: foo");
    CHECK(refusal(R"({"states": ["foo"]})") == "invalid states value 'foo' specified");
    CHECK(refusal(R"({"states": [true]})") == "states value must be integer or string");
    CHECK(refusal(R"({"results": ["nope"]})")
          == "invalid results value 'nope' specified");
    CHECK(refusal(R"({"userid": ["foo"]})") == "userid value must be an integer");
    CHECK(refusal(R"({"name": [1]})") == "name value must be a string");
    CHECK(refusal(R"({"t_submit": ["5"]})")
          == "timestamp comparison operator not specified");
    CHECK(refusal(R"({"t_submit": [">x"]})")
          == "timestamp value must be a positive number");
    CHECK(refusal(R"({"t_submit": [5]})") == "timestamp value must be a string");
    CHECK(refusal(R"({"hostlist": ["fl[1"]})")
          == "host value not in valid Hostlist format");
    CHECK(refusal(R"({"ranks": ["x"]})") == "ranks value not in valid Idset format");
    CHECK(refusal(R"({"userid": 1})") == "operator userid values not an array");
    CHECK(refusal(R"({"userid": [1], "name": ["x"]})")
          == "constraint must only contain 1 element");
}

TEST_CASE("a job is described by what it has")
{
    auto job = sample();
    CHECK(describe(job, {"name", "ranks", "nodelist", "result"})
          == Json::parse(R"({"id": 27229421568, "name": "app", "ranks": "[2-3]",
                             "nodelist": "fluke[133-134]"})"));
    auto all = describe(job, {"all"});
    CHECK(all["state"] == 16);
    CHECK_FALSE(all.contains("t_inactive"));
    CHECK_FALSE(all.contains("annotations"));
    CHECK_FALSE(all.contains("success"));
    job.state = state_inactive;
    job.result = result_canceled;
    job.exception = {"cancel", 0, "because"};
    all = describe(job, {"all"});
    CHECK(all["success"] == false);
    CHECK(all["result"] == 4);
    CHECK(all["exception_note"] == "because");
    for (const auto& [name, value] : all.items()) {
        const auto& known = job_attributes();
        CHECK((name == "id"
               || std::find(known.begin(), known.end(), name) != known.end()));
    }
}
