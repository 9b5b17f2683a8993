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
constexpr std::size_t report_max = 512;               // bytes

// What the watcher says when it is ready. Anything else it says is why it is not.
constexpr char ready = '\0';

void report(int pipe, std::string_view text)
{
    // Nobody is left to tell if that fails.
    [[maybe_unused]] auto written = ::write(pipe, text.data(), text.size());
}

[[noreturn]] void give_up(int pipe, const char* what)
{
    report(pipe, fmt::format("{}: {}", what, strerror(errno)));
    ::_exit(1);
}

// Closes all descriptors but 0 to 2 and these.
bool close_others(std::array<int, 4> kept)
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
    int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    return null >= 0 && ::dup2(null, 0) == 0 && ::dup2(null, 1) == 1
           && ::dup2(null, 2) == 2 && ::chdir("/") == 0
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

// A descriptor that is none of 0 to 2, which the watcher replaces. (A process can be
// started without them.) The lock goes with the description, so a copy holds it too.
Fd above_standard(Fd fd)
{
    return fd.get() > 2 ? std::move(fd) : Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

} // namespace

Result<> spawn_watcher(Door&& given, pid_t broker)
{
    Door door = std::move(given);
    auto failed = [&](std::string why) {
        (void)door.remove(); // the first error counts
        leave_door_dir(std::move(door.dir_));
        return fail("cannot watch over the door {}: {}", door.path(), why);
    };
    door.dir_.fd = above_standard(std::move(door.dir_.fd));
    door.door_ = above_standard(std::move(door.door_));
    // <sys/pidfd.h> of glibc 2.36 is not for C++.
    Fd process(static_cast<int>(::syscall(SYS_pidfd_open, broker, 0)));
    if (!process)
        return failed(fmt::format("process {}: {}", broker, strerror(errno)));
    process = above_standard(std::move(process));
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0)
        return failed(fmt::format("no pipe: {}", strerror(errno)));
    Fd reading = above_standard(Fd(ends[0]));
    Fd writing = above_standard(Fd(ends[1]));

    // So there is no moment in which a signal to the job would end the watcher.
    SignalsBlocked blocked;
    pid_t child = ::vfork();
    if (child < 0)
        return failed(fmt::format("no process: {}", strerror(errno)));
    if (child == 0) {
        // Two generations: the first leads the new session and ends, so the watcher
        // belongs to nobody here and never gets a terminal. The first does nothing but
        // that, so it borrows this process's memory (vfork): a copy would be made, and
        // thrown away, on every rank.
        if (::setsid() < 0)
            give_up(writing.get(), "setsid");
        pid_t watcher = ::fork();
        if (watcher < 0)
            give_up(writing.get(), "fork");
        if (watcher > 0)
            ::_exit(0);
        if (!detach())
            give_up(writing.get(), "cannot detach from the job");
        if (!close_others(
                {door.dir_.fd.get(), door.door_.get(), process.get(), writing.get()}))
            give_up(writing.get(), "close_range");
        report(writing.get(), {&ready, 1});
        ::close(writing.release());
        wait_for_end(process.get());
        (void)door.remove(); // nobody is left to tell; the next sweep() does
        leave_door_dir(std::move(door.dir_));
        ::_exit(0);
    }
    writing = Fd();
    auto said = read_report(reading.get());
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR)
        ;
    if (said != std::string_view(&ready, 1))
        return failed(said.empty() ? "it ended at once" : said);
    return {};
}

} // namespace fluxdat::perms
