// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/level.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace fluxdat::perms {

namespace {

constexpr std::size_t file_size_max = 64u << 10; // bytes; a level is a path

// What nobody but root and this user can exchange, and what guests can pass or this
// user can open to them. `last`: the socket's own directory.
Result<> check_level(const struct stat& status, const std::string& path, bool last)
{
    bool ours = status.st_uid == ::geteuid();
    if (!ours && status.st_uid != 0)
        return fail("{}, on the way to the socket, belongs to user {}, who could "
                    "exchange what is in it",
                    path, status.st_uid);
    if ((status.st_mode & 022) && !(status.st_mode & S_ISVTX) && !last)
        return fail("{}, on the way to the socket, can be written by others (mode "
                    "{:04o}) and is not sticky; chmod go-w {}",
                    path, status.st_mode & 07777, path);
    if (last && !ours)
        return fail("{}, which the socket is in, belongs to user {}: only what is the "
                    "instance's own can be opened to guests",
                    path, status.st_uid);
    if (!last && !ours && !(status.st_mode & S_IXOTH))
        return fail("{}, on the way to the socket, is not searchable by others (mode "
                    "{:04o}) and belongs to user {}",
                    path, status.st_mode & 07777, status.st_uid);
    return {};
}

Result<std::string> read_whole(int file, const std::string& path)
{
    std::string text;
    std::array<char, 4096> buffer{};
    while (true) {
        auto got = ::read(file, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(errno, "cannot read " + path);
        if (got == 0)
            return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
        if (text.size() > file_size_max)
            return fail("{} is larger than {} bytes", path, file_size_max);
    }
}

} // namespace

std::optional<std::string_view> take_until(std::string_view& text, char end)
{
    auto at = text.find(end);
    if (at == text.npos)
        return {};
    auto taken = text.substr(0, at);
    text.remove_prefix(at + 1);
    return taken;
}

Result<Fd> walk(const std::string& path, bool to_socket, const See& see)
{
    Fd level(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (std::size_t begin = 1; level && begin < path.size();) {
        auto end = std::min(path.find('/', begin), path.size());
        auto here = path.substr(0, end);
        level = Fd(::openat(level.get(), path.substr(begin, end - begin).c_str(),
                            O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        struct stat status;
        if (!level || ::fstat(level.get(), &status) < 0)
            return fail_errno(errno, "cannot open " + here);
        bool last = end == path.size() && to_socket;
        if (auto fine = check_level(status, here, last); !fine)
            return std::unexpected(fine.error());
        see(level.get(), status, here);
        begin = end + 1;
    }
    if (!level)
        return fail_errno(errno, "cannot open /");
    return level;
}

Result<Fd> open_level(const std::string& path)
{
    uid_t user = 0;
    auto found =
        walk(path, true, [&](int, const struct stat& status, const std::string&) {
            user = status.st_uid;
        });
    if (!found)
        return found;
    if (user != ::geteuid())
        return fail("{} belongs to user {}, and did not before", path, user);
    Fd level(::openat(found->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!level)
        return fail_errno(errno, "cannot open " + path);
    return level;
}

Result<std::optional<std::string>> read_own(int directory, const std::string& path,
                                            const char* name)
{
    auto file_path = fmt::format("{}/{}", path, name);
    Fd file(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ENOENT)
        return std::nullopt;
    struct stat status;
    if (!file || ::fstat(file.get(), &status) < 0)
        return fail_errno(errno, "cannot open " + file_path);
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()
        || (status.st_mode & 022))
        return fail("{} is not a file of this user's that only he can write",
                    file_path);
    auto text = read_whole(file.get(), file_path);
    if (!text)
        return std::unexpected(text.error());
    return std::move(*text);
}

Result<Fd> lock_in(int directory, const std::string& path, const char* name)
{
    while (true) {
        Fd lock(
            ::openat(directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
        while (lock && ::flock(lock.get(), LOCK_EX) < 0)
            if (errno != EINTR)
                lock = Fd();
        struct stat status;
        if (!lock || ::fstat(lock.get(), &status) < 0)
            return fail_errno(errno, fmt::format("cannot lock {}/{}", path, name));
        if (status.st_nlink > 0) // else it was removed meanwhile, by who held it
            return lock;
    }
}

} // namespace fluxdat::perms
