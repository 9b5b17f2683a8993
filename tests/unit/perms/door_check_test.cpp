// SPDX-License-Identifier: LGPL-3.0-or-later
#include "support.h"

#include <sys/acl.h>
#include <sys/stat.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

namespace {

using Strings = std::vector<std::string>;

// What check() says, with the door's path as DOOR; repair() must say the same and put
// it right.
Strings found_and_repaired(Door& door, const GuestList& list)
{
    auto wrong = door.check(list);
    auto repaired = door.repair(list);
    REQUIRE(message(repaired) == "no error");
    CHECK(*repaired == wrong);
    CHECK(door.check(list) == Strings{});
    for (auto& line : wrong)
        for (std::size_t at; (at = line.find(door.path())) != std::string::npos;)
            line.replace(at, door.path().size(), "DOOR");
    return wrong;
}

void set_acl(const std::string& path, const char* text)
{
    acl_t acl = ::acl_from_text(text);
    REQUIRE(acl);
    REQUIRE(::acl_set_file(path.c_str(), ACL_TYPE_ACCESS, acl) == 0);
    ::acl_free(acl);
}

} // namespace

TEST_CASE("nothing is wrong with a door just made")
{
    TemporaryDirectory top;
    auto list = guests(1, {1001}, {2001});
    auto door = door_in(top.path(), list);
    CHECK(found_and_repaired(door, list) == Strings{});
}

