// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/environment.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

const Environment process{{"PATH", "/bin"},
                          {"HOME", "/home/u"},
                          {"OMP_A", "1"},
                          {"OMP_B", "2"},
                          {"FLUX_URI", "local:///x"}};

Environment apply(std::vector<std::string> rules)
{
    auto built = job_environment(process, rules);
    if (!built)
        FAIL(built.error().message);
    return *built;
}

std::string error_of(std::vector<std::string> rules)
{
    auto built = job_environment(process, rules);
    REQUIRE(!built);
    CHECK(built.error().exit == Exit::usage);
    return built.error().message;
}

} // namespace

TEST_CASE("Without rules a job gets what the process has, but its instance's")
{
    auto built = apply({});
    CHECK(built.at("PATH") == "/bin");
    CHECK(!built.contains("FLUX_URI"));
}

TEST_CASE("Rules remove, copy, set, in order")
{
    CHECK(apply({"-*"}).empty());
    CHECK(apply({"-/.*/"}).empty());
    CHECK(apply({"-*", "PATH"}) == Environment{{"PATH", "/bin"}});
    CHECK(apply({"-*", "OMP_*"}) == Environment{{"OMP_A", "1"}, {"OMP_B", "2"}});
    CHECK(apply({"-*", "/^OMP_[B-Z]/"}) == Environment{{"OMP_B", "2"}});
    CHECK(apply({"-*", "nothing*"}).empty());
    CHECK(apply({"-*", "A=1", "-A"}).empty());
    // A copy does not replace what is there; what a variable is set to does.
    CHECK(apply({"-*", "PATH=/x", "PATH"}).at("PATH") == "/x");
    CHECK(apply({"X=", "X=2"}).at("X") == "2");
}

TEST_CASE("Values are substituted")
{
    CHECK(apply({"PATH=$PATH:/x"}).at("PATH") == "/bin:/x");
    CHECK(apply({"-*", "P=${HOME}ly"}).at("P") == "/home/uly");
    CHECK(apply({"A=1", "B=$A$A"}).at("B") == "11");
    CHECK(apply({"A=$$HOME"}).at("A") == "$HOME");
    CHECK(apply({"A={{tmpdir}}=x"}).at("A") == "{{tmpdir}}=x");
}

TEST_CASE("Rules from a file")
{
    char name[] = "/tmp/flux-dat-test.XXXXXX";
    close(mkstemp(name));
    std::ofstream(name) << "# for the tests\n\n  -*  \nFOO=bar\nBAR=${FOO}/baz\n";
    auto built = apply({"^" + std::string(name)});
    CHECK(built == Environment{{"FOO", "bar"}, {"BAR", "bar/baz"}});
    std::ofstream(name) << "^" << name << "\n";
    CHECK_THAT(error_of({"^" + std::string(name)}), Catch::Contains("circle"));
    std::remove(name);
    CHECK_THAT(error_of({"^" + std::string(name)}), Catch::Contains("cannot read"));
}

TEST_CASE("Bad rules")
{
    using Catch::Contains;
    CHECK_THAT(error_of({""}), Contains("empty"));
    CHECK_THAT(error_of({"=x"}), Contains("no variable"));
    CHECK_THAT(error_of({"A=$NOT_SET"}), Contains("$NOT_SET is not set"));
    CHECK_THAT(error_of({"A=${HOME:-x}"}), Contains("names no variable"));
    CHECK_THAT(error_of({"A=1$"}), Contains("names no variable"));
    CHECK_THAT(error_of({"-/(/"}), Contains("bad regular expression"));
}
