// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/schema.h"

#include "lib/conf/text.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::conf;

namespace {

std::string type_error(std::string_view toml)
{
    auto value = parse_toml(toml, {"f", Origin::Kind::file});
    REQUIRE(value);
    auto result = check_types(*value);
    if (result)
        return "accepted";
    CHECK(result.error().exit == Exit::failed);
    return result.error().message;
}

} // namespace

TEST_CASE("a value of the wrong type is told with key, line and column", "[schema]")
{
    CHECK(type_error("[access]\nallow-guest-user = 1")
          == "f:2:1: access.allow-guest-user must be a boolean, not an integer");
    CHECK(type_error("[exec]\n  imp = true")
          == "f:2:3: exec.imp must be a string, not a boolean");
    CHECK(type_error("exec = 3") == "f:1:1: exec must be a table, not an integer");
    CHECK(type_error("[exec]\nmax-kill-count = 1.5")
          == "f:2:1: exec.max-kill-count must be an integer, not a number");
    CHECK(type_error("[exec]\nkill-timeout = 5")
          == "f:2:1: exec.kill-timeout must be a string, not an integer");
    CHECK(
        type_error("[ingest.validator]\nplugins = \"jobspec\"")
        == "f:2:1: ingest.validator.plugins must be an array of strings, not a string");
    CHECK(type_error("[ingest.validator]\nplugins = [\n  1 ]")
          == "f:3:3: ingest.validator.plugins[0] must be a string, not an integer");
    CHECK(type_error("[resource]\nverify = \"x\"")
          == "f:2:1: resource.verify must be a boolean or a table, not a string");
    CHECK(type_error("[resource.config]\nhosts = \"x\"")
          == "f:1:11: resource.config must be an array, not a table");
    CHECK(type_error("[job-manager.prolog]\nkill-timeout = \"x\"")
          == "f:2:1: job-manager.prolog.kill-timeout must be a number, not a string");
    CHECK(type_error("[queues.\"a b\"]\nrequires = 1")
          == "f:2:1: queues.\"a b\".requires must be an array of strings, not an "
             "integer");
    CHECK(
        type_error("[policy.limits.job-size.max]\nnnodes = \"2\"")
        == "f:2:1: policy.limits.job-size.max.nnodes must be an integer, not a string");
}

TEST_CASE("plugin directives have their form", "[schema]")
{
    const std::string head = "[job-manager]\nplugins = ";
    CHECK(
        type_error(head + "3")
        == "f:2:1: job-manager.plugins must be an array of tables, each with a string "
           "load or remove, not an integer");
    CHECK(type_error(head + "[\"perilog.so\"]")
          == "f:2:12: job-manager.plugins[0] must be a table, not a string");
    CHECK(type_error(head + "[{load = 1}]")
          == "f:2:13: job-manager.plugins[0].load must be a string, not an integer");
    CHECK(type_error(head + "[{load = \"x\", conf = 1}]")
          == "f:2:25: job-manager.plugins[0].conf must be a table, not an integer");
    CHECK(type_error(head + "[{load = \"x\"}, {conf = {}}]")
          == "f:2:26: job-manager.plugins[1] has neither load nor remove");
    CHECK(type_error(head + "[{load = \"x\", conf = {a = 1}}, {remove = \"all\"}]")
          == "accepted");
}

TEST_CASE("right types and unknown keys pass", "[schema]")
{
    CHECK(type_error(R"(
[access]
allow-guest-user = true
roles.admin.users = ["a"]
[exec]
max-start-delay-percent = 25
sdexec-properties.MemoryMax = "95%"
[job-manager.prolog]
kill-timeout = 60
[job-manager.epilog]
kill-timeout = 1.5
command = ["/x", "y"]
[resource]
verify = { default = "strict" }
[queues.batch]
requires = ["batch"]
policy.limits.job-size.max.nnodes = -1
[sched-fluxion-qmanager]
queue-policy = "easy"
[job-manager.some-plugin]
x = 1
)") == "accepted");
}
