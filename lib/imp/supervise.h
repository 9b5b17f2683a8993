// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the IMP does while the job shell, or a command that is run as root, is there:
// RFC 15, "Signal Handling". The instance's owner may signal the IMP and nobody else's
// processes, so the IMP hands signals on:
//
//     HUP INT QUIT ALRM TERM CONT TSTP TTIN TTOU WINCH    as they are
//     USR1    SIGKILL: for everybody in the cgroup where the IMP has one of its own
//             ("imp-shell..."), else for the child, or its process group if it has one
//
// Signals of an error in the IMP itself are left alone; all others are blocked, so that
// none ends the IMP and leaves the child without it.
#pragma once

#include "lib/imp/cgroup.h"
#include "lib/imp/fd.h"
#include "lib/imp/result.h"

#include <csignal>
#include <optional>
#include <sys/types.h>

namespace fluxdat::imp {

// The signals of this process, from just before the child is made until the end.
class Signals
{
public:
    // Blocks them; from now on they wait to be handed on. SIGCHLD must have its default
    // action already (main.cpp).
    static Result<Signals> block();

    // In the child: signals as the caller of this program had them.
    void restore() const;

    int fd() const { return fd_.get(); } // signalfd(2)

private:
    Signals() = default;
    Fd fd_;
    sigset_t before_{};
};

struct Supervised {
    pid_t child = -1;
    bool group = false; // the child leads a process group, which gets the signals
    std::optional<Cgroup> cgroup; // the IMP's own
};

// Hands signals on until the child has ended: its status as waitpid(2) gives it.
Result<int> supervise(const Supervised& supervised, const Signals& signals);

// Waits until nobody but the IMP is left in its own cgroup, handing on SIGUSR1 only,
// since there is no shell any more. Returns at once where there is no such cgroup.
Result<> wait_for_cgroup(const Supervised& supervised, const Signals& signals);

// Ends this process as the child ended: with its exit status, or by its signal.
[[noreturn]] void end_like(int status);

} // namespace fluxdat::imp
