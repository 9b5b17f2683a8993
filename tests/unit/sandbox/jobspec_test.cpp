// SPDX-License-Identifier: LGPL-3.0-or-later
// RFC 25 as job-ingest takes it, and what queues make of a job (RFC 33).
#include "lib/sandbox/jobspec.h"
#include "lib/sandbox/queues.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::sandbox;

namespace {

Json valid()
{
    return Json::parse(R"({"version": 1,
        "resources": [{"type": "node", "count": 2, "exclusive": true, "with": [
            {"type": "slot", "count": 3, "label": "task", "with": [
                {"type": "core", "count": 4}]}]}],
        "tasks": [{"command": ["/bin/app", "-x"], "slot": "task",
                   "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60, "cwd": "/tmp",
            "environment": {"A": "b", "N": 3}}}})");
}

// What parse_jobspec() says when the value at a JSON pointer is another; null removes.
std::string refusal(const char* pointer, Json value)
{
    auto document = valid();
    Json::json_pointer at(pointer);
    if (value.is_null())
        document[at.parent_pointer()].erase(at.back());
    else
        document[at] = std::move(value);
    auto spec = parse_jobspec(document.dump());
    return spec ? "" : spec.error().message;
}

Queues queues_of(const char* json)
{
    Inventory inventory = uniform_inventory({"a", "b"}, 1);
    auto queues = Queues::from_config(Json::parse(json), inventory);
    REQUIRE(queues);
    return *queues;
}

std::string admission(Queues queues, Jobspec spec)
{
    auto rc = queues.admit(spec);
    return rc ? "" : rc.error().message;
}

Jobspec spec_of(const char* queue = nullptr, double duration = 60)
{
    auto document = valid();
    document["attributes"]["system"]["duration"] = duration;
    if (queue)
        document["attributes"]["system"]["queue"] = queue;
    return *parse_jobspec(document.dump());
}

} // namespace

TEST_CASE("a jobspec says what to run and on what")
{
    auto spec = parse_jobspec(valid().dump());
    REQUIRE(spec);
    CHECK(spec->request.nodes == 2);
    CHECK(spec->request.slots == 3);
    CHECK(spec->request.cores == 4);
    CHECK(spec->request.exclusive);
    CHECK(spec->command == std::vector<std::string>{"/bin/app", "-x"});
    CHECK(spec->name == "app");
    CHECK(spec->duration == 60);
    CHECK(spec->environment == Environment{"A=b"});
    CHECK(spec->exit_timeout == "30s");
    CHECK_FALSE(spec->document["attributes"]["system"].contains("environment"));
}

TEST_CASE("a jobspec's attributes and shell options")
{
    auto document = valid();
    document["attributes"]["system"].update(Json::parse(R"({
        "job": {"name": "demo"}, "queue": "debug",
        "dependencies": [{"scheme": "begin-time", "value": "12.5"}],
        "files": {"conf.json": {"mode": 33152, "data": {"a": 1}},
                  "s": {"mode": 33261, "data": "text", "encoding": "utf-8"},
                  "b": {"mode": 33188, "data": "aGk=", "encoding": "base64"},
                  "l": {"mode": 41471, "data": "/target"}},
        "shell": {"options": {"per-resource": {"type": "node"},
                              "exit-timeout": "none", "exit-on-error": 1}}})"));
    auto spec = parse_jobspec(document.dump());
    REQUIRE(spec);
    CHECK(spec->name == "demo");
    CHECK(spec->queue == "debug");
    REQUIRE(spec->dependencies.size() == 1);
    CHECK(spec->dependencies[0].value == "12.5");
    CHECK(spec->tasks_per_node == 1u);
    CHECK(spec->exit_timeout == "none");
    CHECK(spec->exit_on_error);
    REQUIRE(spec->files.size() == 4);
    CHECK(spec->files[0].content == "hi"); // by name: b, conf.json, l, s
    CHECK(spec->files[0].mode == 0644);
    CHECK(spec->files[1].content == R"({"a":1})");
    CHECK(spec->files[1].mode == 0600);
    CHECK(spec->files[2].symlink);
    CHECK(spec->files[3].mode == 0755);
}

