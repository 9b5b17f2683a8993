// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/supervise.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

constexpr std::array forwarded{SIGHUP,  SIGINT,  SIGQUIT, SIGALRM, SIGTERM,
                               SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
std::unexpected<Error> cannot(const std::string& what)
{
    int errnum = errno;
    return fail("cannot " + what + ": " + std::strerror(errnum), errnum);
}

// The next signal; 0 where there is none yet.
Result<int> next_signal(int fd)
{
    signalfd_siginfo info;
    auto got = read(fd, &info, sizeof(info));
    if (got == static_cast<ssize_t>(sizeof(info)))
        return static_cast<int>(info.ssi_signo);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    return cannot("read signals");
}

void kill_job(const Supervised& supervised, bool child_lives)
{
    // Failures are no news: whom it does not reach any more has ended.
    if (child_lives)
        kill(supervised.group ? -supervised.child : supervised.child, SIGKILL);
    if (supervised.cgroup)
        (void)supervised.cgroup->kill_all({getpid()});
}

void hand_on(int signum, const Supervised& supervised)
{
    if (signum == SIGUSR1)
        return kill_job(supervised, true);
    for (int known : forwarded)
        if (signum == known)
            kill(supervised.group ? -supervised.child : supervised.child, signum);
}

} // namespace

Result<Signals> Signals::block()
{
    Signals signals;
    sigset_t blocked;
    // SIGSEGV and its like, too: sent by the caller they would end the IMP, and leave
    // the job alone. A real fault ends a process that blocks them all the same.
    sigfillset(&blocked);
    if (sigprocmask(SIG_BLOCK, &blocked, &signals.before_) < 0)
        return cannot("block signals");
    signals.fd_ = Fd(signalfd(-1, &blocked, SFD_CLOEXEC));
    if (!signals.fd_)
        return cannot("wait for signals");
    return signals;
}

void Signals::restore() const
{
    sigprocmask(SIG_SETMASK, &before_, nullptr);
}

Result<int> supervise(const Supervised& supervised, const Signals& signals)
{
    for (;;) {
        int status = 0;
        auto ended = waitpid(supervised.child, &status, WNOHANG);
        if (ended == supervised.child)
            return status;
        if (ended < 0 && errno != EINTR)
            return cannot("wait for the child");
        // SIGCHLD only wakes: waitpid(2) tells.
        auto signum = next_signal(signals.fd());
        if (!signum)
            return signum;
        if (*signum != 0 && *signum != SIGCHLD)
            hand_on(*signum, supervised);
    }
}

Result<> wait_for_cgroup(const Supervised& supervised, const Signals& signals)
{
    while (supervised.cgroup) {
        auto empty = supervised.cgroup->wait_empty({getpid()}, signals.fd());
        if (!empty)
            return std::unexpected(std::move(empty.error()));
        if (*empty)
            break;
        auto signum = next_signal(signals.fd());
        if (!signum)
            return std::unexpected(std::move(signum.error()));
        if (*signum == SIGUSR1)
            kill_job(supervised, false);
    }
    return {};
}

void end_like(int status)
{
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    int signum = WTERMSIG(status);
    // It is not the IMP that has something to show in a core file.
    prctl(PR_SET_DUMPABLE, 0);
    std::signal(signum, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signum);
    raise(signum);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    _exit(128 + signum);
}

} // namespace fluxdat::imp
