// SPDX-License-Identifier: LGPL-3.0-or-later
#include "support.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <linux/magic.h>
#include <numeric>
#include <sys/acl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

namespace {

const DoorName name{"fAbC", 0};
const std::string name_text = "dat-fAbC.0";

DoorDir open_dir(const std::string& path)
{
    auto dir = open_door_dir(path);
    REQUIRE(message(dir) == "no error");
    return std::move(*dir);
}

Result<Door> create(const std::string& directory, const GuestList& list)
{
    return Door::create(open_dir(directory), name, list);
}

using Strings = std::vector<std::string>;

} // namespace

TEST_CASE("a door's name says job and rank")
{
    CHECK(DoorName{"fAbC", 12}.text() == "dat-fAbC.12");
    CHECK(DoorName::parse("dat-fAbC.12") == DoorName{"fAbC", 12});
    CHECK(DoorName::parse("dat-f1.4294967295") == DoorName{"f1", 4294967295});
    for (auto* text :
         {"", "dat-", "dat-fAbC", "dat-fAbC.", "dat-.0", "dat-123.0", "dat-f0.0",
          "dat-fAbC.-1", "dat-fAbC.+1", "dat-fAbC.01", "dat-fAbC.1x", "dat-fAbC.1.2",
          "dat-fAbC.4294967296", "dat-f/.0", "xdat-fAbC.0", "..", "dat-fAbC.0/"})
        CHECK_FALSE(DoorName::parse(text));
}

TEST_CASE("a door for nobody, for guests, for everybody")
{
    TemporaryDirectory top;
    for (mode_t mask : {0, 077, 0777}) {
        auto before = ::umask(mask);
        {
            auto door = door_in(top.path(), guests(1, {}));
            CHECK(door.path() == top / name_text);
            CHECK(door.socket_path() == top / name_text + "/local");
            CHECK(door.grants_path() == top / name_text + "/grants");
            CHECK(mode_of(door.path()) == 0700);
            CHECK(mode_of(door.grants_path()) == 0600);
            CHECK(door.guests() == guests(1, {}));
            CHECK(entries(door.path()) == Strings{".lock", "grants"});
            CHECK(mode_of(door.path() + "/.lock") == 0600);

            CHECK(message(door.apply(guests(2, {1001}, {2001}))) == "no error");
            CHECK(mode_of(door.path()) == 0710);
            CHECK(door.check(guests(2, {1001}, {2001})).empty());

            CHECK(message(door.apply(guests(3, {1001}, {2001}, true))) == "no error");
            CHECK(mode_of(door.path()) == 0711);
            CHECK(door.check(guests(3, {1001}, {2001}, true)).empty());

            CHECK(message(door.apply(guests(4, {1002}))) == "no error");
            CHECK(mode_of(door.path()) == 0710);
            CHECK(door.check(guests(4, {1002})).empty());

            CHECK(message(door.apply(guests(5, {}))) == "no error");
            CHECK(mode_of(door.path()) == 0700);
            CHECK(door.check(guests(5, {})).empty());
            CHECK(message(door.remove()) == "no error");
        }
        ::umask(before);
        CHECK(entries(top.path()).empty());
    }
}

TEST_CASE("a list that cannot be is refused before anything is made")
{
    TemporaryDirectory top;
    CHECK(message(create(top.path(), {1, false, {0}, {}}))
          == "user 0 (root) cannot be a guest");
    CHECK(entries(top.path()).empty());
    auto door = door_in(top.path(), guests(1, {}));
    CHECK(message(door.apply({2, false, {1001}, {0}}))
          == "group 0 (root) cannot be a guest");
    CHECK(door.guests() == guests(1, {}));
}

