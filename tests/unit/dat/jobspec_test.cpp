// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/jobspec.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

Submission submission()
{
    Submission result;
    result.nodes = 2;
    result.name = "demo";
    result.environment = {{"A", "1"}};
    return result;
}

DatFile dat_file()
{
    DatFile file;
    file.record.name = "demo";
    file.record.guests.generation = 1;
    file.record.guests.users = {1001};
    return file;
}

Json jobspec_of(const Submission& options)
{
    auto jobspec = dat_jobspec(options, dat_file(), Json{{"exec", {{"imp", "/imp"}}}},
                               "/usr/bin/flux-dat");
    if (!jobspec)
        FAIL(jobspec.error().message);
    return *jobspec;
}

} // namespace

TEST_CASE("A DAT's jobspec: whole nodes, a launcher on each, its files")
{
    auto jobspec = jobspec_of(submission());
    CHECK(jobspec["version"] == 1);
    CHECK(jobspec["resources"][0]["type"] == "node");
    CHECK(jobspec["resources"][0]["count"] == 2);
    CHECK(jobspec["resources"][0]["exclusive"] == true);
    CHECK(jobspec["resources"][0]["with"][0]["with"][0]["type"] == "core");
    CHECK(jobspec["tasks"][0]["count"] == Json{{"per_slot", 1}});
    CHECK(jobspec["tasks"][0]["command"][0] == "/usr/bin/flux-dat");
    CHECK(jobspec["tasks"][0]["command"][1] == "launch");
    auto& system = jobspec["attributes"]["system"];
    CHECK(system["duration"] == 0);
    CHECK(system["job"]["name"] == "demo");
    CHECK(system["environment"] == Json{{"A", "1"}});
    CHECK(system["shell"]["options"]["per-resource"]["type"] == "node");
    CHECK(system["shell"]["options"]["exit-timeout"] == "none");
    CHECK(system["files"]["conf.json"]["data"]["exec"]["imp"] == "/imp");
    CHECK(system["files"]["conf.json"]["mode"] == 33152);
    CHECK(system["files"]["dat.json"]["data"]["users"] == Json{1001});
    CHECK(!system.contains("queue"));
    CHECK(!system.contains("dependencies"));
    CHECK(is_dat_jobspec(jobspec));
}

TEST_CASE("The options of flux-alloc go where Flux looks for them")
{
    auto options = submission();
    options.queue = "batch";
    options.bank = "b1";
    options.time_limit = 90;
    options.begin_time = 1796033122.5;
    options.constraints = Json{{"properties", {"ssd"}}};
    options.setopts = {"verbose", "cpu-affinity=off", "rlimit.nofile=1024"};
    options.setattrs = {"project=p1", "system.x.y=[1]", "user.note=hello", ".z=true"};
    auto attributes = jobspec_of(options)["attributes"];
    auto& system = attributes["system"];
    CHECK(system["queue"] == "batch");
    CHECK(system["bank"] == "b1");
    CHECK(system["duration"] == 90);
    CHECK(system["dependencies"][0]["scheme"] == "begin-time");
    CHECK(system["dependencies"][0]["value"] == "1796033122.500000");
    CHECK(system["constraints"] == Json{{"properties", {"ssd"}}});
    CHECK(system["shell"]["options"]["verbose"] == 1);
    CHECK(system["shell"]["options"]["cpu-affinity"] == "off");
    CHECK(system["shell"]["options"]["rlimit"]["nofile"] == 1024);
    CHECK(system["project"] == "p1");
    CHECK(system["x"]["y"] == Json{1});
    CHECK(attributes["user"]["note"] == "hello");
    CHECK(attributes["z"] == true);
}

TEST_CASE("Options that cannot be applied")
{
    auto error_of = [](std::vector<std::string> setopts,
                       std::vector<std::string> setattrs) {
        auto options = submission();
        options.setopts = std::move(setopts);
        options.setattrs = std::move(setattrs);
        auto jobspec = dat_jobspec(options, dat_file(), Json::object(), "/x");
        REQUIRE(!jobspec);
        CHECK(jobspec.error().exit == Exit::usage);
        return jobspec.error().message;
    };
    using Catch::Contains;
    CHECK_THAT(error_of({""}, {}), Contains("is no key"));
    CHECK_THAT(error_of({"a..b=1"}, {}), Contains("is no key"));
    CHECK_THAT(error_of({"mpi.x=1"}, {}), Contains("holds a value"));
    CHECK_THAT(error_of({}, {"cwd.x=1"}), Contains("holds a value"));
    CHECK_THAT(error_of({}, {"^a=/nonexistent"}), Contains("cannot read"));
}

TEST_CASE("What the launcher reads is what start wrote")
{
    char name[] = "/tmp/flux-dat-test.XXXXXX";
    close(mkstemp(name));
    auto file = dat_file();
    file.door_dir = "/run/x";
    std::ofstream(name) << to_json(file).dump();
    auto read = read_dat_file(name);
    REQUIRE(read);
    CHECK(read->record.guests == file.record.guests);
    CHECK(read->door_dir == "/run/x");
    std::ofstream(name) << "{\"version\":1";
    auto cut = read_dat_file(name);
    REQUIRE(!cut);
    CHECK_THAT(cut.error().message, Catch::Contains(name));
    std::remove(name);
    CHECK(!read_dat_file(name));
}

TEST_CASE("A guest's jobspec")
{
    auto shape = [](std::optional<std::uint32_t> nodes, std::uint32_t tasks) {
        auto jobspec = command_jobspec(submission(), {nodes, tasks, 1}, {"id", "-u"});
        if (!jobspec)
            FAIL(jobspec.error().message);
        return *jobspec;
    };
    auto plain = shape({}, 3);
    CHECK(plain["resources"][0]["type"] == "slot");
    CHECK(plain["resources"][0]["count"] == 3);
    CHECK(plain["tasks"][0]["count"] == Json{{"per_slot", 1}});
    CHECK(plain["tasks"][0]["command"] == Json{"id", "-u"});
    auto even = shape(2, 4);
    CHECK(even["resources"][0]["count"] == 2);
    CHECK(even["resources"][0]["with"][0]["count"] == 2);
    auto uneven = shape(2, 3);
    CHECK(uneven["resources"][0]["with"][0]["count"] == 2);
    CHECK(uneven["tasks"][0]["count"] == Json{{"total", 3}});
    CHECK(!command_jobspec(submission(), {5, 3, 1}, {"id"}));
    CHECK(!is_dat_jobspec(plain));
}
