// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/acl.h"
#include "lib/perms/passage.h"
#include "support.h"

#include <fcntl.h>
#include <filesystem>
#include <future>
#include <sys/stat.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

namespace {

Acl acl_of(const std::string& path)
{
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY));
    auto acl = read_acl(fd.get(), path);
    REQUIRE(acl);
    return *acl;
}

// <top>/outer/rundir/local-0, the way that Flux makes it: private directories.
struct Rundir {
    TemporaryDirectory top;
    std::string outer = top / "outer";
    std::string inner = outer + "/rundir";
    std::string socket = inner + "/local-0";

    Rundir()
    {
        std::filesystem::create_directories(inner);
        ::chmod(outer.c_str(), 0750);
        ::chmod(inner.c_str(), 0700);
        listen_at(socket);
        ::chmod(socket.c_str(), 0777);
    }
    Passage passage() const
    {
        auto opened = Passage::open(socket);
        REQUIRE(opened);
        return std::move(*opened);
    }
    std::string refused() const { return message(Passage::open(socket)); }
};

} // namespace

TEST_CASE("the way is opened to the guests on all levels, and no further")
{
    Rundir rundir;
    auto passage = rundir.passage();
    CHECK_THAT(passage.check(guests(1, {1001})).at(0), Contains("is not adopted"));
    REQUIRE(passage.apply(guests(1, {1001, 1002})));
    for (auto& level : {rundir.outer, rundir.inner}) {
        CHECK(acl_of(level).users == std::vector<uid_t>{1001, 1002});
        CHECK((mode_of(level) & 07) == 0);
    }
    CHECK(passage.check(guests(1, {1001, 1002})).empty());
    CHECK(mode_of(rundir.inner + "/flux-dat-adopted") == 0600);

    // Opened again, the modes are no longer the first ones; the file knows them.
    auto again = rundir.passage();
    REQUIRE(again.apply(guests(2, {1002})));
    CHECK(acl_of(rundir.outer).users == std::vector<uid_t>{1002});
    CHECK(again.check(guests(2, {1002})).empty());
    CHECK(again.check(guests(3, {1002})).size() == 1);
    CHECK(again.check(guests(2, {1003})).size() == 2);
    auto stale = again.apply(guests(1, {1001}));
    REQUIRE_FALSE(stale);
    CHECK(stale.error().errnum == ESTALE);

    GuestList open = guests(3, {1002});
    open.open = true;
    REQUIRE(again.apply(open));
    CHECK(mode_of(rundir.inner) == 0711);
    CHECK(mode_of(rundir.outer) == 0711);
    CHECK(again.check(open).empty());

    REQUIRE(again.restore());
    CHECK(mode_of(rundir.outer) == 0750);
    CHECK(mode_of(rundir.inner) == 0700);
    CHECK(acl_of(rundir.outer).users.empty());
    CHECK(entries(rundir.inner) == std::vector<std::string>{"local-0"});
    REQUIRE(again.restore()); // so already
}

TEST_CASE("a level that others could exchange is refused, though it is ours")
{
    Rundir rundir;
    for (mode_t mode : {0777, 0770}) {
        ::chmod(rundir.outer.c_str(), mode);
        CHECK_THAT(rundir.refused(), Contains("can be written by others"));
    }
    ::chmod(rundir.outer.c_str(), 01777);
    CHECK(rundir.refused() == "no error");
    // Exchanged after it was adopted: what the file names is not followed.
    ::chmod(rundir.outer.c_str(), 0700);
    auto passage = rundir.passage();
    REQUIRE(passage.apply(guests(1, {1001})));
    auto moved = rundir.top / "moved";
    std::filesystem::rename(rundir.outer, moved);
    std::filesystem::create_directory_symlink(moved, rundir.outer);
    CHECK_FALSE(passage.apply(guests(2, {1002})));
    CHECK(acl_of(moved).users == std::vector<uid_t>{1001});
}

namespace {

// Another instance's, below the same private directory.
struct Two : Rundir {
    std::string other_inner = outer + "/other";
    std::string other_socket = other_inner + "/local-0";

