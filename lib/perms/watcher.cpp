// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/watcher.h"

#include "lib/signals_blocked.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace fluxdat::perms {

namespace {

constexpr const char* process_name = "flux-dat-door"; // in ps; at most 15 bytes
constexpr std::size_t report_max = 4096;              // bytes; PIPE_BUF, at once

// What the watcher says when it is ready, the door's path after it. Anything else it
// says is why it is not.
constexpr char ready = '\0';

[[noreturn]] void give_up(int pipe, std::string_view why)
{
    // Nobody is left to tell if that fails.
    [[maybe_unused]] auto written = ::write(pipe, why.data(), why.size());
    ::_exit(1);
}

std::string error_of(const char* what)
{
    return fmt::format("cannot watch over the door: {}: {}", what, strerror(errno));
}

// Opens those of 0 to 2 that are closed. (A process can be started without them.)
bool fill_standard()
{
    int null = 0;
    while (null >= 0 && null <= 2)
        null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null > 2)
        ::close(null);
    return null >= 0;
}

// Closes all descriptors but 0 to 2 and these.
bool close_others(std::array<int, 2> kept)
{
    std::sort(kept.begin(), kept.end());
    unsigned first = 3;
    for (int fd : kept) {
        auto number = static_cast<unsigned>(fd);
        if (number > first && ::close_range(first, number - 1, 0) < 0)
            return false;
        first = number + 1;
    }
    return ::close_range(first, ~0U, 0) == 0;
}

bool detach()
{
    Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    return null && ::dup2(null.get(), 0) == 0 && ::dup2(null.get(), 1) == 1
           && ::dup2(null.get(), 2) == 2 && ::chdir("/") == 0
           && ::prctl(PR_SET_NAME, process_name) == 0;
}

void wait_for_end(int process)
{
    pollfd ended{process, POLLIN, 0};
    while (::poll(&ended, 1, -1) < 0 && errno == EINTR)
        ;
}

// What came through the pipe until all its writers were gone.
std::string read_report(int pipe)
{
    std::string text(report_max, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        auto got = ::read(pipe, text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size += static_cast<std::size_t>(got);
    }
    text.resize(size);
    return text;
}

// A descriptor that is none of 0 to 2, which the watcher replaces.
Fd above_standard(Fd fd)
{
    return fd.get() > 2 ? std::move(fd) : Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

} // namespace

// The second generation: makes the door, says so, and outlives the rank.
void watch(const std::function<Result<Door>()>& make, int process, int pipe,
           const Attend& attend)
{
    // Before there is a thread: make() looks up names, and a lookup that hangs goes on
    // behind it (lib/in_time.h), with descriptors of its own, of whatever number.
    if (!fill_standard())
        give_up(pipe, error_of("/dev/null"));
    if (!close_others({process, pipe}))
        give_up(pipe, error_of("close_range"));
    auto made = make();
    if (!made)
        give_up(pipe, made.error().message);
    Door door = std::move(*made);
    auto give_up_door = [&](const char* what) {
        auto why = error_of(what);
        (void)door.remove(); // the first error counts
        leave_door_dir(std::move(door.dir_));
        give_up(pipe, why);
    };
    if (!detach())
        give_up_door("cannot detach from the job");
    auto said = ready + door.path();
    if (::write(pipe, said.data(), said.size()) == static_cast<ssize_t>(said.size())) {
        ::close(pipe);
        if (attend)
            attend(door.path(), process);
        wait_for_end(process);
    }                    // else the rank has ended already
    (void)door.remove(); // nobody is left to tell; the next sweep() does
    leave_door_dir(std::move(door.dir_));
}

Result<std::string> spawn_watcher(const std::function<Result<Door>()>& make,
                                  pid_t broker, Attend attend)
{
    // <sys/pidfd.h> of glibc 2.36 is not for C++.
    Fd process(static_cast<int>(::syscall(SYS_pidfd_open, broker, 0)));
    if (!process)
        return fail("{}", error_of("pidfd_open"));
    process = above_standard(std::move(process));
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0)
        return fail("{}", error_of("no pipe"));
    Fd reading = above_standard(Fd(ends[0]));
    Fd writing = above_standard(Fd(ends[1]));
    if (!process || !reading || !writing)
        return fail("{}", error_of("dup"));

    // So there is no moment in which a signal to the job would end the watcher.
    SignalsBlocked blocked;
    pid_t child = ::vfork();
    if (child < 0)
        return fail("{}", error_of("no process"));
    if (child == 0) {
        // Two generations: the first leads the new session and ends, so the watcher
        // belongs to nobody here and never gets a terminal. The first does nothing but
        // that, so it borrows this process's memory (vfork): a copy would be made, and
        // thrown away, on every rank.
        if (::setsid() < 0)
            give_up(writing.get(), error_of("setsid"));
        pid_t watcher = ::fork();
        if (watcher < 0)
            give_up(writing.get(), error_of("fork"));
        if (watcher == 0)
            watch(make, process.get(), writing.release(), attend);
        ::_exit(0);
    }
    writing = Fd();
    auto said = read_report(reading.get());
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR)
        ;
    if (said.empty())
        return fail("the process that makes the door, and is to watch over it, ended "
                    "at once");
    if (said[0] != ready)
        return fail("{}", said);
    return said.substr(1);
}

} // namespace fluxdat::perms
