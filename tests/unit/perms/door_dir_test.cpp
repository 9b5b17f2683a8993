// SPDX-License-Identifier: LGPL-3.0-or-later
#include "support.h"

#include <acl/libacl.h>
#include <sys/acl.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

namespace {

std::string refusal(const std::string& given)
{
    return message(
        choose_door_dir({.given = given, .preferred = {}, .private_parent = {}}));
}

// A directory of this mode below `parent`.
std::string make(const TemporaryDirectory& parent, const std::string& name, mode_t mode)
{
    auto path = parent / name;
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
}

std::string private_name()
{
    return fmt::format("flux-dat-{}", ::geteuid());
}

// Without a preferred directory.
Result<DoorDir> private_in(const std::string& parent)
{
    return choose_door_dir({.given = std::nullopt,
                            .preferred = parent + "/absent",
                            .private_parent = parent});
}

} // namespace

TEST_CASE("a door directory that is given is taken")
{
    TemporaryDirectory top;
    for (mode_t mode : {0755, 0711, 01777}) {
        auto path = make(top, fmt::format("{:o}", mode), mode);
        auto dir =
            choose_door_dir({.given = path, .preferred = {}, .private_parent = {}});
        REQUIRE(message(dir) == "no error");
        CHECK(dir->path == path);
        CHECK(dir->note.empty());
    }
}

TEST_CASE("symbolic links on the way are resolved")
{
    TemporaryDirectory top;
    auto path = make(top, "real", 0755);
    REQUIRE(::symlink("real", (top / "link").c_str()) == 0);
    auto dir = choose_door_dir(
        {.given = top / "link/.", .preferred = {}, .private_parent = {}});
    REQUIRE(message(dir) == "no error");
    CHECK(dir->path == path);
}

TEST_CASE("what is no door directory is refused")
{
    TemporaryDirectory top;
    auto relative =
        choose_door_dir({.given = "run", .preferred = {}, .private_parent = {}});
    CHECK(message(relative) == "--door-dir run: not an absolute path");
    CHECK(relative.error().exit == Exit::usage);
    CHECK(refusal("") == "--door-dir : not an absolute path");
    CHECK(refusal(top / "absent")
          == fmt::format(
              "cannot open the door directory {}/absent: No such file or directory",
              top.path()));
    write_file(top / "file", "");
    CHECK(refusal(top / "file")
          == fmt::format("the door directory {}/file is not a directory", top.path()));
    CHECK(refusal(top / "file/x")
          == fmt::format("cannot open the door directory {}/file/x: Not a directory",
                         top.path()));
}

TEST_CASE("a directory in which others could exchange a door is refused")
{
    TemporaryDirectory top;
    for (mode_t mode : {0777, 0757, 0775})
        CHECK(refusal(make(top, fmt::format("{:o}", mode), mode))
              == fmt::format(
                  "{0}/{1:o} can be written by others (mode {1:04o}) and is not "
                  "sticky, so a door there could be exchanged; chmod go-w "
                  "{0}/{1:o} or choose another --door-dir",
                  top.path(), mode));
    // and any level above it
    auto middle = make(top, "middle", 0755);
    REQUIRE(::mkdir((middle + "/doors").c_str(), 0755) == 0);
    REQUIRE(::chmod(middle.c_str(), 0777) == 0);
    CHECK_THAT(refusal(middle + "/doors"),
               Contains(middle + " can be written by others"));
}

TEST_CASE("a level that guests cannot pass is named")
{
    TemporaryDirectory top;
    auto middle = make(top, "middle", 0755);
    REQUIRE(::mkdir((middle + "/doors").c_str(), 0755) == 0);
    REQUIRE(::chmod(middle.c_str(), 0750) == 0);
    CHECK(
        refusal(middle + "/doors")
        == fmt::format("{0} is not searchable by others (mode 0750), so no guest would "
                       "reach a door there; chmod o+x {0} or choose another --door-dir",
                       middle));
    CHECK_THAT(refusal(make(top, "last", 0700)), Contains("last is not searchable"));
}

TEST_CASE("a directory of another user, or that is not writable")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to make another user's directory");
        return;
    }
    TemporaryDirectory top;
    auto path = make(top, "theirs", 01777);
    REQUIRE(::chown(path.c_str(), stranger_uid, 0) == 0);
    CHECK(refusal(path)
          == fmt::format("{} belongs to user {}, who could exchange a door "
                         "there; choose another --door-dir",
                         path, stranger_uid));
    auto roots = make(top, "roots", 0755);
    CHECK(as_user(owner_uid, owner_uid, [&] { return refusal(roots); })
          == fmt::format(
              "cannot make directories in {}: Permission denied; choose another "
              "--door-dir",
              roots));
}

TEST_CASE("the preferred directory where it will do, else a private one")
{
    TemporaryDirectory top;
    auto preferred = make(top, "preferred", 0755);
    DoorDirChoice choice{
        .given = std::nullopt, .preferred = preferred, .private_parent = top.path()};
    auto dir = choose_door_dir(choice);
    REQUIRE(message(dir) == "no error");
    CHECK(dir->path == preferred);
    CHECK(dir->note.empty());
    CHECK_FALSE(exists(top / private_name()));

    REQUIRE(::chmod(preferred.c_str(), 0777) == 0);
    dir = choose_door_dir(choice);
    REQUIRE(message(dir) == "no error");
    CHECK(dir->path == top / private_name());
    CHECK_THAT(dir->note, Contains("doors go to " + dir->path + ": " + preferred
                                   + " can be written by others"));
}

