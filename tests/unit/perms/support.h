// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the tests of lib/perms share: directories that go away, and doing things as
// another user or on another file system, in a child process.
#pragma once

#include "lib/perms/door.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace fluxdat::perms::test {

// Users and groups that need not exist: the kernel asks for no names.
constexpr uid_t owner_uid = 64001;
constexpr uid_t guest_uid = 64002;
constexpr uid_t stranger_uid = 64003;
constexpr gid_t guest_gid = 64012;

inline bool is_root()
{
    return ::geteuid() == 0;
}

// A directory below /tmp (or `parent`) that everybody may pass through, removed with
// all that is in it.
class TemporaryDirectory
{
public:
    explicit TemporaryDirectory(const std::string& parent = "/tmp");
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

// What `work` gives, done in a child process.
std::string in_child(const std::function<std::string()>& work);

// The same as this user, in this group and no other. Needs root unless it is us.
std::string as_user(uid_t user, gid_t group, const std::function<std::string()>& work);

// The same with a file system of this type mounted on `path`, for the child alone.
// Gives "cannot mount" where that is not possible (in a container without the right).
constexpr const char* cannot_mount = "cannot mount";
std::string on_file_system(const char* type, const char* options,
                           const std::string& path,
                           const std::function<std::string()>& work);

void write_file(const std::string& path, const std::string& text, mode_t mode = 0644);
std::string read_file(const std::string& path);
std::vector<std::string> entries(const std::string& directory); // sorted
bool exists(const std::string& path);                           // a dangling link does
mode_t mode_of(const std::string& path);                        // the lower 12 bits

// A socket that accepts connections at this path, mode 0777, as a broker's.
Fd listen_at(const std::string& path);
// "connected" or the error's name
std::string connect_to(const std::string& path);

// A guest list that must be valid for the present user.
GuestList guests(std::uint64_t generation, std::vector<uid_t> users,
                 std::vector<gid_t> groups = {}, bool open = false);

// A door in `directory`, which must be possible.
Door door_in(const std::string& directory, const GuestList& list,
             const DoorName& name = {"fAbC", 0});

// The message of an error, or "no error".
template <class T>
std::string message(const Result<T>& result)
{
    return result ? "no error" : result.error().message;
}

} // namespace fluxdat::perms::test
