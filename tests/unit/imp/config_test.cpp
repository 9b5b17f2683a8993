// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/config.h. What of it needs root's files is in tests/imp/test_config.py.
#include "lib/imp/config.h"

#include "tests/unit/imp/place.h"

#include <catch2/catch.hpp>
#include <unistd.h>

using namespace fluxdat::imp;
using Catch::Matchers::Contains;

namespace {

struct Read {
    Config config;
    std::vector<Problem> problems;

    std::string text() const
    {
        std::string all;
        for (const auto& problem : problems)
            all += problem_text(problem) + "\n";
        return all;
    }
};

// One set of files for both patterns, as in the test build of the program.
Read read(const Place& place)
{
    Read result;
    auto pattern = place.path("*.toml");
    result.config = read_config({pattern, pattern, getuid()}, result.problems);
    return result;
}

} // namespace

TEST_CASE("config: every key", "[config]")
{
    Place place;
    place.write("a.toml", R"(
allow-sudo = true
log-level = "debug"
[exec]
allowed-users = ["flux", "alice"]
allowed-shells = ["/usr/libexec/flux/flux-shell"]
readers = ["json"]
allow-unprivileged-exec = true
pam-support = true
require-grant = true
require-containment = true
[run.prolog]
path = "/etc/flux/system/prolog"
allowed-users = ["flux"]
allowed-environment = ["FLUX_*"]
[sign]
max-ttl = 60
default-type = "munge"
allowed-types = ["munge", "none"]
[sign.munge]
socket-path = "/run/munge/other"
)");
    auto [config, problems] = read(place);
    CHECK(problems.empty());
    CHECK(config.allow_sudo);
    CHECK(config.log_level == LogLevel::debug);
    CHECK(config.exec.allowed_users == std::vector<std::string>{"flux", "alice"});
    CHECK(config.exec.allowed_shells
          == std::vector<std::string>{"/usr/libexec/flux/flux-shell"});
    CHECK(config.exec.readers == std::vector<std::string>{"json"});
    CHECK(config.exec.allow_unprivileged_exec);
    CHECK(config.exec.pam_support);
    CHECK(config.exec.require_grant);
    CHECK(config.exec.require_containment);
    CHECK(config.exec.file == place.path("a.toml"));
    const auto& prolog = config.run.at("prolog");
    CHECK(prolog.path == "/etc/flux/system/prolog");
    CHECK(prolog.allowed_users == std::vector<std::string>{"flux"});
    CHECK(prolog.allowed_environment == std::vector<std::string>{"FLUX_*"});
    CHECK(config.sign.policy.max_ttl == 60);
    CHECK(config.sign.policy.allowed
          == std::vector<Mechanism>{Mechanism::munge, Mechanism::none});
    CHECK(config.sign.policy.munge_socket == "/run/munge/other");
}

TEST_CASE("config: what is not set is refused or off", "[config]")
{
    Place place;
    place.write("a.toml", "");
    auto [config, problems] = read(place);
    CHECK(problems.empty());
    CHECK(config.exec.allowed_users.empty());
    CHECK(config.exec.allowed_shells.empty());
    CHECK_FALSE(config.exec.allow_unprivileged_exec);
    CHECK_FALSE(config.exec.pam_support);
    CHECK_FALSE(config.exec.require_grant);
    CHECK_FALSE(config.exec.require_containment);
    CHECK_FALSE(config.allow_sudo);
    CHECK_FALSE(config.sign.set);
    CHECK(config.run.empty());
    // kv is for tests.
    CHECK(config.exec.readers == std::vector<std::string>{"json", "helper", "flux"});
}

TEST_CASE("config: a table takes the place of the whole table before it", "[config]")
{
    Place place;
    place.write("a.toml", "[exec]\nallowed-users = ['a']\nrequire-grant = true\n"
                          "[run.x]\npath = '/x'\n");
    place.write("b.toml", "[exec]\nallowed-users = ['b']\n[run.y]\npath = '/y'\n");
    auto result = read(place);
    CHECK(result.config.exec.allowed_users == std::vector<std::string>{"b"});
    CHECK_FALSE(result.config.exec.require_grant);
    CHECK_FALSE(result.config.run.contains("x"));
    CHECK(result.config.run.contains("y"));
    REQUIRE(result.problems.size() == 2);
    CHECK(result.problems[0].severity == Problem::Severity::warning);
    CHECK_THAT(result.text(),
               Contains("b.toml:1: [exec] takes the place of")
                   && Contains(place.path("a.toml"))
                   && Contains("[run] takes the place of all of [run.*]"));
}

TEST_CASE("config: two sets of files", "[config]")
{
    Place place;
    place.write("imp.toml", "[exec]\nallowed-users = ['a']\n[sign]\nmax-ttl = 1\n");
    place.write("sec.toml", "[sign]\nallowed-types = ['munge']\n[exec]\n");
    std::vector<Problem> problems;
    auto config = read_config(
        {place.path("imp*.toml"), place.path("sec*.toml"), getuid()}, problems);
    CHECK(config.sign.policy.max_ttl == sign_max_ttl_default);
    CHECK(config.sign.set);
    CHECK(config.exec.allowed_users == std::vector<std::string>{"a"});
    REQUIRE(problems.size() == 2);
    CHECK_THAT(problem_text(problems[0]),
               Contains("imp.toml") && Contains("\"sign\" is not known here"));
    CHECK_THAT(problem_text(problems[1]),
               Contains("sec.toml") && Contains("\"exec\" is not known here"));
    CHECK(problems[0].severity == Problem::Severity::note);
}

TEST_CASE("config: no files", "[config]")
{
    Place place;
    CHECK_THAT(read(place).text(), Contains("*.toml: there is no such file"));
}