TEST_CASE("the private directory has its mode whatever the umask, and is found again")
{
    for (mode_t mask : {0, 077, 0777}) {
        TemporaryDirectory top;
        auto before = ::umask(mask);
        auto dir = private_in(top.path());
        auto again = private_in(top.path());
        ::umask(before);
        REQUIRE(message(dir) == "no error");
        REQUIRE(message(again) == "no error");
        CHECK(dir->path == top / private_name());
        CHECK(again->path == dir->path);
        CHECK(mode_of(dir->path) == 0711);
    }
}

TEST_CASE("a private directory of ours is put right")
{
    TemporaryDirectory top;
    auto path = make(top, private_name(), 02077);
    acl_t acl = ::acl_from_text("u::---,u:1001:rwx,g::---,m::rwx,o::rwx");
    REQUIRE(::acl_set_file(path.c_str(), ACL_TYPE_ACCESS, acl) == 0);
    ::acl_free(acl);
    REQUIRE(message(private_in(top.path())) == "no error");
    CHECK(mode_of(path) == 0711);
    CHECK(::acl_extended_file(path.c_str()) == 0);
}

TEST_CASE("somebody was first at the private directory's name")
{
    TemporaryDirectory top;
    auto path = top / private_name();
    auto not_directory = fmt::format("{} is not a directory (it is to hold this user's "
                                     "doors): remove it or choose a --door-dir",
                                     path);
    SECTION("with a symbolic link")
    {
        auto target = make(top, "target", 0700);
        REQUIRE(::symlink(target.c_str(), path.c_str()) == 0);
        CHECK(message(private_in(top.path())) == not_directory);
        CHECK(mode_of(target) == 0700);
    }
    SECTION("with a dangling symbolic link")
    {
        REQUIRE(::symlink("nowhere", path.c_str()) == 0);
        CHECK(message(private_in(top.path())) == not_directory);
        CHECK_FALSE(exists(top / "nowhere"));
    }
    SECTION("with a file")
    {
        write_file(path, "", 0600);
        CHECK(message(private_in(top.path())) == not_directory);
        CHECK(mode_of(path) == 0600);
    }
}

TEST_CASE("another user was first at the private directory's name")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to make another user's directory");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chmod(top.path().c_str(), 01777) == 0);
    auto path = top / fmt::format("flux-dat-{}", owner_uid);
    REQUIRE(::mkdir(path.c_str(), 0777) == 0);
    REQUIRE(::chown(path.c_str(), stranger_uid, stranger_uid) == 0);
    auto said =
        as_user(owner_uid, owner_uid, [&] { return message(private_in(top.path())); });
    CHECK(said
          == fmt::format("{} belongs to user {}, not to user {} whose doors it is to "
                         "hold: choose a --door-dir",
                         path, stranger_uid, owner_uid));
}

TEST_CASE("a private directory goes with the last who uses it")
{
    TemporaryDirectory top;
    auto one = private_in(top.path());
    auto two = private_in(top.path());
    REQUIRE((one && two));
    auto three = two->share();
    leave_door_dir(std::move(*one));
    CHECK(exists(three.path));
    leave_door_dir(std::move(*two));
    CHECK(exists(three.path));
    SECTION("empty")
    {
        leave_door_dir(std::move(three));
        CHECK(entries(top.path()).empty());
    }
    SECTION("not while there is a door in it")
    {
        {
            auto door = Door::create(three, {"fAbC", 0}, guests(1, {}));
            REQUIRE(message(door) == "no error");
        }
        leave_door_dir(std::move(three));
        CHECK(entries(top / private_name()) == std::vector<std::string>{"dat-fAbC.0"});
    }
}

TEST_CASE("a directory that is not a private one stays")
{
    TemporaryDirectory top;
    auto path = make(top, "given", 0755);
    auto dir = choose_door_dir({.given = path, .preferred = {}, .private_parent = {}});
    REQUIRE(dir);
    leave_door_dir(std::move(*dir));
    CHECK(exists(path));
}

TEST_CASE("private directories can be made while others leave theirs")
{
    TemporaryDirectory top;
    std::vector<pid_t> children;
    for (std::uint32_t rank = 0; rank < 3; rank++) {
        children.push_back(::fork());
        if (children.back() != 0)
            continue;
        bool right = true;
        for (int round = 0; right && round < 100; round++) {
            auto dir = private_in(top.path());
            auto door = dir ? Door::create(*dir, {"fAbC", rank}, {})
                            : std::unexpected(dir.error());
            right = door && door->check({}).empty() && door->remove();
            if (right)
                leave_door_dir(std::move(*dir));
        }
        ::_exit(right ? 0 : 1);
    }
    for (pid_t child : children) {
        int status = -1;
        ::waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    // The last one left when nobody else did, unless its door still held the lock.
    auto dir = private_in(top.path());
    REQUIRE(dir);
    leave_door_dir(std::move(*dir));
    CHECK(entries(top.path()).empty());
}
