// SPDX-License-Identifier: LGPL-3.0-or-later
#include "support.h"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <grp.h>
#include <sched.h>
#include <sstream>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

namespace fluxdat::perms::test {

TemporaryDirectory::TemporaryDirectory(const std::string& parent)
    : path_(parent + "/fluxdat-perms-XXXXXX")
{
    REQUIRE(::mkdtemp(path_.data()));
    REQUIRE(::chmod(path_.c_str(), 0755) == 0);
}

TemporaryDirectory::~TemporaryDirectory()
{
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string in_child(const std::function<std::string()>& work)
{
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    Fd reading(ends[0]);
    Fd writing(ends[1]);
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        try {
            auto text = work();
            auto written = ::write(writing.get(), text.data(), text.size());
            ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
        } catch (
            ...) { // a REQUIRE in it, which must not go on to the tests that follow
            ::_exit(2);
        }
    }
    writing = Fd();
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(reading.get(), buffer, sizeof(buffer))) > 0;)
        text.append(buffer, static_cast<std::size_t>(got));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
    return text;
}

std::string as_user(uid_t user, gid_t group, const std::function<std::string()>& work)
{
    return in_child([&]() -> std::string {
        if (user == ::geteuid())
            return work();
        if (::setgroups(0, nullptr) < 0 || ::setresgid(group, group, group) < 0
            || ::setresuid(user, user, user) < 0)
            return std::string("cannot become another user: ") + strerror(errno);
        return work();
    });
}

std::string on_file_system(const char* type, const char* options,
                           const std::string& path,
                           const std::function<std::string()>& work)
{
    return in_child([&]() -> std::string {
        if (::unshare(CLONE_NEWNS) < 0
            || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0
            || ::mount("none", path.c_str(), type, 0, options) < 0)
            return cannot_mount;
        ::chmod(path.c_str(), 0755);
        return work();
    });
}

void write_file(const std::string& path, const std::string& text, mode_t mode)
{
    std::ofstream(path) << text;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
}

std::string read_file(const std::string& path)
{
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::vector<std::string> entries(const std::string& directory)
{
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

bool exists(const std::string& path)
{
    struct stat status;
    return ::lstat(path.c_str(), &status) == 0;
}

mode_t mode_of(const std::string& path)
{
    struct stat status;
    return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

namespace {

sockaddr_un address_of(const std::string& path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
}

} // namespace

Fd listen_at(const std::string& path)
{
    auto address = address_of(path);
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address))
            == 0);
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    REQUIRE(::listen(socket.get(), 100) == 0);
    return socket;
}

std::string connect_to(const std::string& path)
{
    auto address = address_of(path);
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address))
        == 0)
        return "connected";
    return ::strerrorname_np(errno);
}

GuestList guests(std::uint64_t generation, std::vector<uid_t> users,
                 std::vector<gid_t> groups, bool open)
{
    auto list = make_guest_list(generation, open, std::move(users), std::move(groups),
                                ::geteuid());
    REQUIRE(message(list) == "no error");
    return *list;
}

Door door_in(const std::string& directory, const GuestList& list, const DoorName& name)
{
    auto dir = open_door_dir(directory);
    REQUIRE(message(dir) == "no error");
    auto door = Door::create(*dir, name, list);
    REQUIRE(message(door) == "no error");
    return std::move(*door);
}

} // namespace fluxdat::perms::test
