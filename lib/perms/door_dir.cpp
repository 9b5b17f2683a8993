// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/door_dir.h"

#include "lib/perms/acl.h"

#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>

namespace fluxdat::perms {

namespace {

constexpr mode_t private_dir_mode = 0711; // guests pass through, only the owner lists
// How often somebody who just leaves the private directory may remove it again before
// that is an error. One attempt is some microseconds.
constexpr int attempts_max = 1000;

// The rule at the head of door_dir.h, for one level.
Result<> check_level(int fd, const std::string& path)
{
    struct stat status;
    if (::fstat(fd, &status) < 0)
        return fail_errno(errno, "cannot look at " + path);
    if (status.st_uid != 0 && status.st_uid != ::geteuid())
        return fail("{} belongs to user {}, who could exchange a door there; choose "
                    "another --door-dir",
                    path, status.st_uid);
    if ((status.st_mode & 022) && !(status.st_mode & S_ISVTX))
        return fail("{} can be written by others (mode {:04o}) and is not sticky, so a "
                    "door there could be exchanged; chmod go-w {} or choose another "
                    "--door-dir",
                    path, status.st_mode & 07777, path);
    if (!(status.st_mode & S_IXOTH))
        return fail("{} is not searchable by others (mode {:04o}), so no guest would "
                    "reach a door there; chmod o+x {} or choose another --door-dir",
                    path, status.st_mode & 07777, path);
    return {};
}

// Opens an absolute path without symbolic links, level by level, each checked.
Result<Fd> walk(const std::string& path)
{
    Fd level(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!level)
        return fail_errno(errno, "cannot open /");
    if (auto fine = check_level(level.get(), "/"); !fine)
        return std::unexpected(fine.error());
    std::size_t begin = 1;
    while (begin < path.size()) {
        auto end = std::min(path.find('/', begin), path.size());
        auto here = path.substr(0, end);
        level = Fd(::openat(level.get(), path.substr(begin, end - begin).c_str(),
                            O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!level)
            return fail_errno(errno, "cannot open " + here);
        if (auto fine = check_level(level.get(), here); !fine)
            return std::unexpected(fine.error());
        begin = end + 1;
    }
    return level;
}

Result<> check_writable(const DoorDir& dir)
{
    if (::faccessat(dir.fd.get(), ".", W_OK | X_OK, AT_EACCESS) == 0)
        return {};
    int errnum = errno;
    return std::unexpected(Error{
        fmt::format("cannot make directories in {}: {}; choose another --door-dir",
                    dir.path, strerror(errnum)),
        errnum});
}

Result<DoorDir> open_writable(const std::string& path)
{
    auto dir = open_door_dir(path);
    if (!dir)
        return dir;
    if (auto writable = check_writable(*dir); !writable)
        return std::unexpected(writable.error());
    return dir;
}

// What is at the private directory's name, if it is a directory of ours; mode and ACL
// put right. errnum is ENOENT if it was removed meanwhile.
Result<Fd> open_private(int parent, const std::string& name, const std::string& path)
{
    Fd found(::openat(parent, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status;
    if (!found || ::fstat(found.get(), &status) < 0)
        return fail_errno(errno, "cannot open " + path);
    if (!S_ISDIR(status.st_mode))
        return fail(
            "{} is not a directory (it is to hold this user's doors): remove it "
            "or choose a --door-dir",
            path);
    if (status.st_uid != ::geteuid())
        return fail("{} belongs to user {}, not to user {} whose doors it is to hold: "
                    "choose a --door-dir",
                    path, status.st_uid, ::geteuid());
    // It is ours, and its parent sticky or ours, so nobody exchanges it from here on.
    // A umask may have taken bits away, even those that opening it takes.
    if (::fchmodat(parent, name.c_str(), private_dir_mode, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_errno(errno, "cannot set the mode of " + path);
    Fd readable(::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!readable)
        return fail_errno(errno, "cannot open " + path);
    if (auto set = set_mode_only(readable.get(), path, private_dir_mode); !set)
        return std::unexpected(set.error());
    return readable;
}

Result<DoorDir> private_door_dir(const std::string& parent_path)
{
    auto parent = open_writable(parent_path);
    if (!parent)
        return parent;
    auto name = fmt::format("flux-dat-{}", ::geteuid());
    auto path = parent->path + "/" + name;
    for (int attempt = 0; attempt < attempts_max; attempt++) {
        if (::mkdirat(parent->fd.get(), name.c_str(), private_dir_mode) < 0
            && errno != EEXIST)
            return fail_errno(errno, "cannot make the directory " + path);
        auto fd = open_private(parent->fd.get(), name, path);
        if (!fd && fd.error().errnum == ENOENT)
            continue;
        if (!fd)
            return std::unexpected(fd.error());
        while (::flock(fd->get(), LOCK_SH) < 0)
            if (errno != EINTR)
                return fail_errno(errno, "cannot lock " + path);
        if (leads_to(parent->fd.get(), name.c_str(), fd->get()))
            return DoorDir{path, std::move(*fd), true, {}};
    }
    return fail("cannot make the directory {}: it was removed as often as it was made",
                path);
}

} // namespace

Result<DoorDir> open_door_dir(const std::string& path)
{
    if (!path.starts_with('/'))
        return fail(Exit::usage, "--door-dir {}: not an absolute path", path);
    std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr),
                                                ::free);
    if (!real)
        return fail_errno(errno,
                          fmt::format("cannot open the door directory {}", path));
    auto fd = walk(real.get());
    if (!fd && fd.error().errnum == ENOTDIR)
        return fail("the door directory {} is not a directory", path);
    if (!fd)
        return std::unexpected(fd.error());
    return DoorDir{real.get(), std::move(*fd), false, {}};
}

DoorDir DoorDir::share() const
{
    int access = is_private ? O_RDONLY : O_PATH;
    DoorDir other{path, Fd(::openat(fd.get(), ".", access | O_DIRECTORY | O_CLOEXEC)),
                  is_private, note};
    if (is_private)
        ::flock(other.fd.get(),
                LOCK_SH); // held already, so nobody holds it exclusively
    return other;
}

void leave_door_dir(DoorDir dir)
{
    if (!dir.is_private)
        return;
    // First let go, then ask for it alone: of several that leave at the same time, the
    // last one that asks gets it. (Turning a shared lock into an exclusive one, all of
    // them could fail.)
    ::flock(dir.fd.get(), LOCK_UN);
    if (::flock(dir.fd.get(), LOCK_EX | LOCK_NB) == 0
        && leads_to(AT_FDCWD, dir.path.c_str(), dir.fd.get()))
        ::rmdir(dir.path.c_str()); // not empty: a stale door, for the next sweep
}

Result<DoorDir> choose_door_dir(const DoorDirChoice& choice)
{
    if (choice.given)
        return open_writable(*choice.given);
    auto preferred = open_writable(choice.preferred);
    if (preferred)
        return preferred;
    auto dir = private_door_dir(choice.private_parent);
    if (dir)
        dir->note =
            fmt::format("doors go to {}: {}", dir->path, preferred.error().message);
    return dir;
}

} // namespace fluxdat::perms