    Two()
    {
        std::filesystem::create_directories(other_inner);
        ::chmod(other_inner.c_str(), 0700);
        listen_at(other_socket);
        ::chmod(other_socket.c_str(), 0777);
    }
    Passage other() const
    {
        auto opened = Passage::open(other_socket);
        REQUIRE(opened);
        return std::move(*opened);
    }
};

} // namespace

TEST_CASE("a level that leads to two instances lets pass the guests of both")
{
    Two two;
    auto one = two.passage();
    REQUIRE(one.apply(guests(1, {1001, 1002})));
    auto other = two.other();
    CHECK(message(other.apply(guests(1, {1002, 1003}))) == "no error");
    CHECK(acl_of(two.outer).users == std::vector<uid_t>{1001, 1002, 1003});
    CHECK(acl_of(two.inner).users == std::vector<uid_t>{1001, 1002});
    CHECK(one.check(guests(1, {1001, 1002})).empty());
    CHECK(other.check(guests(1, {1002, 1003})).empty());
    // A change of the one leaves the other's in.
    REQUIRE(two.passage().apply(guests(2, {1001})));
    CHECK(acl_of(two.outer).users == std::vector<uid_t>{1001, 1002, 1003});
    REQUIRE(two.other().apply(guests(2, {1003})));
    CHECK(acl_of(two.outer).users == std::vector<uid_t>{1001, 1003});

    // Undone in either order: the other's guests pass, and nobody else.
    bool first = GENERATE(true, false);
    auto undone = first ? two.passage() : two.other();
    auto left = first ? two.other() : two.passage();
    REQUIRE(undone.restore());
    CHECK(acl_of(two.outer).users == std::vector<uid_t>{first ? 1003u : 1001u});
    CHECK(left.check(guests(2, {first ? 1003u : 1001u})).empty());
    CHECK(mode_of(first ? two.inner : two.other_inner) == 0700);
    REQUIRE(left.restore());
    CHECK(mode_of(two.outer) == 0750);
    CHECK(acl_of(two.outer).users.empty());
    CHECK(entries(two.outer) == std::vector<std::string>{"other", "rundir"});
}

TEST_CASE("an instance that is open to everybody opens a shared level as long as it is")
{
    Two two;
    GuestList open = guests(1, {});
    open.open = true;
    REQUIRE(two.passage().apply(open));
    auto other = two.other();
    REQUIRE(other.apply(guests(1, {1003})));
    CHECK(mode_of(two.outer) == 0711);
    CHECK(mode_of(two.other_inner) != 0711);
    CHECK(other.check(guests(1, {1003})).empty());
    REQUIRE(two.passage().restore());
    CHECK((mode_of(two.outer) & 07) == 0);
    CHECK(acl_of(two.outer).users == std::vector<uid_t>{1003});
    CHECK(other.check(guests(1, {1003})).empty());
    // One whose instance has ended, with its directory, does not count.
    REQUIRE(two.passage().apply(open));
    std::filesystem::remove_all(two.inner);
    REQUIRE(other.apply(guests(2, {1003})));
    CHECK((mode_of(two.outer) & 07) == 0);
    REQUIRE(other.restore());
    CHECK(mode_of(two.outer) == 0750);
    CHECK(entries(two.outer) == std::vector<std::string>{"other"});
}

TEST_CASE("an instance that is adopted while another is undone keeps the first mode")
{
    Two two;
    auto one = two.passage();
    REQUIRE(one.apply(guests(1, {}, {}, true)));
    auto other = two.other(); // sees the level open to everybody
    REQUIRE(one.restore());
    REQUIRE(other.apply(guests(1, {1003})));
    REQUIRE(other.restore());
    CHECK(mode_of(two.outer) == 0750);
}

TEST_CASE("an undoing that fails shuts the gate, and opens nothing for others")
{
    Two two;
    ::chmod(two.outer.c_str(), 0700);
    ::chmod(two.inner.c_str(), 0755);
    auto one = two.passage();
    REQUIRE(one.apply(guests(1, {1001})));
    REQUIRE(two.other().apply(guests(1, {1003})));
    auto file = two.outer + "/flux-dat-ways";
    auto ways = read_file(file);
    write_file(file, "", 0600);
    CHECK_THAT(message(one.restore()), Contains("is damaged"));
    CHECK(mode_of(two.inner) == 0700);
    CHECK(acl_of(two.inner).users.empty());
    write_file(file, ways, 0600);
    REQUIRE(two.other().apply(guests(2, {1003})));
    CHECK((mode_of(two.outer) & 07) == 0);
    CHECK(acl_of(two.outer).users == std::vector<uid_t>{1003});
    REQUIRE(one.restore());
    CHECK(mode_of(two.inner) == 0755);
    CHECK(acl_of(two.outer).users == std::vector<uid_t>{1003});
    REQUIRE(two.other().restore());
    CHECK(mode_of(two.outer) == 0700);
}

