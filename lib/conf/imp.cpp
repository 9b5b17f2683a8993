// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/conf.h"

#include "lib/fd.h"

#include <array>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::conf {

namespace {

constexpr std::size_t verdict_size_max = 1u << 20; // bytes; a problem is one line

// What `IMP check --json` prints; nothing where it cannot be run.
std::optional<std::string> ask_imp(const std::string& path)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return {};
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
        return {};
    std::string text;
    std::array<char, 4096> buffer{};
    while (text.size() < verdict_size_max) {
        auto got = read(reading.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    reading = Fd();
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR)
        ;
    return text;
}

} // namespace

Result<> probe_setuid_imp(const std::string& path)
{
    const std::string name = printable(path);
    struct stat status;
    if (stat(path.c_str(), &status) < 0)
        return fail_errno(errno, name);
    if (!S_ISREG(status.st_mode))
        return fail("{}: not a regular file", name);
    if (status.st_uid != 0 || !(status.st_mode & S_ISUID))
        return fail("{}: not setuid root (chown root, chmod 4755)", name);
    if (eaccess(path.c_str(), X_OK) < 0)
        return fail("{}: not executable by this user: {}", name, strerror(errno));
    struct statvfs file_system;
    if (statvfs(path.c_str(), &file_system) == 0 && (file_system.f_flag & ST_NOSUID))
        return fail("{}: its file system is mounted nosuid", name);
    return {};
}

Result<> probe_bundled_imp(const std::string& path)
{
    if (auto fit = probe_setuid_imp(path); !fit)
        return fit;
    auto said = ask_imp(path);
    auto verdict = Json::parse(said.value_or(""), nullptr, false);
    if (!verdict.is_object() || !verdict.contains("allowed"))
        return fail("{}: its \"check\" says nothing", printable(path));
    if (verdict["allowed"] == false)
        return fail(
            "{}: its configuration does not allow this user (exec.allowed-users)",
            printable(path));
    // null: only root can tell. Installed setuid and configured so that not everybody
    // can read it, it is meant to be used.
    return {};
}

} // namespace fluxdat::conf
