// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/privsep.h"

#include "lib/imp/bytes.h"
#include "lib/imp/credentials.h"
#include "lib/imp/fd.h"
#include "lib/imp/process.h"
#include "lib/imp/trusted.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

// Bytes that are asked of the pipe at once, and what the pipe is asked to hold: a
// jobspec of a megabyte then takes a few turns.
constexpr int pipe_bytes = 1 << 20;
// Bytes of a reader's own complaint that are repeated.
constexpr std::size_t complaint_bytes_max = 2048;

std::unexpected<Error> cannot(const std::string& what)
{
    int errnum = errno;
    return fail("cannot " + what + ": " + std::strerror(errnum), errnum);
}

// In the child: says what failed in the way that a reader does, and ends.
[[noreturn]] void give_up(int output, const std::string& why)
{
    Kv kv;
    if (kv.put_string("error", why)) {
        auto bytes = kv.encode();
        // If this cannot be written there is nobody left to tell.
        [[maybe_unused]] auto written = write(output, bytes.data(), bytes.size());
    }
    _exit(1);
}

// In the child: gives up privileges for good and becomes the reader.
[[noreturn]] void become_reader(const Reader& reader, uid_t uid, gid_t gid, int output,
                                pid_t parent)
{
    if (auto dropped = drop_for_good(uid, gid); !dropped)
        give_up(output, "the reader: " + dropped.error().message);
    // After the change of credentials, which clears it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (output == reader_output_fd)
        fcntl(output, F_SETFD, 0);
    else if (dup2(output, reader_output_fd) < 0)
        give_up(output, std::string("the reader: dup2: ") + std::strerror(errno));
    if (close_range(reader_output_fd + 1, ~0u, 0) < 0)
        give_up(reader_output_fd,
                std::string("the reader: close_range: ") + std::strerror(errno));
    std::vector<std::string> words{reader.program};
    words.insert(words.end(), reader.arguments.begin(), reader.arguments.end());
    execv(reader.program.c_str(), c_strings(words).data());
    give_up(reader_output_fd, "the reader " + reader.program
                                  + " cannot be executed: " + std::strerror(errno));
}

class Deadline
{
public:
    explicit Deadline(int seconds) : end_(now_ms() + seconds * 1000LL) {}

    // Milliseconds left, for poll(2).
    int left() const
    {
        auto left = end_ - now_ms();
        return left < 0 ? 0 : static_cast<int>(left);
    }

private:
    static long long now_ms()
    {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
    }
    long long end_;
};

// Waits until fd can be read. ETIME when time is up.
Result<> wait_readable(int fd, const Deadline& deadline)
{
    for (;;) {
        pollfd entry{fd, POLLIN, 0};
        int ready = poll(&entry, 1, deadline.left());
        if (ready > 0)
            return {};
        if (ready == 0)
            return fail("time is up", ETIME);
        if (errno != EINTR)
            return cannot("wait for the reader");
    }
}

Result<Bytes> read_output(int fd, const Deadline& deadline)
{
    Bytes bytes;
    for (;;) {
        if (auto ready = wait_readable(fd, deadline); !ready)
            return std::unexpected(std::move(ready.error()));
        auto room = bytes.room();
        auto got = read(fd, room.data(), room.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot("read from the reader");
        if (got == 0)
            return bytes;
        bytes.filled(static_cast<std::size_t>(got));
        if (bytes.size() > kv_bytes_max)
            return fail("the reader wrote more than " + std::to_string(kv_bytes_max)
                            + " bytes",
                        E2BIG);
    }
}

// Waits for the end of the child; its status as waitpid(2) gives it.
Result<int> wait_ended(pid_t child, const Deadline& deadline)
{
    Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
    if (pidfd)
        if (auto ready = wait_readable(pidfd.get(), deadline); !ready)
            return std::unexpected(std::move(ready.error()));
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return cannot("wait for the reader");
    return status;
}

void kill_and_reap(pid_t child)
{
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR)
        ;
}

std::string how_it_ended(int status)
{
    if (WIFSIGNALED(status))
        return "was killed by signal " + std::to_string(WTERMSIG(status));
    return "ended with status " + std::to_string(WEXITSTATUS(status));
}

Result<Kv> judge(std::string_view bytes, int status)
{
    auto kv = Kv::decode(bytes);
    if (kv && kv->contains("error")) {
        auto error = kv->get_string("error");
        if (!error)
            return fail("what the reader says is no text: " + error.error().message,
                        EINVAL);
        return fail(printable(error->substr(0, complaint_bytes_max)), EINVAL);
    }
    if (status != 0)
        return fail("the reader " + how_it_ended(status) + " and gave no answer");
    if (!kv)
        return fail("the reader's answer: " + kv.error().message, EINVAL);
    return kv;
}

} // namespace

Result<Kv> read_input(const Reader& reader, uid_t uid, gid_t gid)
{
    if (auto fit = check_trusted(reader.program, reader.also); !fit)
        return fail("the reader " + fit.error().message, fit.error().errnum);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cannot("make a pipe to the reader");
    Fd output(ends[0]), input(ends[1]);
    // More than the default 64 KiB spares turns; where it is refused they are made.
    fcntl(output.get(), F_SETPIPE_SZ, pipe_bytes);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0)
        return cannot("start the reader");
    if (child == 0)
        become_reader(reader, uid, gid, input.get(), parent);
    input.close();

    Deadline deadline(reader.seconds_max);
    auto bytes = read_output(output.get(), deadline);
    // From here on it gets SIGPIPE when it goes on writing.
    output.close();
    auto status = bytes ? wait_ended(child, deadline)
                        : Result<int>(std::unexpected(bytes.error()));
    if (!status) {
        kill_and_reap(child);
        if (status.error().errnum == ETIME)
            return fail("the reader did not come to an end within "
                            + std::to_string(reader.seconds_max) + " seconds",
                        ETIME);
        return std::unexpected(std::move(status.error()));
    }
    return judge(bytes->view(), *status);
}

} // namespace fluxdat::imp
