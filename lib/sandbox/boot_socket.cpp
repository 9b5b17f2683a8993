// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/boot_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

// One connection a rank waits here until rank 0 takes it.
constexpr int backlog = 4096;

template <class Call>
Result<int> open_socket(const std::string& path, const char* what, Call call)
{
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
        return fail_errno(ENAMETOOLONG, fmt::format("cannot {} {}", what, path));
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_errno(errno, "cannot open a socket");
    if (call(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) < 0) {
        int errnum = errno;
        ::close(fd);
        return fail_errno(errnum, fmt::format("cannot {} {}", what, path));
    }
    return fd;
}

} // namespace

std::string boot_socket_path(const std::string& job_directory)
{
    return job_directory + "/boot";
}

Result<int> listen_for_boot(const std::string& path)
{
    return open_socket(path, "listen at",
                       [](int fd, struct sockaddr* address, socklen_t size) {
                           int rc = ::bind(fd, address, size);
                           return rc < 0 ? rc : ::listen(fd, backlog);
                       });
}

Result<int> connect_for_boot(const std::string& path)
{
    return open_socket(path, "connect to", ::connect);
}

} // namespace fluxdat::sandbox
