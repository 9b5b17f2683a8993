// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The outer process of the supervisor (supervisor.h): starts the inner one, again if it
// dies, and passes on what the broker sends (the inner one is worker.cpp). It handles
// signals one by one (sigtimedwait(2)), so that none comes between a look and a wait.
#include "lib/dat/supervisor.h"

#include "lib/dat/audit.h"
#include "lib/dat/jobspec.h"
#include "lib/result.h"
#include "lib/say.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// Seconds before a worker that died runs again: the first delay, which doubles up to
// the second.
constexpr double restart_delay_min = 0.1, restart_delay_max = 30;

// What a broker sends its initial program when that is to go; a job shell sends its
// tasks SIGALRM when the job's time is over.
constexpr std::array ending{SIGTERM, SIGHUP, SIGINT, SIGALRM};

class Outer
{
public:
    Outer(std::string program, std::string dat_file)
        : program_(std::move(program)), dat_file_(std::move(dat_file))
    {
        sigemptyset(&handled_);
        for (int signum : ending)
            sigaddset(&handled_, signum);
        sigaddset(&handled_, SIGCHLD);
        sigprocmask(SIG_BLOCK, &handled_, &before_);
    }

    // Until the DAT shall end.
    void run()
    {
        double delay = restart_delay_min;
        while (true) {
            auto begun = std::chrono::steady_clock::now();
            auto ended = run_worker();
            if (ended || is_ending_)
                return;
            std::chrono::duration<double> lived =
                std::chrono::steady_clock::now() - begun;
            if (lived.count() > restart_delay_max) // not one of a row of failures
                delay = restart_delay_min;
            complain(fmt::format("{}; again in {} s", ended.error().message, delay));
            if (next_signal(delay) > 0)
                return;
            delay = std::min(delay * 2, restart_delay_max);
        }
    }

private:
    // The next ending signal or SIGCHLD; 0 when the seconds are over.
    int next_signal(double seconds) const
    {
        double whole = std::floor(seconds);
        timespec left{static_cast<time_t>(whole),
                      static_cast<long>((seconds - whole) * 1e9)};
        while (true) {
            int signum = sigtimedwait(&handled_, nullptr, &left);
            if (signum > 0 && signum != SIGCHLD)
                return signum;
            if (signum < 0 && errno == EAGAIN)
                return 0;
            if (signum == SIGCHLD)
                continue; // nobody's: the worker has been waited for
        }
    }

    // One inner process, to its end. No error: the DAT shall end.
    Result<> run_worker()
    {
        pid_t self = getpid(), pid = fork();
        if (pid < 0)
            return fail_errno(errno, "cannot fork");
        if (pid == 0) {
            // A worker that outlived this process would have nobody to start it again.
            // (Ours may have ended before the call; then no signal comes.)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != self)
                _exit(1);
            sigprocmask(SIG_SETMASK, &before_, nullptr);
            execl(program_.c_str(), program_.c_str(), "supervise", "--worker",
                  dat_file_.c_str(), static_cast<char*>(nullptr));
            _exit(127);
        }
        int status = 0;
        while (true) {
            auto ended = waitpid(pid, &status, WNOHANG);
            if (ended == pid)
                break;
            if (ended < 0)
                return fail_errno(errno, "cannot wait for the worker");
            int signum = sigwaitinfo(&handled_, nullptr);
            if (signum > 0 && signum != SIGCHLD) {
                is_ending_ = true;
                kill(pid, signum);
            }
        }
        if (WIFSIGNALED(status))
            return fail("the worker ended (signal {})", WTERMSIG(status));
        if (WEXITSTATUS(status) != 0)
            return fail("the worker ended (status {})", WEXITSTATUS(status));
        return {};
    }

    std::string program_, dat_file_;
    sigset_t handled_, before_;
    bool is_ending_ = false;
};

} // namespace

int supervise(const std::string& program, const std::string& dat_file)
{
    Outer(program, dat_file).run();
    return 0;
}

int supervise_detached(const std::string& program, const std::string& dat_file)
{
    if (auto file = read_dat_file(dat_file); !file) {
        say(stderr, "flux-dat supervise: {}\n", file.error().message);
        return 1;
    }
    // Out of the session and the pipes of whoever waits for this process.
    if (daemon(0, 0) < 0) {
        say(stderr, "flux-dat supervise: cannot detach: {}\n", std::strerror(errno));
        return 1;
    }
    return supervise(program, dat_file);
}

} // namespace fluxdat::dat