TEST_CASE("two ranks below one directory are adopted, and undone, at the same time")
{
    Two two;
    for (int round = 0; round < 200; round++) {
        std::vector<std::future<std::string>> done;
        for (auto& socket : {two.socket, two.other_socket})
            done.push_back(std::async(std::launch::async, [socket, round] {
                auto passage = Passage::open(socket);
                if (!passage)
                    return message(passage);
                auto applied = passage->apply(guests(1, {1001}, {}, round % 2 == 0));
                return applied ? message(passage->restore()) : message(applied);
            }));
        for (auto& one : done)
            REQUIRE(one.get() == "no error");
        REQUIRE(mode_of(two.outer) == 0750);
        REQUIRE(entries(two.outer) == std::vector<std::string>{"other", "rundir"});
    }
}

TEST_CASE("an instance inside of another's directory is refused")
{
    Rundir rundir;
    auto deep = rundir.inner + "/deep";
    std::filesystem::create_directories(deep);
    ::chmod(deep.c_str(), 0700);
    listen_at(deep + "/local-0");
    ::chmod((deep + "/local-0").c_str(), 0777);
    auto inside = Passage::open(deep + "/local-0");
    REQUIRE(inside);
    GuestList open = guests(1, {});
    open.open = true;
    auto outside = rundir.passage();
    REQUIRE(inside->apply(open));
    CHECK_THAT(message(outside.apply(open)), Contains("undo that adoption first"));
    REQUIRE(inside->restore());
    CHECK(mode_of(rundir.inner) == 0700);
    REQUIRE(outside.apply(guests(1, {1001})));
    inside = Passage::open(deep + "/local-0");
    REQUIRE(inside);
    CHECK_THAT(message(inside->apply(open)), Contains("undo that adoption first"));
    REQUIRE(outside.restore());
    CHECK(mode_of(rundir.inner) == 0700);
}

TEST_CASE("a damaged file of ways is not believed")
{
    Rundir rundir;
    auto passage = rundir.passage();
    REQUIRE(passage.apply(guests(1, {1001})));
    auto file = rundir.outer + "/flux-dat-ways";
    for (auto* text :
         {"", "flux-dat-ways 2\n", "flux-dat-ways 1\nmode x\nend\n",
          "flux-dat-ways 1\nmode 0700\n", "flux-dat-ways 1\nmode 0700\nend"}) {
        write_file(file, text);
        ::chmod(file.c_str(), 0600);
        CHECK_THAT(message(passage.apply(guests(2, {1001}))), Contains("is damaged"));
        CHECK_THAT(message(passage.restore()), Contains("is damaged"));
    }
    write_file(file, "flux-dat-ways 1\nmode 0750\nway " + rundir.inner + "\nend\n");
    ::chmod(file.c_str(), 0666);
    CHECK_THAT(message(passage.restore()), Contains("only he can write"));
    ::chmod(file.c_str(), 0600);
    REQUIRE(passage.restore());
    CHECK(mode_of(rundir.outer) == 0750);
}

TEST_CASE("levels that are searchable stay as they are")
{
    Rundir rundir;
    ::chmod(rundir.outer.c_str(), 0755);
    auto passage = rundir.passage();
    REQUIRE(passage.apply(guests(1, {1001})));
    CHECK(mode_of(rundir.outer) == 0755);
    CHECK(acl_of(rundir.outer).users.empty());
    REQUIRE(passage.restore());
    CHECK(mode_of(rundir.outer) == 0755);
    // The socket's own directory is the gate: it is shut to all but the guests.
    ::chmod(rundir.inner.c_str(), 0755);
    auto wide = rundir.passage();
    REQUIRE(wide.apply(guests(1, {1001})));
    CHECK((mode_of(rundir.inner) & 07) == 0);
    REQUIRE(wide.restore());
    CHECK(mode_of(rundir.inner) == 0755);
}

