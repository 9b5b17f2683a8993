// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/input.h"

#include "lib/readable.h"

#include <csignal>

namespace fluxdat::dat {

namespace {

// What goes into one message; a pipe holds as much.
constexpr std::size_t chunk_size = 64u << 10; // bytes
// How often a process in the background looks whether it has come to the foreground:
// there is no signal that tells one that was not stopped.
constexpr double foreground_look = 0.5; // seconds

} // namespace

Input::Input(flux::Loop& loop, int fd) : loop_(loop), fd_(fd)
{
    // Between a look and the read, the foreground may change; the read then fails.
    std::signal(SIGTTIN, SIG_IGN);
    epoll_ = watch_readable(fd_);
}

bool Input::in_background() const
{
    pid_t foreground = tcgetpgrp(fd_); // fails for all but the controlling terminal
    return foreground >= 0 && foreground != getpgrp();
}

// Until there is something to read, or the end, or the interrupt.
flux::Task<void> Input::wait(flux::Interrupt& interrupt)
{
    struct Poll {
        uv_poll_t uv;
        flux::Waiter waiter;
    };
    auto* poll = new Poll; // freed when libuv has closed it
    if (uv_poll_init(loop_.uv(), &poll->uv, epoll_.get()) != 0) {
        delete poll;
        co_return;
    }
    poll->uv.data = poll;
    uv_poll_start(&poll->uv, UV_READABLE, [](uv_poll_t* uv, int, int) {
        static_cast<Poll*>(uv->data)->waiter.wake();
    });
    {
        flux::InterruptScope scope(&interrupt, [poll] { poll->waiter.wake(); });
        co_await poll->waiter;
    }
    uv_close(reinterpret_cast<uv_handle_t*>(&poll->uv),
             [](uv_handle_t* handle) { delete static_cast<Poll*>(handle->data); });
}

flux::Task<Result<std::string>> Input::read(flux::Interrupt& interrupt)
{
    std::string bytes(chunk_size, '\0');
    while (true) {
        if (interrupt.reason())
            co_return std::unexpected(*interrupt.reason());
        if (in_background()) {
            (void)co_await loop_.sleep(foreground_look, &interrupt);
            continue;
        }
        if (epoll_) {
            co_await wait(interrupt);
            if (interrupt.reason() || in_background())
                continue;
        }
        auto n = ::read(fd_, bytes.data(), bytes.size());
        if (n >= 0) {
            bytes.resize(static_cast<std::size_t>(n));
            co_return bytes;
        }
        int errnum = errno;
        if (errnum == EBADF) { // closed, as with "<&-"
            bytes.clear();
            co_return bytes;
        }
        bool again =
            errnum == EINTR || errnum == EAGAIN || (errnum == EIO && in_background());
        if (!again)
            co_return fail_errno(errnum, "cannot read standard input");
    }
}

} // namespace fluxdat::dat
