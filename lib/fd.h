// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A file descriptor that is closed with its scope, and writing all of something to one.
// (lib/imp has its own, as it has its own of everything.)
#pragma once

#include <cerrno>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace fluxdat {

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

// All of it; false, and errno, where it cannot be. Waits also where somebody who has
// the same open file has made it non-blocking.
inline bool write_all(int fd, std::string_view bytes)
{
    while (!bytes.empty()) {
        auto written = ::write(fd, bytes.data(), bytes.size());
        pollfd room{fd, POLLOUT, 0};
        if (written >= 0)
            bytes.remove_prefix(static_cast<std::size_t>(written));
        else if (errno == EAGAIN)
            ::poll(&room, 1, -1);
        else if (errno != EINTR)
            return false;
    }
    return true;
}

} // namespace fluxdat