TEST_CASE("what a door directory passes on to what is made in it stays out of a door")
{
    TemporaryDirectory top;
    acl_t acl = ::acl_from_text("u::rwx,u:1001:rwx,g::rwx,m::rwx,o::rwx");
    REQUIRE(::acl_set_file(top.path().c_str(), ACL_TYPE_DEFAULT, acl) == 0);
    ::acl_free(acl);
    REQUIRE(::chmod(top.path().c_str(), 02755) == 0);
    for (auto& list : {guests(1, {}), guests(2, {1002}), guests(3, {}, {}, true)}) {
        auto door = door_in(top.path(), list);
        CHECK(door.check(list) == Strings{});
        REQUIRE(door.remove());
    }
}

TEST_CASE("the socket's path has to fit")
{
    TemporaryDirectory top;
    std::string fits(107 - (top / "/" + name_text + "/local").size(), 'd');
    REQUIRE(::mkdir((top / fits).c_str(), 0755) == 0);
    auto door = create(top / fits, guests(1, {}));
    REQUIRE(message(door) == "no error");
    CHECK(door->socket_path().size() == 107);
    listen_at(door->socket_path());
    CHECK(message(door->remove()) == "no error");

    auto longer = top / fits + "d";
    REQUIRE(::mkdir(longer.c_str(), 0755) == 0);
    CHECK(message(create(longer, guests(1, {})))
          == fmt::format(
              "the socket {0}/dat-fAbC.0/local would have a path of 108 bytes, and "
              "107 is the most: choose a shorter --door-dir than {0}",
              longer));
    CHECK(entries(longer).empty());
}

TEST_CASE("something else at a door's name is left alone")
{
    TemporaryDirectory top;
    auto path = top / name_text;
    SECTION("a symbolic link to a directory of ours")
    {
        auto target = top / "target";
        REQUIRE(::mkdir(target.c_str(), 0700) == 0);
        write_file(target + "/grants", "mine");
        REQUIRE(::symlink(target.c_str(), path.c_str()) == 0);
        CHECK(message(create(top.path(), guests(1, {})))
              == path
                     + " is a symbolic link where a door belongs; remove it or choose "
                       "another "
                       "--door-dir");
        CHECK(read_file(target + "/grants") == "mine");
        CHECK_THAT(message(Door::open(path)), Contains("is a symbolic link"));
    }
    SECTION("a dangling symbolic link")
    {
        REQUIRE(::symlink("nowhere", path.c_str()) == 0);
        CHECK_THAT(message(create(top.path(), guests(1, {}))),
                   Contains("is a symbolic link"));
        CHECK_FALSE(exists(top / "nowhere"));
    }
    SECTION("a file")
    {
        write_file(path, "mine");
        CHECK(message(create(top.path(), guests(1, {})))
              == path
                     + " is not a directory, so it is no door; remove it or choose "
                       "another "
                       "--door-dir");
        CHECK(read_file(path) == "mine");
    }
    SECTION("a directory with something else in it")
    {
        REQUIRE(::mkdir(path.c_str(), 0700) == 0);
        write_file(path + "/thesis", "mine");
        CHECK(message(create(top.path(), guests(1, {})))
              == fmt::format(
                  "cannot remove the door {}: there is thesis in it; remove that by "
                  "hand",
                  path));
        CHECK(read_file(path + "/thesis") == "mine");
    }
    SECTION("a directory whose `local` is a directory")
    {
        REQUIRE(::mkdir(path.c_str(), 0700) == 0);
        REQUIRE(::mkdir((path + "/local").c_str(), 0700) == 0);
        CHECK_THAT(message(create(top.path(), guests(1, {}))),
                   Contains("there is local in it"));
        CHECK(exists(path + "/local"));
    }
}

TEST_CASE("another user's directory at a door's name is left alone")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to make another user's directory");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chmod(top.path().c_str(), 01777) == 0);
    auto path = top / name_text;
    REQUIRE(::mkdir(path.c_str(), 0777) == 0);
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    write_file(path + "/grants", "theirs");
    REQUIRE(::chown(path.c_str(), stranger_uid, stranger_uid) == 0);
    auto expected = fmt::format("{} belongs to user {}, so it is no door of user {}'s; "
                                "choose another --door-dir",
                                path, stranger_uid, owner_uid);
    CHECK(as_user(owner_uid, owner_uid,
                  [&] { return message(create(top.path(), guests(1, {}))); })
          == expected);
    CHECK(as_user(owner_uid, owner_uid, [&] { return message(Door::open(path)); })
          == expected);
    CHECK(entries(path) == Strings{"grants"});
}

