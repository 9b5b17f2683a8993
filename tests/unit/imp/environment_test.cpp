// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/environment.h"

#include <catch2/catch.hpp>

using namespace fluxdat::imp;
using Words = std::vector<std::string>;

namespace {

const User root{0, 0, "root", "/root"};
const Words own{"FLUX_OWNER_USERID=5", "HOME=/root", "USER=root",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};

// What passes before the IMP's own.
Words passed(std::vector<const char*> environment, std::optional<Words> allowed)
{
    environment.push_back(nullptr);
    RunCommand command;
    command.allowed_environment = std::move(allowed);
    auto all = run_environment(environment.data(), command, 5, root);
    REQUIRE(all.size() >= own.size());
    CHECK(Words(all.end() - static_cast<std::ptrdiff_t>(own.size()), all.end()) == own);
    all.resize(all.size() - own.size());
    return all;
}

} // namespace

TEST_CASE("environment: of what runs as root", "[environment]")
{
    CHECK(passed({"FLUX_JOB_ID=1", "FLUX_JOB_USERID=2", "A=1"}, Words{})
          == Words{"FLUX_JOB_ID=1", "FLUX_JOB_USERID=2"});
    CHECK(passed({"FLUX_JOB_ID=1", "A=1"}, {}).empty());
    CHECK(passed({"B=2", "AB=3", "A=1=2", "A=second", "=x", "none"}, Words{"A", "A?"})
          == Words{"AB=3", "A=1=2"});
    CHECK(passed({"HOME=/x", "USER=x", "PATH=/x", "FLUX_OWNER_USERID=0"}, Words{"*"})
              .empty());
    CHECK(passed({"LD_PRELOAD=x", "LD_=y", "LDX=1"}, Words{"*"}) == Words{"LDX=1"});
    auto longest = std::string(2000, 'A') + "=1";
    CHECK(passed({longest.c_str()}, Words{"*"}).empty());
}

TEST_CASE("environment: of the shell", "[environment]")
{
    const char* environment[] = {"A=1", "LD_PRELOAD=x", "B", "A=2", nullptr};
    CHECK(shell_environment(environment) == Words{"A=1", "B", "A=2"});
}
