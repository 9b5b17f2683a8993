// SPDX-License-Identifier: LGPL-3.0-or-later
//
// pidfd_open(2) and pidfd_send_signal(2): a process that is held cannot become another.
// <sys/pidfd.h> of glibc 2.36 is not for C++.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace fluxdat::sandbox {

inline int open_process(pid_t pid)
{
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

inline int signal_process(int process, int signum)
{
    return static_cast<int>(
        ::syscall(SYS_pidfd_send_signal, process, signum, nullptr, 0));
}

} // namespace fluxdat::sandbox
