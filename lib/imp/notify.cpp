// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/notify.h"

#include "lib/imp/credentials.h"
#include "lib/imp/fd.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>

namespace fluxdat::imp {

void notify(const std::string& state, uid_t uid, gid_t gid)
{
    const char* variable = std::getenv("NOTIFY_SOCKET");
    if (!variable)
        return;
    std::string_view path = variable;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    bool abstract = path.starts_with('@');
    if (path.size() < 2 || path.size() >= sizeof(address.sun_path)
        || (!abstract && path[0] != '/'))
        return;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (abstract)
        address.sun_path[0] = '\0';
    Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    FileAccessAs as_caller(uid, gid);
    if (!socket || !as_caller)
        return;
    auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address), length);
}

} // namespace fluxdat::imp
