// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/sweep.h"
#include "support.h"

#include <algorithm>
#include <csignal>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;

namespace {

using Strings = std::vector<std::string>;

Swept swept(const std::string& directory)
{
    auto dir = open_door_dir(directory);
    REQUIRE(message(dir) == "no error");
    auto result = sweep(*dir);
    REQUIRE(message(result) == "no error");
    return *result;
}

} // namespace

TEST_CASE("doors of ranks that are gone are removed, no others")
{
    TemporaryDirectory top;
    auto stale = [&](std::uint32_t rank) {
        return door_in(top.path(), guests(1, {1001}), {"fAbC", rank});
    };
    listen_at(stale(0).socket_path()); // nobody listens any more
    (void)stale(1);
    auto held = stale(2);
    auto listening = listen_at(stale(3).socket_path());
    REQUIRE(::mkdir((top / "dat-fAbC").c_str(), 0700) == 0);
    REQUIRE(::mkdir((top / "other").c_str(), 0700) == 0);

    auto result = swept(top.path());
    CHECK(result.removed.size() == 2);
    CHECK(result.failed.empty());
    CHECK(entries(top.path())
          == Strings{"dat-fAbC", "dat-fAbC.2", "dat-fAbC.3", "other"});
    CHECK(held.check(guests(1, {1001})).empty());
    CHECK(swept(top.path()).removed.empty());
}

TEST_CASE("what cannot be removed is told, with the reason")
{
    TemporaryDirectory top;
    write_file(door_in(top.path(), guests(1, {})).path() + "/thesis", "mine");
    auto link = top / "dat-fAbC.1";
    REQUIRE(::symlink("dat-fAbC.0", link.c_str()) == 0);
    auto result = swept(top.path());
    CHECK(result.removed.empty());
    REQUIRE(result.failed.size() == 2);
    std::sort(result.failed.begin(), result.failed.end(),
              [](auto& a, auto& b) { return a.path < b.path; });
    CHECK(result.failed[0].path == top / "dat-fAbC.0");
    CHECK(result.failed[0].reason
          == fmt::format(
              "cannot remove the door {}/dat-fAbC.0: there is thesis in it; remove "
              "that by hand",
              top.path()));
    CHECK(result.failed[1].path == link);
    CHECK(result.failed[1].reason
          == link
                 + " is a symbolic link where a door belongs; remove it or choose "
                   "another "
                   "--door-dir");
    CHECK(read_file(top / "dat-fAbC.0/thesis") == "mine");
}

TEST_CASE("a door directory that cannot be read")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to sweep as another user");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chmod(top.path().c_str(), 0711) == 0);
    CHECK(as_user(owner_uid, owner_uid,
                  [&] {
                      auto dir = open_door_dir(top.path());
                      return dir ? message(sweep(*dir)) : message(dir);
                  })
          == fmt::format("cannot read the door directory {}: Permission denied",
                         top.path()));
}

TEST_CASE("other users' doors are passed over")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to act as several users");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chmod(top.path().c_str(), 01777) == 0);
    REQUIRE(as_user(stranger_uid, stranger_uid,
                    [&] {
                        return message(Door::create(*open_door_dir(top.path()),
                                                    {"fAbC", 0},
                                                    guests(1, {}, {}, true)));
                    })
            == "no error");
    auto result = swept(top.path()); // by root, who could remove it
    CHECK(result.removed.empty());
    CHECK(result.failed.empty());
    CHECK(entries(top.path()) == Strings{"dat-fAbC.0"});
}

namespace {

// A process that sweeps over and over, until this one ends it or itself.
class Sweeper
{
public:
    explicit Sweeper(const std::string& directory) : process_(::fork())
    {
        if (process_ != 0)
            return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        auto dir = open_door_dir(directory);
        while (dir && sweep(*dir))
            ;
        ::_exit(1);
    }
    ~Sweeper() { end(); }
    Sweeper(const Sweeper&) = delete;
    Sweeper& operator=(const Sweeper&) = delete;

    // Whether it swept without an error until now.
    bool end()
    {
        int status = 0;
        if (process_ > 0) {
            ::kill(process_, SIGKILL);
            ::waitpid(process_, &status, 0);
            process_ = -1;
        }
        return WIFSIGNALED(status);
    }

private:
    pid_t process_;
};

} // namespace

TEST_CASE("doors can be made while somebody sweeps")
{
    TemporaryDirectory top;
    Sweeper one(top.path());
    Sweeper two(top.path());
    auto dir = open_door_dir(top.path());
    REQUIRE(dir);
    for (std::uint64_t round = 1; round <= 300; round++) {
        auto list = guests(round, {1001});
        auto door = Door::create(*dir, {"fAbC", 0}, list);
        REQUIRE(message(door) == "no error");
        REQUIRE(door->check(list) == Strings{});
        if (round % 2) // else it is stale with the end of this round
            REQUIRE(message(door->remove()) == "no error");
    }
    CHECK(one.end());
    CHECK(two.end());
}
