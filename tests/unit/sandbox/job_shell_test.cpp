// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/job_shell.h"

#include "lib/imp/base64.h"
#include "lib/imp/sign.h"
#include "lib/sandbox/shell_wire.h"
#include "tests/unit/imp/munged.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::sandbox;

namespace {

constexpr const char* jobspec =
    R"({"version":1,"resources":[{"type":"slot","count":1,"label":"task","with":
        [{"type":"core","count":1}]}],"tasks":[{"command":["true"],"slot":"task",
        "count":{"per_slot":1}}],"attributes":{"system":{"duration":0}}})";

// [sign] in a file of its own; root's where the tests run as root.
struct SignFile {
    SignFile(const std::string& munge_socket)
    {
        char name[] = "/tmp/fluxdat-sign-XXXXXX";
        directory = mkdtemp(name);
        std::ofstream(path()) << "[sign]\nallowed-types = [\"none\", \"munge\"]\n"
                              << "munge.socket-path = \"" << munge_socket << "\"\n";
    }
    ~SignFile() { std::filesystem::remove_all(directory); }
    std::string path() const { return directory + "/sign.toml"; }
    std::string directory;
};

} // namespace

TEST_CASE("only what its user has signed with munge is run", "[job_shell]")
{
    Munged munged;
    if (!munged.missing().empty()) {
        WARN("SKIPPED: " << munged.missing());
        return;
    }
    if (geteuid() != 0) {
        WARN("SKIPPED: needs root, to own the configuration");
        return;
    }
    SignFile file(munged.socket());
    auto says = [&](std::string_view J, uid_t uid) {
        auto spec = verified_jobspec(J, uid, file.path());
        return spec ? "" : spec.error().message;
    };
    auto good =
        imp::sign_wrap(jobspec, imp::Mechanism::munge, getuid(), munged.socket());
    REQUIRE(good);
    auto spec = verified_jobspec(*good, getuid(), file.path());
    REQUIRE(spec);
    CHECK(spec->command == std::vector<std::string>{"true"});

    CHECK(says(*good, 12345)
          == "the job was signed by uid 0, and not by uid 12345 who is to run it");
    auto first = good->find('.'), second = good->find('.', first + 1);
    auto other =
        good->substr(0, first + 1) + imp::base64_encode("{}") + good->substr(second);
    CHECK(says(other, getuid()).starts_with("the job's signature is not good: "));
    auto none = imp::sign_wrap(jobspec, imp::Mechanism::none, getuid());
    REQUIRE(none);
    CHECK(says(*none, getuid()).starts_with("the job's signature is not good: "));
    auto empty = imp::sign_wrap("{}", imp::Mechanism::munge, getuid(), munged.socket());
    REQUIRE(empty);
    CHECK_FALSE(says(*empty, getuid()).empty());

    // Whom to ask is what root has written, and nobody else.
    REQUIRE(chown(file.path().c_str(), 1, 1) == 0);
    CHECK(says(*good, getuid()).starts_with("cannot verify the job's signature: "));
}

TEST_CASE("a plan goes over the wire", "[shell_wire]")
{
    ShellPlan plan{
        2, 5, 1, "host1", "/ƒA/ƒB", *flux::parse_idset("0-3"), {{3, 0}, {4, 1}}};
    auto back = parse_plan(to_json(plan));
    REQUIRE(back);
    CHECK(back->nnodes == 2);
    CHECK(back->ntasks == 5);
    CHECK(back->shell_rank == 1);
    CHECK(back->host == "host1");
    CHECK(back->jobid_path == "/ƒA/ƒB");
    CHECK(flux::format_idset(back->cores) == "0-3");
    REQUIRE(back->tasks.size() == 2);
    CHECK(back->tasks[1].rank == 4);
    CHECK(back->tasks[1].local_id == 1);
}

TEST_CASE("a plan that cannot be is refused", "[shell_wire]")
{
    auto good = to_json({1, 1, 0, "h", "/", *flux::parse_idset("0"), {{0, 0}}});
    REQUIRE(parse_plan(good));
    auto with = [&](const char* key, Json value) {
        auto plan = good;
        plan[key] = std::move(value);
        auto parsed = parse_plan(plan);
        return parsed ? "" : parsed.error().message;
    };
    CHECK(with("ntasks", -1) == "the engine's plan of the job has no sizes");
    CHECK(with("cores", 3.5) == "");
    CHECK(with("cores", "x") == "the engine's plan of the job has no set of cores");
    CHECK(with("tasks", 3) == "the engine's plan of the job has no list of tasks");
    CHECK(with("tasks", Json::array({Json{{"rank", 1}, {"local_id", 0}}}))
          == "the engine's plan of the job has a task that cannot be");
    CHECK(with("tasks", Json::array({3}))
          == "the engine's plan of the job has a task that cannot be");
    CHECK_FALSE(parse_plan(Json()));
    CHECK_FALSE(parse_plan(Json::array()));
}