TEST_CASE("a way that cannot be opened is refused, and left as it was")
{
    Rundir rundir;
    CHECK_THAT(message(Passage::open(rundir.inner + "/no")),
               Contains("cannot find the socket"));
    CHECK_THAT(message(Passage::open(rundir.inner)), Contains("is not a socket"));

    auto passage = rundir.passage();
    CHECK_THAT(message(passage.apply({1, false, {0}, {}})), Contains("root"));
    {
        Fd outer(::open(rundir.outer.c_str(), O_RDONLY | O_DIRECTORY));
        REQUIRE(set_search_for(outer.get(), rundir.outer, {77}, {}));
        CHECK_THAT(message(rundir.passage().apply(guests(1, {1001}))),
                   Contains("has an ACL of its own"));
        CHECK(entries(rundir.inner) == std::vector<std::string>{"local-0"});
        REQUIRE(set_mode_only(outer.get(), rundir.outer, 0750));
    }
    // An obstacle after the first level was changed.
    std::filesystem::create_directory(rundir.inner + "/flux-dat-adopted.new");
    CHECK_FALSE(passage.apply(guests(1, {1001})));
    CHECK(acl_of(rundir.inner).users.empty());
    std::filesystem::remove(rundir.inner + "/flux-dat-adopted.new");

    ::chmod(rundir.socket.c_str(), 0700);
    REQUIRE(passage.apply(guests(1, {1001})));
    CHECK_THAT(passage.check(guests(1, {1001})).at(0),
               Contains("guests cannot connect"));
}

TEST_CASE("what is kept is not believed when it is damaged or somebody else's")
{
    Rundir rundir;
    auto passage = rundir.passage();
    auto file = rundir.inner + "/flux-dat-adopted";
    for (std::string text :
         {"", "flux-dat-adopted 2\n", "flux-dat-adopted 1\ngeneration x\n",
          "flux-dat-adopted 1\ngeneration 1\nend\n",
          "flux-dat-adopted 1\ngeneration 1\nlevel 0700 relative\nend\n",
          "flux-dat-adopted 1\ngeneration 1\nlevel 7 /tmp\n",
          "flux-dat-adopted 1\ngeneration 1\nlevel 99 /tmp\nend\n",
          "flux-dat-adopted 1\ngeneration 1\nlevel 0700 /tmp\nend\nmore\n"}) {
        write_file(file, text, 0600);
        CHECK_THAT(message(passage.apply(guests(2, {1001}))), Contains("is damaged"));
        CHECK_THAT(message(passage.restore()), Contains("is damaged"));
    }
    write_file(file, "flux-dat-adopted 1\n", 0666);
    ::chmod(file.c_str(), 0666);
    CHECK_THAT(message(passage.restore()), Contains("only he can write"));
    CHECK(mode_of(rundir.inner) == 0700);
}

TEST_CASE("a way that is somebody else's is refused")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, to act as somebody else");
        return;
    }
    Rundir rundir;
    ::chmod(rundir.outer.c_str(), 0755);
    ::chmod(rundir.inner.c_str(), 0755);
    auto as_owner = [&] {
        return as_user(owner_uid, owner_uid, [&] { return rundir.refused(); });
    };
    CHECK_THAT(as_owner(), Contains("which the socket is in, belongs to user 0"));
    REQUIRE(::chown(rundir.inner.c_str(), owner_uid, owner_uid) == 0);
    CHECK(as_owner() == "no error");
    ::chmod(rundir.outer.c_str(), 0777);
    CHECK_THAT(as_owner(), Contains("can be written by others"));
    ::chmod(rundir.outer.c_str(), 0710);
    REQUIRE(::chown(rundir.outer.c_str(), 0, owner_uid) == 0);
    CHECK_THAT(as_owner(), Contains("is not searchable by others"));
    REQUIRE(::chown(rundir.outer.c_str(), stranger_uid, owner_uid) == 0);
    CHECK_THAT(as_owner(), Contains(fmt::format("belongs to user {}", stranger_uid)));
}