TEST_CASE("a door in use is refused")
{
    TemporaryDirectory top;
    auto path = top / name_text;
    SECTION("its lock is held")
    {
        auto door = door_in(top.path(), guests(1, {}));
        auto second = create(top.path(), guests(2, {}));
        CHECK(message(second)
              == fmt::format("the door {} is in use: another process holds its lock",
                             path));
        CHECK(second.error().errnum == EBUSY);
        CHECK(door.check(guests(1, {})).empty());
    }
    SECTION("something accepts connections in it")
    {
        auto socket = listen_at(door_in(top.path(), guests(1, {})).socket_path());
        auto second = create(top.path(), guests(2, {}));
        CHECK(message(second)
              == fmt::format(
                  "the door {} is in use: something accepts connections on its "
                  "socket",
                  path));
        CHECK(second.error().errnum == EBUSY);
        CHECK(exists(path + "/local"));
    }
}

TEST_CASE("a stale door is made anew")
{
    TemporaryDirectory top;
    std::string path;
    {
        auto door = door_in(top.path(), guests(1, {1001}));
        path = door.path();
        listen_at(door.socket_path());
        write_file(path + "/grants.new", "half");
    }
    REQUIRE(exists(path + "/local"));
    auto door = door_in(top.path(), guests(2, {1002}));
    CHECK(entries(path) == Strings{".lock", "grants"});
    CHECK(door.check(guests(2, {1002})).empty());
    listen_at(door.socket_path()); // nothing is in the way of the broker's socket
}

TEST_CASE("a rank started again does not let in who was revoked")
{
    TemporaryDirectory top;
    auto newer = guests(5, {1002});
    {
        auto door = door_in(top.path(), newer);
    }
    auto door = door_in(top.path(), guests(1, {1001, 1002}));
    CHECK(door.guests() == newer);
    CHECK(door.check(newer).empty());
}

TEST_CASE("an older list is not applied")
{
    TemporaryDirectory top;
    auto door = door_in(top.path(), guests(7, {1001}));
    auto older = door.apply(guests(6, {1002}));
    CHECK(message(older)
          == door.path()
                 + " has the guest list of generation 7, newer than "
                   "6; not changed");
    CHECK(older.error().errnum == ESTALE);
    CHECK(door.check(guests(7, {1001})).empty());
    CHECK(message(door.apply(guests(7, {1003}))) == "no error");
    CHECK(door.check(guests(7, {1003})).empty());
}

TEST_CASE("a list that could not be cut off keeps its generation")
{
    TemporaryDirectory top;
    {
        auto door = door_in(top.path(), guests(7, {1001, 1002}));
        // As empty_grants() leaves it where ftruncate(2) fails.
        auto text = format_grants({::geteuid(), name.job, guests(8, {})}, {});
        write_file(door.grants_path(), text + "user 1002 -\nend\n");
        CHECK_THAT(message(door.guests()), Contains("something follows `end`"));
        CHECK(message(door.apply(guests(7, {1001, 1002})))
              == door.path()
                     + " has the guest list of generation 8, newer than "
                       "7; not changed");
    }
    // Nor does a rank that is started again go back.
    auto door = door_in(top.path(), guests(7, {1001, 1002}));
    CHECK(door.guests() == guests(8, {}));
    CHECK(message(door.apply(guests(8, {1001}))) == "no error");
    // What does not even say so much is replaced.
    write_file(door.grants_path(), "nonsense");
    CHECK(message(door.apply(guests(6, {1002}))) == "no error");
}

