// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A file descriptor that is closed with its scope. All of lib/perms works on
// descriptors (openat(2) and its kin) and not on paths, so that what was checked is
// what is used.
#pragma once

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

} // namespace fluxdat::perms