TEST_CASE("a jobspec that is none is refused")
{
    CHECK_THAT(parse_jobspec("xx").error().message,
               Catch::StartsWith("jobspec: invalid JSON: "));
    CHECK(refusal("/version", nullptr) == "invalid jobspec: missing key (version)");
    CHECK(refusal("/version", 2) == "version must be 1");
    CHECK(refusal("/foo", 1) == "invalid jobspec: unexpected key (foo)");
    CHECK(refusal("/attributes/system", nullptr)
          == "invalid jobspec: attributes.system must be a mapping");
    CHECK(refusal("/tasks", Json::array())
          == "invalid jobspec: tasks must be a list of one task");
    CHECK(refusal("/tasks/0/command", Json::array())
          == "invalid jobspec: command array cannot have length of zero");
    CHECK(refusal("/tasks/0/command", "x")
          == "invalid jobspec: command must be a list of strings");
    CHECK(refusal("/tasks/0/command/0", std::string("a\0b", 3))
          == "invalid jobspec: command has a NUL character");
    CHECK(refusal("/tasks/0/count", 1) == "invalid jobspec: count must be a mapping");
    CHECK(refusal("/tasks/0/count", Json::object())
          == "invalid jobspec: count must have per_slot or total");
    CHECK(refusal("/tasks/0/count/per_slot", 0)
          == "invalid jobspec: count per_slot must be > 0");
    CHECK(refusal("/tasks/0/count/per_slot", 2)
          == "invalid jobspec: count per_slot must be 1");
    CHECK(refusal("/tasks/0/count", {{"total", 0}})
          == "invalid jobspec: count total must be > 0");
    CHECK(refusal("/tasks/0/count", {{"total", 7}})
          == "invalid jobspec: count total must be at most the number of slots");
    CHECK(refusal("/resources", 1) == "invalid jobspec: resources must be a list");
    CHECK(refusal("/resources", Json::array()) == "Unable to determine slot count");
    CHECK(refusal("/resources/0/type", "rack") == "Unable to determine slot count");
    CHECK(refusal("/resources/0/count", nullptr) == "invalid jobspec: missing count");
    CHECK(refusal("/resources/0/count", 0)
          == "invalid jobspec: node, slot, or core count must be > 0");
    CHECK(refusal("/resources/0/count", "x")
          == "invalid jobspec: count string must be a valid idset or range");
    CHECK(refusal("/resources/0/count", 1 << 21)
          == "invalid jobspec: count must be at most 1048576");
    CHECK(refusal("/resources/0/with/0/with", nullptr)
          == "invalid jobspec: a slot must have resources");
    CHECK(refusal("/resources/0/with/0/with/0/type", "socket")
          == "invalid jobspec: a slot may have cores and gpus only");
    CHECK(refusal("/resources/0/with/0/with", Json::array())
          == "Unable to determine slot size");
    CHECK(refusal("/attributes/system/duration", nullptr)
          == "attributes.system.duration is a required key");
    CHECK(refusal("/attributes/system/duration", "x")
          == "attributes.system.duration must be a number");
    CHECK(refusal("/attributes/system/environment", 3)
          == "invalid jobspec: attributes.system.environment must be a mapping");
    CHECK(refusal("/attributes/system/constraints", 3)
          == "invalid jobspec: constraints must be a mapping");
    CHECK(refusal("/attributes/system/dependencies", 3)
          == "invalid jobspec: attributes.system.dependencies must be a list");
    CHECK(refusal("/attributes/system/dependencies", {3})
          == "invalid jobspec: a dependency must be a mapping");
    CHECK(
        refusal("/attributes/system/dependencies", Json::array({Json{{"scheme", "x"}}}))
        == "invalid jobspec: Missing key (value)");
    CHECK(refusal("/attributes/system/dependencies",
                  Json::array({Json{{"scheme", "x"}, {"value", 1}}}))
          == "invalid jobspec: dependency value must be a string");
    CHECK(refusal("/attributes/system/files", 3)
          == "invalid jobspec: attributes.system.files must be a mapping");
    CHECK(refusal("/attributes/system/shell", {{"options", {{"exit-timeout", "foo"}}}})
          == "invalid jobspec: exit-timeout is not a valid Flux Standard Duration");
}

TEST_CASE("a file of a jobspec stays in its directory")
{
    auto file = [](const char* name, Json entry) {
        return refusal("/attributes/system/files", Json{{name, std::move(entry)}});
    };
    for (const char* name : {"", ".", "..", "a/b", "/etc/passwd"})
        CHECK_THAT(file(name, {{"mode", 33152}, {"data", 1}}),
                   Catch::EndsWith("must be the name of a file"));
    CHECK_THAT(file("a", {{"data", 1}}), Catch::EndsWith("mode must be an integer"));
    CHECK_THAT(file("a", {{"mode", 16893}}),
               Catch::EndsWith("must be a regular file or a symbolic link"));
    CHECK_THAT(file("a", {{"mode", 41471}}),
               Catch::EndsWith("a symbolic link's data must be a string"));
    CHECK_THAT(file("a", {{"mode", 33152}, {"data", "*"}, {"encoding", "base64"}}),
               Catch::EndsWith("data is no base64"));
    CHECK_THAT(file("a", {{"mode", 33152}, {"data", "x"}, {"encoding", "blobvec"}}),
               Catch::EndsWith("encoding must be utf-8 or base64"));
}