TEST_CASE("who is off the list is out before grants change, who is new in after")
{
    TemporaryDirectory top;
    auto door = door_in(top.path(), guests(1, {1001, 1002}, {2001}));
    // A directory in the temporary file's place makes the step in the middle fail.
    auto obstacle = door.path() + "/grants.new";
    REQUIRE(::mkdir(obstacle.c_str(), 0700) == 0);
    CHECK_THAT(message(door.apply(guests(2, {1002, 1003}, {2001, 2002}))),
               Contains("cannot write " + door.grants_path()));
    CHECK(door.guests() == guests(1, {1001, 1002}, {2001}));
    CHECK(door.check(guests(1, {1002}, {2001}))
          == Strings{door.grants_path() + " lets in user 1001, not on the list"});

    SECTION("from open to nobody")
    {
        REQUIRE(::rmdir(obstacle.c_str()) == 0);
        REQUIRE(door.apply(guests(2, {}, {}, true)));
        REQUIRE(::mkdir(obstacle.c_str(), 0700) == 0);
        CHECK_FALSE(door.apply(guests(3, {1001})));
        CHECK(mode_of(door.path()) == 0700);
    }
    SECTION("from a mode that was set by hand")
    {
        for (mode_t mode : {0750, 0705}) {
            REQUIRE(::rmdir(obstacle.c_str()) == 0);
            REQUIRE(door.apply(guests(2, {})));
            REQUIRE(::mkdir(obstacle.c_str(), 0700) == 0);
            REQUIRE(::chmod(door.path().c_str(), mode) == 0);
            CHECK_FALSE(door.apply(guests(3, {1001})));
            CHECK(mode_of(door.path()) == 0700);
        }
    }
    SECTION("to open")
    {
        CHECK_FALSE(door.apply(guests(3, {}, {}, true)));
        CHECK(mode_of(door.path()) == 0710);
    }
    REQUIRE(::rmdir(obstacle.c_str()) == 0);
    CHECK(message(door.apply(guests(4, {1003}))) == "no error");
    CHECK(door.check(guests(4, {1003})).empty());
}

