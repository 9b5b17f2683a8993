// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A file descriptor that is closed with its scope. All of lib/perms works on
// descriptors (openat(2) and its kin) and not on paths, so that what was checked is
// what is used.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fluxdat::perms {

class Fd
{
public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd()
    {
        if (fd_ >= 0)
            ::close(fd_);
    }

    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }
    explicit operator bool() const { return fd_ >= 0; }

private:
    int fd_;
};

// Whether `name` in a directory (or AT_FDCWD), itself and not what a symbolic link
// there points to, is what is open as `fd`.
inline bool leads_to(int directory, const char* name, int fd)
{
    struct stat by_name;
    struct stat by_fd;
    return ::fstatat(directory, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0
           && ::fstat(fd, &by_fd) == 0 && by_name.st_dev == by_fd.st_dev
           && by_name.st_ino == by_fd.st_ino;
}

} // namespace fluxdat::perms