TEST_CASE("what is wrong with a door is found and repaired")
{
    TemporaryDirectory top;
    auto list = guests(3, {1001, 1002}, {2001});
    auto door = door_in(top.path(), list);
    auto path = door.path();

    SECTION("its mode, without guests")
    {
        list = guests(4, {});
        REQUIRE(door.apply(list));
        REQUIRE(::chmod(path.c_str(), 0755) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR has mode 0755, should have 0700"});
    }
    SECTION("its mode, with guests: the mask")
    {
        REQUIRE(::chmod(path.c_str(), 03777) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR has mode 3777, should have 0710"});
    }
    SECTION("its mode, open")
    {
        list = guests(4, {}, {}, true);
        REQUIRE(door.apply(list));
        REQUIRE(::chmod(path.c_str(), 0700) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR has mode 0700, should have 0711"});
    }
    SECTION("entries of the ACL")
    {
        set_acl(path, "u::rwx,u:1001:rwx,u:1003:--x,g::---,g:2002:--x,m::--x,o::---");
        CHECK(found_and_repaired(door, list)
              == Strings{"the ACL of DOOR lacks user 1001, 1002",
                         "the ACL of DOOR lets in user 1003, not on the list",
                         "the ACL of DOOR lacks group 2001",
                         "the ACL of DOOR lets in group 2002, not on the list",
                         "the ACL of DOOR has user 1001: rwx"});
    }
    SECTION("the owning group in the ACL, which the mode does not show")
    {
        set_acl(path, "u::rwx,u:1001:--x,u:1002:--x,g::--x,g:2001:--x,m::--x,o::---");
        CHECK(mode_of(path) == 0710);
        CHECK(found_and_repaired(door, list)
              == Strings{"the ACL of DOOR has the owning group: --x"});
    }
    SECTION("a default ACL")
    {
        acl_t acl = ::acl_from_text("u::rwx,g::---,o::---");
        REQUIRE(::acl_set_file(path.c_str(), ACL_TYPE_DEFAULT, acl) == 0);
        ::acl_free(acl);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR has a default ACL, which should not be"});
    }
    SECTION("grants that are not there")
    {
        REQUIRE(::unlink(door.grants_path().c_str()) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"cannot open DOOR/grants: No such file or directory"});
    }
    SECTION("grants that are a symbolic link")
    {
        REQUIRE(::unlink(door.grants_path().c_str()) == 0);
        REQUIRE(::symlink("elsewhere", door.grants_path().c_str()) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR/grants is a symbolic link"});
    }
    SECTION("grants that are cut off")
    {
        REQUIRE(::truncate(door.grants_path().c_str(), 20) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR/grants:2: the file is cut off within this line"});
    }
    SECTION("grants that others can write")
    {
        REQUIRE(::chmod(door.grants_path().c_str(), 0666) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR/grants can be written by others (mode 0666)"});
    }
    SECTION("grants that say something else")
    {
        write_file(
            door.grants_path(),
            format_grants({::geteuid(), "fXyZ", guests(2, {1001, 1003}, {}, true)},
                          system_names()),
            0600);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR/grants is for job fXyZ, should for fAbC",
                         "DOOR/grants is of generation 2, should of 3",
                         "DOOR/grants says open yes", "DOOR/grants lacks user 1002",
                         "DOOR/grants lets in user 1003, not on the list",
                         "DOOR/grants lacks group 2001"});
    }
    SECTION("the mode of its socket")
    {
        listen_at(door.socket_path());
        CHECK(door.check(list) == Strings{});
        REQUIRE(::chmod(door.socket_path().c_str(), 0700) == 0);
        CHECK(found_and_repaired(door, list)
              == Strings{"DOOR/local has mode 0700, should have 0777"});
        CHECK(mode_of(door.socket_path()) == 0777);
    }
}

TEST_CASE("what only a person can put right is said")
{
    TemporaryDirectory top;
    auto list = guests(3, {1001});
    auto door = door_in(top.path(), list);
    auto path = door.path();
    auto moved = top / "moved";

    SECTION("a symbolic link in the door's place")
    {
        REQUIRE(::rename(path.c_str(), moved.c_str()) == 0);
        REQUIRE(::symlink("moved", path.c_str()) == 0);
        CHECK(door.check(list)
              == Strings{path + " is a symbolic link, not this rank's door"});
        CHECK(message(door.repair(list))
              == path + " is a symbolic link, not this rank's door");
    }
    SECTION("another directory in its place")
    {
        REQUIRE(::rename(path.c_str(), moved.c_str()) == 0);
        REQUIRE(::mkdir(path.c_str(), 0700) == 0);
        CHECK(door.check(list)
              == Strings{path + " is something else, not this rank's door"});
        CHECK_FALSE(door.repair(list));
    }
    SECTION("another door directory in the place of its own")
    {
        auto inner = top / "inner";
        REQUIRE(::mkdir(inner.c_str(), 0755) == 0);
        auto inner_door = door_in(inner, list);
        REQUIRE(::rename(inner.c_str(), moved.c_str()) == 0);
        REQUIRE(::mkdir(inner.c_str(), 0755) == 0);
        CHECK(inner_door.check(list)
              == Strings{inner + "/dat-fAbC.0: No such file or directory"});
        CHECK_FALSE(inner_door.repair(list));
    }
    SECTION("a door that is gone")
    {
        REQUIRE(::rename(path.c_str(), moved.c_str()) == 0);
        CHECK(door.check(list) == Strings{path + ": No such file or directory"});
        CHECK_FALSE(door.repair(list));
    }
    SECTION("a level that guests cannot pass")
    {
        REQUIRE(::chmod(top.path().c_str(), 0700) == 0);
        REQUIRE(door.check(list).size() == 1);
        CHECK_THAT(door.check(list)[0], Contains(top.path() + " is not searchable"));
        CHECK_THAT(message(door.repair(list)), Contains("is not searchable"));
    }
    SECTION("something else where its socket belongs")
    {
        write_file(door.socket_path(), "");
        CHECK(door.check(list) == Strings{door.socket_path() + " is not a socket"});
        CHECK_FALSE(door.repair(list));
    }
    SECTION("a newer list in force")
    {
        REQUIRE(door.apply(guests(4, {1002})));
        CHECK(door.repair(list).error().errnum == ESTALE);
        CHECK(door.check(guests(4, {1002})) == Strings{});
    }
}

TEST_CASE("a door that was given to another user")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to give a directory away");
        return;
    }
    TemporaryDirectory top;
    auto list = guests(1, {});
    auto door = door_in(top.path(), list);
    REQUIRE(::chown(door.path().c_str(), stranger_uid, 0) == 0);
    CHECK(door.check(list)
          == Strings{fmt::format("{} belongs to user {}, should to user 0", door.path(),
                                 stranger_uid)});
    CHECK_FALSE(door.repair(list));
}