TEST_CASE("lists applied at the same time end as the newest")
{
    TemporaryDirectory top;
    auto door = door_in(top.path(), guests(1, {}));
    constexpr std::uint64_t last = 200;
    auto list = [](std::uint64_t generation) {
        return guests(generation, {static_cast<uid_t>(1000 + generation)});
    };
    std::vector<pid_t> children;
    for (std::uint64_t child = 0; child < 4; child++) {
        children.push_back(::fork());
        if (children.back() == 0) {
            auto own = Door::open(door.path());
            bool right = own.has_value();
            for (auto generation = 2 + child; right && generation <= last;
                 generation += 4) {
                auto applied = own->apply(list(generation));
                right = applied || applied.error().errnum == ESTALE;
            }
            ::_exit(right ? 0 : 1);
        }
    }
    for (pid_t child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    CHECK(door.check(list(last)) == Strings{});
}

TEST_CASE("an existing door is opened by its path")
{
    TemporaryDirectory top;
    auto door = door_in(top.path(), guests(1, {1001}));
    auto opened = Door::open(door.path());
    REQUIRE(message(opened) == "no error");
    CHECK(opened->name() == name);
    CHECK(opened->guests() == guests(1, {1001}));
    CHECK(message(opened->apply(guests(2, {1002}))) == "no error");
    CHECK(door.check(guests(2, {1002})).empty());

    auto absent = Door::open(top / "dat-fAbC.1");
    CHECK(
        message(absent)
        == fmt::format("cannot open the door {}/dat-fAbC.1: No such file or directory",
                       top.path()));
    CHECK(absent.error().errnum == ENOENT);
    CHECK(Door::open(top / "absent/dat-fAbC.1").error().errnum == ENOENT);
    for (std::string path : {"", "/", "dat-fAbC.0", "x/dat-fAbC.0", "/etc"})
        CHECK(message(Door::open(path))
              == path + " is not the path of a door (/DIR/dat-JOBID.RANK)");
}

TEST_CASE("a door that is removed takes nothing with it but its own")
{
    TemporaryDirectory top;
    auto door = door_in(top.path(), guests(1, {}));
    auto path = door.path();
    SECTION("all its files")
    {
        listen_at(door.socket_path());
        write_file(path + "/grants.new", "half");
        CHECK(message(door.remove()) == "no error");
        CHECK(entries(top.path()).empty());
        CHECK(message(door.remove()) == "no error");
    }
    SECTION("a file that is none of its own")
    {
        write_file(path + "/thesis", "mine");
        CHECK_THAT(message(door.remove()), Contains("there is thesis in it"));
        CHECK(entries(path) == Strings{"thesis"});
    }
    SECTION("symbolic links in it")
    {
        write_file(top / "other", "mine");
        REQUIRE(::symlink((top / "other").c_str(), (path + "/local").c_str()) == 0);
        CHECK(message(door.remove()) == "no error");
        CHECK(entries(top.path()) == Strings{"other"});
    }
    SECTION("another directory at its name")
    {
        REQUIRE(::rename(path.c_str(), (top / "moved").c_str()) == 0);
        REQUIRE(::mkdir(path.c_str(), 0700) == 0);
        write_file(path + "/grants", "mine");
        CHECK(message(door.remove())
              == path + " is no longer the door that was made there; left alone");
        CHECK(entries(path) == Strings{"grants"});
    }
    SECTION("a symbolic link at its name")
    {
        REQUIRE(::rename(path.c_str(), (top / "moved").c_str()) == 0);
        REQUIRE(::symlink("moved", path.c_str()) == 0);
        CHECK_THAT(message(door.remove()), Contains("no longer the door"));
        CHECK(exists(path));
    }
}

TEST_CASE("a thousand guests")
{
    struct statfs status;
    if (::statfs("/dev/shm", &status) < 0 || status.f_type != TMPFS_MAGIC) {
        WARN("SKIPPED: /dev/shm is not a tmpfs, which holds an ACL of that size");
        return;
    }
    TemporaryDirectory top("/dev/shm");
    std::vector<uid_t> users(1000);
    std::iota(users.begin(), users.end(), 70000);
    auto door = door_in(top.path(), guests(1, users));
    CHECK(door.check(guests(1, users)).empty());
    users.erase(users.begin(), users.begin() + 500);
    CHECK(message(door.apply(guests(2, users))) == "no error");
    CHECK(door.check(guests(2, users)).empty());
    CHECK(door.check(guests(2, {}))
          == Strings{
              door.path() + " has mode 0710, should have 0700",
              "the ACL of " + door.path()
                  + " lets in user 70500, 70501, 70502, 70503, 70504, 70505, 70506, "
                    "70507 and 492 more, not on the list",
              door.grants_path()
                  + " lets in user 70500, 70501, 70502, 70503, 70504, 70505, 70506, "
                    "70507 and 492 more, not on the list"});
}

TEST_CASE("a full file system: the door is not made, or keeps its list")
{
    TemporaryDirectory top;
    auto said = on_file_system("tmpfs", "size=16k,mode=755", top.path(), [&] {
        auto fill = [&] {
            Fd file(
                ::open((top / "fill").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
            std::string block(4096, 'x');
            while (::write(file.get(), block.data(), block.size()) > 0)
                ;
        };
        fill();
        auto text = message(create(top.path(), guests(1, {})));
        text += fmt::format("|{}|", fmt::join(entries(top.path()), " "));
        ::unlink((top / "fill").c_str());
        auto door = door_in(top.path(), guests(1, {1001}));
        fill();
        text += message(door.apply(guests(2, {1001, 1002})));
        return text + fmt::format("|{}", fmt::join(door.check(guests(1, {1001})), " "));
    });
    if (said == cannot_mount) {
        WARN("SKIPPED: needs the right to mount a small tmpfs");
        return;
    }
    CHECK(said
          == fmt::format("cannot write {0}/dat-fAbC.0/grants: No space left on device; "
                         "make room there or choose another --door-dir|fill|"
                         "cannot write {0}/dat-fAbC.0/grants: No space left on device; "
                         "make room there or choose another --door-dir|",
                         top.path()));
}

TEST_CASE("a full file system: who is revoked is on no list, and the generation stays")
{
    TemporaryDirectory top;
    auto said = on_file_system("tmpfs", "size=16k,mode=755", top.path(), [&] {
        auto door = door_in(top.path(), guests(1, {1001, 1002}));
        {
            Fd file(::open((top / "fill").c_str(), O_WRONLY | O_CREAT, 0600));
            std::string block(4096, 'x');
            while (::write(file.get(), block.data(), block.size()) > 0)
                ;
        }
        auto text = message(door.apply(guests(12, {1001})));
        auto left = door.guests();
        text += fmt::format("|{}|", left ? *left == guests(12, {}) : false);
        text += message(door.apply(guests(11, {1001, 1002})));
        ::unlink((top / "fill").c_str());
        text += "|" + message(door.apply(guests(12, {1001})));
        return text
               + fmt::format("|{}", fmt::join(door.check(guests(12, {1001})), " "));
    });
    if (said == cannot_mount) {
        WARN("SKIPPED: needs the right to mount a small tmpfs");
        return;
    }
    CHECK(
        said
        == fmt::format(
            "cannot write {0}/dat-fAbC.0/grants: No space left on device; make room "
            "there or choose another --door-dir; until it can be written, no guest can "
            "run anything there|true|{0}/dat-fAbC.0 has the guest list of generation "
            "12, newer than 11; not changed|no error|",
            top.path()));
}

TEST_CASE("a file system that takes no more files")
{
    TemporaryDirectory top;
    auto said = on_file_system("tmpfs", "nr_inodes=2,mode=755", top.path(), [&] {
        auto one = message(create(top.path(), guests(1, {})));
        write_file(top / "last", "");
        auto none = message(create(top.path(), guests(1, {})));
        return fmt::format("{}|{}|{}", one, none, fmt::join(entries(top.path()), " "));
    });
    if (said == cannot_mount) {
        WARN("SKIPPED: needs the right to mount a small tmpfs");
        return;
    }
    CHECK(said
          == fmt::format("cannot make {0}/dat-fAbC.0/.lock: No space left on device; "
                         "make room there or choose another --door-dir|"
                         "cannot make the door {0}/dat-fAbC.0: No space left on "
                         "device; make room there or choose another --door-dir|last",
                         top.path()));
}

TEST_CASE("a file system without ACLs: guests not, everybody yes")
{
    TemporaryDirectory top;
    auto said = on_file_system("ramfs", nullptr, top.path(), [&] {
        auto text = message(create(top.path(), guests(1, {1001})));
        text += fmt::format("|{}|", fmt::join(entries(top.path()), " "));
        auto door = create(top.path(), guests(1, {}, {}, true));
        return text
               + (door ? fmt::format("{}", door->check(guests(1, {}, {}, true)).size())
                       : message(door));
    });
    if (said == cannot_mount) {
        WARN("SKIPPED: needs the right to mount a file system without ACLs");
        return;
    }
    CHECK(said
          == fmt::format("cannot give guests access to {}/dat-fAbC.0: its file system "
                         "has no ACLs; choose another --door-dir, or --open, which "
                         "needs none||0",
                         top.path()));
}

TEST_CASE("who gets to the socket: guests by user and group, not strangers")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to connect as several users");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chown(top.path().c_str(), owner_uid, owner_uid) == 0);
    auto path = top / name_text;
    auto apply = [&](const GuestList& list) {
        CHECK(as_user(owner_uid, owner_uid,
                      [&] {
                          auto door = Door::open(path);
                          return door ? message(door->apply(list)) : message(door);
                      })
              == "no error");
    };
    REQUIRE(as_user(owner_uid, owner_uid,
                    [&] { return message(create(top.path(), guests(1, {}))); })
            == "no error");
    auto socket = listen_at(path + "/local");
    REQUIRE(::chown((path + "/local").c_str(), owner_uid, owner_uid) == 0);
    auto as = [&](uid_t user, gid_t group) {
        return as_user(user, group, [&] { return connect_to(path + "/local"); });
    };
    CHECK(as(owner_uid, owner_uid) == "connected");
    CHECK(as(guest_uid, guest_uid) == "EACCES");

    apply(guests(2, {guest_uid}, {guest_gid}));
    CHECK(as(owner_uid, owner_uid) == "connected");
    CHECK(as(guest_uid, guest_uid) == "connected");
    CHECK(as(guest_uid, owner_uid) == "connected");
    CHECK(as(stranger_uid, guest_gid) == "connected");
    CHECK(as(stranger_uid, stranger_uid) == "EACCES");
    CHECK(as(stranger_uid, owner_uid) == "EACCES"); // the owner's group is no guest
    CHECK(as(65534, 65534) == "EACCES");

    apply(guests(3, {}, {guest_gid}));
    CHECK(as(guest_uid, guest_uid) == "EACCES");
    CHECK(as(guest_uid, guest_gid) == "connected");

    apply(guests(4, {guest_uid}, {}, true));
    CHECK(as(stranger_uid, stranger_uid) == "connected");
    CHECK(as(stranger_uid, owner_uid) == "connected");
    CHECK(as(guest_uid, guest_uid) == "connected");

    apply(guests(5, {}));
    CHECK(as(guest_uid, guest_gid) == "EACCES");
    CHECK(as(owner_uid, owner_uid) == "connected");
}

TEST_CASE("a guest can do nothing in a door but connect")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to act as several users");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chown(top.path().c_str(), owner_uid, owner_uid) == 0);
    auto path = top / name_text;
    for (bool open : {false, true}) {
        REQUIRE(as_user(owner_uid, owner_uid,
                        [&] {
                            return message(
                                create(top.path(), guests(1, {guest_uid}, {}, open)));
                        })
                == "no error");
        auto tried = as_user(guest_uid, guest_uid, [&] {
            auto said = [](int result) {
                return std::string(result < 0 ? ::strerrorname_np(errno) : "done")
                       + " ";
            };
            return said(::open(path.c_str(), O_RDONLY))
                   + said(::open((path + "/grants").c_str(), O_RDONLY))
                   + said(::open((path + "/.lock").c_str(), O_RDONLY))
                   + said(::open((path + "/x").c_str(), O_WRONLY | O_CREAT, 0600))
                   + said(::unlink((path + "/grants").c_str()))
                   + said(::rename(path.c_str(), (top / "y").c_str()))
                   + said(::flock(::open(path.c_str(), O_PATH), LOCK_EX | LOCK_NB));
        });
        CHECK(tried == "EACCES EACCES EACCES EACCES EACCES EACCES EBADF ");
    }
}

TEST_CASE("a door that is shut to its owner is opened, and can be removed")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to act as a user whom modes concern");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chmod(top.path().c_str(), 01777) == 0);
    CHECK(as_user(owner_uid, owner_uid,
                  [&]() -> std::string {
                      auto door = door_in(top.path(), guests(1, {1001}));
                      ::chmod(door.path().c_str(), 0);
                      auto again = Door::open(door.path());
                      if (!again)
                          return again.error().message;
                      if (auto put = again->apply(guests(2, {1002})); !put)
                          return put.error().message;
                      ::chmod(door.path().c_str(), 0);
                      auto removed = door.remove();
                      return removed ? "removed" : removed.error().message;
                  })
          == "removed");
    CHECK(entries(top.path()).empty());
}
