// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/acl.h"
#include "support.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <numeric>
#include <sys/acl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

namespace {

Fd open_directory(const std::string& path)
{
    return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void set_acl(const std::string& path, acl_type_t type, const char* text)
{
    acl_t acl = ::acl_from_text(text);
    REQUIRE(acl);
    REQUIRE(::acl_set_file(path.c_str(), type, acl) == 0);
    ::acl_free(acl);
}

std::vector<uid_t> many_users(std::size_t count)
{
    std::vector<uid_t> users(count);
    std::iota(users.begin(), users.end(), 70000);
    return users;
}

bool is_file_system(const char* path, long magic)
{
    struct statfs status;
    return ::statfs(path, &status) == 0 && status.f_type == magic;
}

} // namespace

TEST_CASE("x for users and groups, nothing for others")
{
    TemporaryDirectory directory;
    auto fd = open_directory(directory.path());
    REQUIRE(::chmod(directory.path().c_str(), 03777) == 0);
    REQUIRE(set_search_for(fd.get(), "DIR", {1002, 1001}, {2001}));
    CHECK(mode_of(directory.path()) == 0710);
    auto acl = read_acl(fd.get(), "DIR");
    REQUIRE(acl);
    CHECK(acl->users == std::vector<uid_t>{1001, 1002});
    CHECK(acl->groups == std::vector<gid_t>{2001});
    CHECK(acl->other.empty());
    CHECK_FALSE(acl->has_default);

    REQUIRE(set_mode_only(fd.get(), "DIR", 0711));
    CHECK(mode_of(directory.path()) == 0711);
    acl = read_acl(fd.get(), "DIR");
    CHECK((acl && acl->users.empty() && acl->groups.empty()));
}

TEST_CASE("what somebody else set by hand is seen, and goes")
{
    TemporaryDirectory directory;
    auto fd = open_directory(directory.path());
    set_acl(directory.path(), ACL_TYPE_ACCESS,
            "u::rwx,u:1001:r-x,u:1002:--x,g:2001:-w-,g::--x,m::rwx,o::r-x");
    set_acl(directory.path(), ACL_TYPE_DEFAULT,
            "u::rwx,u:1003:rwx,g::---,m::rwx,o::---");
    auto acl = read_acl(fd.get(), "DIR");
    REQUIRE(acl);
    CHECK(acl->users == std::vector<uid_t>{1002});
    CHECK(acl->other
          == std::vector<std::string>{"user 1001: r-x", "the owning group: --x",
                                      "group 2001: -w-"});
    CHECK(acl->has_default);

    SECTION("with an ACL of ours")
    {
        REQUIRE(set_search_for(fd.get(), "DIR", {1002}, {}));
        CHECK(mode_of(directory.path()) == 0710);
    }
    SECTION("with a mode of ours")
    {
        REQUIRE(set_mode_only(fd.get(), "DIR", 0700));
        CHECK(mode_of(directory.path()) == 0700);
    }
    acl = read_acl(fd.get(), "DIR");
    REQUIRE(acl);
    CHECK(acl->other.empty());
    CHECK_FALSE(acl->has_default);
}

TEST_CASE("an ACL that the file system cannot hold")
{
    TemporaryDirectory directory;
    if (!is_file_system(directory.path().c_str(), EXT4_SUPER_MAGIC)) {
        WARN("SKIPPED: /tmp is not on ext4, whose ACLs are small");
        return;
    }
    auto fd = open_directory(directory.path());
    CHECK_THAT(
        message(set_search_for(fd.get(), "DIR", many_users(guests_max), {})),
        Contains("cannot give 8000 guests access to DIR: its file system holds no "
                 "ACL of that size")
            && Contains("another --door-dir (tmpfs takes 8000)"));
}

TEST_CASE("tmpfs holds the largest list there can be")
{
    if (!is_file_system("/dev/shm", TMPFS_MAGIC)) {
        WARN("SKIPPED: /dev/shm is not a tmpfs");
        return;
    }
    TemporaryDirectory directory("/dev/shm");
    auto fd = open_directory(directory.path());
    REQUIRE(message(set_search_for(fd.get(), "DIR", many_users(guests_max), {}))
            == "no error");
    auto acl = read_acl(fd.get(), "DIR");
    REQUIRE(acl);
    CHECK(acl->users == many_users(guests_max));
}

TEST_CASE("a file system without ACLs is named, a mode alone needs none")
{
    TemporaryDirectory directory;
    auto said = on_file_system("ramfs", nullptr, directory.path(), [&] {
        auto fd = open_directory(directory.path());
        auto text = message(set_search_for(fd.get(), "DIR", {1001}, {}));
        text += "|" + message(set_mode_only(fd.get(), "DIR", 0711));
        text += "|" + message(read_acl(fd.get(), "DIR"));
        return text;
    });
    if (said == cannot_mount) {
        WARN("SKIPPED: needs the right to mount a file system without ACLs");
        return;
    }
    CHECK(said
          == "cannot give guests access to DIR: its file system has no ACLs; choose "
             "another --door-dir, or --open, which needs none|no error|no error");
}

TEST_CASE("what is not ours cannot be set")
{
    auto root = open_directory("/");
    auto said = as_user(is_root() ? owner_uid : ::geteuid(), ::getegid(), [&] {
        return message(set_search_for(root.get(), "/", {1001}, {})) + "|"
               + message(set_mode_only(root.get(), "/", 0755));
    });
    CHECK(
        said
        == "cannot remove the ACL of /: Operation not permitted|cannot set the mode of "
           "/: Operation not permitted");
}
