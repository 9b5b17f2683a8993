// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/conf.h"

#include "lib/fd.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::conf {

namespace {

constexpr std::size_t verdict_size_max = 1u << 20; // bytes; a problem is one line

using Clock = std::chrono::steady_clock;

// Whether there is something to read, or the end, before the deadline.
bool readable_before(int fd, Clock::time_point deadline)
{
    for (;;) {
        auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd waiting{fd, POLLIN, 0};
        int ready = poll(&waiting, 1,
                         static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready >= 0 || errno != EINTR)
            return ready != 0; // after an error, read(2) has its say
    }
}

// It has given up its privileges, or has none, so that it can be killed; if it cannot,
// it is left to itself.
void end_process(pid_t pid)
{
    if (kill(pid, SIGKILL) < 0 && errno == EPERM)
        return;
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR)
        ;
}

} // namespace

Result<Json> ask_imp(const std::string& path, double seconds)
{
    const auto silent = [&](std::string_view why) {
        return fail("{}: its \"check\" {}", printable(path), why);
    };
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail_errno(errno, "pipe");
    Fd reading(ends[0]), writing(ends[1]);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, writing.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::array words{std::string(path), std::string("check"), std::string("--json")};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    pid_t pid = -1;
    int errnum = posix_spawn(&pid, path.c_str(), &files, nullptr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    writing = Fd();
    if (errnum != 0)
        return silent("says nothing");
    const auto deadline = Clock::now()
                          + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(seconds));
    std::string text;
    std::array<char, 4096> buffer{};
    bool in_time = true;
    while (text.size() < verdict_size_max) {
        in_time = readable_before(reading.get(), deadline);
        if (!in_time)
            break;
        auto got = read(reading.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    // Who has closed its output but goes on says nothing more, so need not be waited
    // for.
    end_process(pid);
    if (!in_time)
        return silent(fmt::format("did not answer within {} s", seconds));
    auto verdict = Json::parse(text, nullptr, false);
    if (!verdict.is_object() || !verdict.contains("allowed"))
        return silent("says nothing");
    return verdict;
}

bool is_named_as_imp(std::string_view path)
{
    auto name = path.substr(path.rfind('/') + 1);
    return name == "flux-imp" || name == "flux-dat-imp";
}

bool is_installed_imp(const std::string& path)
{
    auto only_of_root = [](const std::string& name) {
        struct stat status;
        return stat(name.c_str(), &status) == 0 && status.st_uid == 0
               && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    };
    return is_named_as_imp(path) && only_of_root(path)
           && only_of_root(path.substr(0, path.rfind('/') + 1));
}

Result<> probe_setuid_imp(const std::string& path)
{
    const std::string name = printable(path);
    struct stat status;
    if (stat(path.c_str(), &status) < 0)
        return fail_errno(errno, name);
    if (!S_ISREG(status.st_mode))
        return fail("{}: not a regular file", name);
    if (status.st_uid != 0 || !(status.st_mode & S_ISUID))
        return std::unexpected(Error{
            fmt::format("{}: not setuid root{}", name,
                        is_installed_imp(path)  ? ""
                        : is_named_as_imp(path) ? ", and not only root may change it"
                                                : ", and no IMP by its name"),
            EPERM});
    if (eaccess(path.c_str(), X_OK) < 0)
        return fail_errno(errno, fmt::format("{}: not executable by this user", name));
    struct statvfs file_system;
    if (statvfs(path.c_str(), &file_system) == 0 && (file_system.f_flag & ST_NOSUID))
        return std::unexpected(
            Error{fmt::format("{}: its file system is mounted nosuid", name), ENOTSUP});
    return {};
}

Result<> probe_bundled_imp(const std::string& path)
{
    if (auto fit = probe_setuid_imp(path); !fit)
        return fit;
    auto verdict = ask_imp(path);
    if (!verdict)
        return std::unexpected(verdict.error());
    if ((*verdict)["allowed"] == false)
        return fail(
            "{}: its configuration does not allow this user (exec.allowed-users)",
            printable(path));
    // null: only root can tell. Installed setuid and configured so that not everybody
    // can read it, it is meant to be used.
    return {};
}

} // namespace fluxdat::conf
