// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How to wait, with libuv, until there is something to read on a descriptor that others
// have, too: the shell on a terminal, what else is in a pipeline. uv_poll_init() makes
// what it is given non-blocking, for all of them and for good. So it is given an
// epoll(7) of this process in between.
#pragma once

#include "lib/fd.h"

#include <sys/epoll.h>

namespace fluxdat {

// Readable when `fd` is. None where epoll does not take it: a file, which is always
// ready, or a descriptor that is closed.
inline Fd watch_readable(int fd)
{
    Fd watch(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event readable = {};
    readable.events = EPOLLIN;
    if (watch && epoll_ctl(watch.get(), EPOLL_CTL_ADD, fd, &readable) < 0)
        return Fd();
    return watch;
}

} // namespace fluxdat