TEST_CASE("without queues there is one without a name")
{
    auto queues = queues_of("{}");
    CHECK_FALSE(queues.named());
    CHECK(admission(queues, spec_of()) == "");
    CHECK(admission(queues, spec_of("nope")) == "'nope' is not a valid queue");
    auto& queue = **queues.find(std::nullopt);
    CHECK(queue.started);
    queue.enabled = false;
    queue.disable_reason = "maintenance";
    CHECK(admission(queues, spec_of()) == "job submission is disabled: maintenance");
}

TEST_CASE("named queues")
{
    auto queues = queues_of(R"({"queues": {"batch": {"requires": ["big"]}, "debug": {}},
        "policy": {"jobspec": {"defaults": {"system": {"queue": "debug"}}}}})");
    CHECK(queues.named());
    auto spec = spec_of();
    REQUIRE(queues.admit(spec));
    CHECK(spec.queue == "debug");
    CHECK(spec.document["attributes"]["system"]["queue"] == "debug");
    CHECK(admission(queues, spec_of("nope")) == "Invalid queue 'nope' specified");
    CHECK(queues.find(std::nullopt).error().message == "a named queue is required");
    CHECK(queues.find("nope").error().message == "'nope' is not a valid queue");
    spec = spec_of("batch");
    REQUIRE(queues.admit(spec));
    CHECK(spec.document["attributes"]["system"]["constraints"]
          == Json{{"properties", {"big"}}});
    queues.all()["debug"].enabled = false;
    queues.all()["debug"].disable_reason = "bar";
    CHECK(admission(queues, spec_of()) == "job submission to debug is disabled: bar");
    // flux-queue(1): an administrator starts them.
    CHECK_FALSE(queues.all()["batch"].started);
}

TEST_CASE("a queue's hosts are marked by a property")
{
    Inventory inventory = uniform_inventory({"a", "b"}, 1);
    auto queues = Queues::from_config(
        Json::parse(R"({"queues": {"q": {"hosts": "b"}}})"), inventory);
    REQUIRE(queues);
    CHECK(inventory.nodes[0].properties.empty());
    CHECK(inventory.nodes[1].properties.contains("+q"));
    auto spec = spec_of("q");
    REQUIRE(queues->admit(spec));
    CHECK(spec.document["attributes"]["system"]["constraints"]
          == Json{{"properties", {"+q"}}});
}

TEST_CASE("limits are checked, defaults are filled in")
{
    auto queues = queues_of(R"({"policy": {
        "limits": {"duration": "1h", "job-size": {"max": {"nnodes": 2, "ncores": 24},
                                                  "min": {"nnodes": 2}}},
        "jobspec": {"defaults": {"system": {"duration": "10m"}}}}})");
    auto spec = spec_of(nullptr, 0);
    REQUIRE(queues.admit(spec));
    CHECK(spec.duration == 600);
    CHECK(admission(queues, spec_of(nullptr, 7200))
          == "requested duration (2h) exceeds policy limit of 1h");
    auto wide = spec_of();
    wide.request.nodes = 3;
    CHECK(admission(queues, wide) == "requested nnodes exceeds policy limit of 2");
    wide.request.nodes = 1;
    CHECK(admission(queues, wide) == "requested nnodes is under policy limit of 2");
    wide.request.nodes = 2;
    wide.request.cores = 5;
    CHECK(admission(queues, wide) == "requested ncores exceeds policy limit of 24");
}

TEST_CASE("a wrong configuration of queues names the key")
{
    auto message = [](const char* json) {
        Inventory inventory;
        auto rc = Queues::from_config(Json::parse(json), inventory);
        return rc ? "" : rc.error().message;
    };
    CHECK(message(R"({"queues": [1]})") == "queues: must be a table");
    CHECK(message(R"({"queues": {"a": {"requires": "x"}}})")
          == "queues.a.requires: must be an array");
    CHECK(message(R"({"queues": {"a": {"requires": [1]}}})")
          == "queues.a.requires: must be strings");
    CHECK(message(R"({"queues": {"a": {"hosts": 1}}})")
          == "queues.a.hosts: must be a string");
    CHECK_THAT(message(R"({"policy": {"limits": {"duration": "x"}}})"),
               Catch::StartsWith("policy.limits.duration: "));
    CHECK(message(R"({"policy": {"limits": {"duration": 3}}})")
          == "policy.limits.duration: must be a string");
    CHECK(message(R"({"policy": {"limits": {"job-size": {"max": {"nnodes": "x"}}}}})")
          == "policy.limits.job-size.max.nnodes: must be a number");
    CHECK(message(R"({"queues": {"a": {}},
                      "policy": {"jobspec": {"defaults": {"system": {"queue": "b"}}}}})")
          == "policy.jobspec.defaults.system.queue: no queue b");
}
