// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/passage.h"

#include "lib/perms/acl.h"
#include "lib/perms/replace_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::perms {

namespace {

constexpr std::string_view first_line = "flux-dat-adopted 1\n";
constexpr std::size_t kept_size_max = 64u << 10; // bytes; a level is a path
constexpr const char* lock_name = "flux-dat-adopted.lock";
constexpr const char* kept_temporary_name = "flux-dat-adopted.new";
constexpr mode_t socket_bits = 0666; // what connecting takes

// Text up to the next occurrence of `end`, which goes too; nothing if there is none.
std::optional<std::string_view> take_until(std::string_view& text, char end)
{
    auto at = text.find(end);
    if (at == text.npos)
        return {};
    auto taken = text.substr(0, at);
    text.remove_prefix(at + 1);
    return taken;
}

template <class Number>
bool parse_number(std::string_view text, Number& number, int base)
{
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

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

// Opens an absolute path, level by level, without symbolic links; each level is checked
// and shown to `see`.
using See = std::function<void(const struct stat& status, const std::string& path)>;
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
        see(status, here);
        begin = end + 1;
    }
    if (!level)
        return fail_errno(errno, "cannot open /");
    return level;
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
        if (text.size() > kept_size_max)
            return fail("{} is larger than {} bytes", path, kept_size_max);
    }
}

} // namespace

Result<Passage> Passage::open(const std::string& socket)
{
    std::unique_ptr<char, void (*)(void*)> real(::realpath(socket.c_str(), nullptr),
                                                ::free);
    if (!real)
        return fail_errno(errno, "cannot find the socket " + socket);
    Passage passage;
    passage.socket_ = real.get();
    passage.directory_path_ =
        passage.socket_.substr(0, std::max<std::size_t>(passage.socket_.rfind('/'), 1));
    if (passage.directory_path_.find('\n') != std::string::npos)
        return fail("the path of the socket has a line break in it: {}", socket);
    struct stat status;
    if (::lstat(passage.socket_.c_str(), &status) < 0 || !S_ISSOCK(status.st_mode))
        return fail("{} is not a socket", socket);
    const auto& path = passage.directory_path_;
    auto level =
        walk(path, true, [&](const struct stat& seen, const std::string& here) {
            if (here != path && seen.st_uid == ::geteuid() && !(seen.st_mode & S_IXOTH))
                passage.shut_.push_back({seen.st_mode & 07777, here});
        });
    if (!level)
        return std::unexpected(level.error());
    passage.directory_ =
        Fd(::openat(level->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!passage.directory_)
        return fail_errno(errno, "cannot open " + path);
    return passage;
}

// A level that the file names; the way to it is walked again, so that it is the one
// that it was.
Result<Fd> Passage::open_level(const std::string& path)
{
    uid_t user = 0;
    auto found = walk(path, true, [&](const struct stat& status, const std::string&) {
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

// Until the descriptor is closed. Not the directory itself: guests may open that, where
// it was readable before, and hold a lock on it.
Result<Fd> Passage::lock() const
{
    Fd lock(::openat(directory_.get(), lock_name,
                     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    while (lock && ::flock(lock.get(), LOCK_EX) < 0)
        if (errno != EINTR)
            lock = Fd();
    if (!lock)
        return fail_errno(errno,
                          fmt::format("cannot lock {}/{}", directory_path_, lock_name));
    return lock;
}

// What the file says; nothing where there is none.
Result<std::optional<Passage::Kept>> Passage::read_kept() const
{
    auto path = directory_path_ + "/" + adopted_file_name;
    Fd file(::openat(directory_.get(), adopted_file_name,
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ENOENT)
        return std::nullopt;
    struct stat status;
    if (!file || ::fstat(file.get(), &status) < 0)
        return fail_errno(errno, "cannot open " + path);
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()
        || (status.st_mode & 022))
        return fail("{} is not a file of this user's that only he can write", path);
    auto text = read_whole(file.get(), path);
    if (!text)
        return std::unexpected(text.error());
    auto bad = [&] { return fail("{} is damaged: undo by hand what it says", path); };
    std::string_view rest = *text;
    Kept kept;
    if (!rest.starts_with(first_line))
        return bad();
    rest.remove_prefix(first_line.size());
    auto line = take_until(rest, '\n');
    if (!line || !line->starts_with("generation ")
        || !parse_number(line->substr(11), kept.generation, 10))
        return bad();
    while ((line = take_until(rest, '\n')) && line->starts_with("level ")) {
        line->remove_prefix(6);
        Level level;
        auto mode = take_until(*line, ' ');
        if (!mode || !parse_number(*mode, level.mode, 8) || level.mode > 07777
            || !line->starts_with('/'))
            return bad();
        level.path = *line;
        kept.levels.push_back(std::move(level));
    }
    if (!line || *line != "end" || !rest.empty() || kept.levels.empty())
        return bad();
    return kept;
}

Result<> Passage::write_kept(const Kept& kept) const
{
    auto text = fmt::format("{}generation {}\n", first_line, kept.generation);
    for (auto& level : kept.levels)
        text += fmt::format("level {:04o} {}\n", level.mode, level.path);
    text += "end\n";
    return replace_file(directory_.get(), directory_path_, adopted_file_name,
                        kept_temporary_name, text);
}

// What is there before anything is changed.
Result<Passage::Kept> Passage::first_levels() const
{
    Kept kept{0, shut_};
    struct stat status;
    if (::fstat(directory_.get(), &status) < 0)
        return fail_errno(errno, "cannot look at " + directory_path_);
    kept.levels.push_back({status.st_mode & 07777, directory_path_});
    for (auto& level : kept.levels) {
        auto fd = open_level(level.path);
        if (!fd)
            return std::unexpected(fd.error());
        auto acl = read_acl(fd->get(), level.path);
        if (!acl)
            return std::unexpected(acl.error());
        if (!acl->users.empty() || !acl->groups.empty() || !acl->other.empty()
            || acl->has_default)
            return fail("{} has an ACL of its own, which would be lost; remove it "
                        "(setfacl -b -k) or open the way by hand",
                        level.path);
    }
    return kept;
}

Result<> Passage::apply(const GuestList& guests)
{
    if (auto valid = validate(guests, ::geteuid()); !valid)
        return valid;
    auto locked = lock();
    if (!locked)
        return std::unexpected(locked.error());
    auto applied = put_in_force(guests);
    if (!applied && ::faccessat(directory_.get(), adopted_file_name, F_OK, 0) < 0)
        ::unlinkat(directory_.get(), lock_name, 0); // nothing of ours is left
    return applied;
}

Result<> Passage::put_in_force(const GuestList& guests) const
{
    auto found = read_kept();
    if (!found) {
        // Who is on which list cannot be told: nobody, then.
        (void)set_mode_only(directory_.get(), directory_path_, 0700);
        return std::unexpected(found.error());
    }
    bool first = !*found;
    auto kept = first ? first_levels() : Result<Kept>(std::move(**found));
    if (!kept)
        return std::unexpected(kept.error());
    if (kept->generation > guests.generation)
        return std::unexpected(Error{
            fmt::format("{} has the guest list of generation {}, newer than {}; not "
                        "changed",
                        directory_path_, kept->generation, guests.generation),
            ESTALE});
    if (first)
        if (auto written = write_kept(*kept); !written)
            return written;
    auto failed = [&](const Error& error) -> Result<> {
        if (first)
            (void)put_back(*kept); // the first error counts
        return std::unexpected(error);
    };
    // The socket's directory first: it is the gate, the levels above only lead there.
    for (auto level = kept->levels.rbegin(); level != kept->levels.rend(); ++level) {
        auto fd = open_level(level->path);
        if (!fd)
            return failed(fd.error());
        if (auto let = set_access(fd->get(), level->path, guests); !let)
            return failed(let.error());
    }
    kept->generation = guests.generation;
    if (auto written = write_kept(*kept); !written)
        return failed(written.error());
    return {};
}

std::vector<std::string> Passage::check(const GuestList& guests) const
{
    std::vector<std::string> wrong;
    struct stat status;
    if (::lstat(socket_.c_str(), &status) == 0
        && (status.st_mode & socket_bits) != socket_bits)
        wrong.push_back(fmt::format("{} has mode {:04o}: guests cannot connect",
                                    socket_, status.st_mode & 07777));
    auto kept = read_kept();
    if (!kept) {
        wrong.push_back(kept.error().message);
        return wrong;
    }
    if (!*kept) {
        wrong.push_back(fmt::format("{} is not adopted: there is no {} in it",
                                    directory_path_, adopted_file_name));
        return wrong;
    }
    if ((*kept)->generation != guests.generation)
        wrong.push_back(fmt::format("{} has the guest list of generation {}, should {}",
                                    directory_path_, (*kept)->generation,
                                    guests.generation));
    for (auto& level : (*kept)->levels) {
        auto fd = open_level(level.path);
        if (!fd || ::fstat(fd->get(), &status) < 0) {
            wrong.push_back(
                fd ? fmt::format("cannot look at {}: {}", level.path, strerror(errno))
                   : fd.error().message);
            continue;
        }
        auto acl = read_acl(fd->get(), level.path);
        if (!acl) {
            wrong.push_back(acl.error().message);
            continue;
        }
        bool listed = !guests.open;
        if (acl->users != (listed ? guests.users : std::vector<uid_t>{})
            || acl->groups != (listed ? guests.groups : std::vector<gid_t>{})
            || !acl->other.empty())
            wrong.push_back(
                fmt::format("the ACL of {} is not the guest list", level.path));
        if ((status.st_mode & 07) != (guests.open ? 01 : 0))
            wrong.push_back(
                fmt::format("{} has mode {:04o}", level.path, status.st_mode & 07777));
    }
    return wrong;
}

Result<> Passage::put_back(const Kept& kept) const
{
    for (auto level = kept.levels.rbegin(); level != kept.levels.rend(); ++level) {
        auto fd = open_level(level->path);
        if (!fd)
            return std::unexpected(fd.error());
        if (auto set = set_mode_only(fd->get(), level->path, level->mode); !set)
            return set;
    }
    if (::unlinkat(directory_.get(), adopted_file_name, 0) < 0 && errno != ENOENT)
        return fail_errno(errno, fmt::format("cannot remove {}/{}", directory_path_,
                                             adopted_file_name));
    return {};
}

Result<> Passage::restore()
{
    auto locked = lock();
    if (!locked)
        return std::unexpected(locked.error());
    auto kept = read_kept();
    if (!kept)
        return std::unexpected(kept.error());
    if (*kept)
        if (auto put = put_back(**kept); !put)
            return put;
    if (::unlinkat(directory_.get(), lock_name, 0) < 0 && errno != ENOENT)
        return fail_errno(
            errno, fmt::format("cannot remove {}/{}", directory_path_, lock_name));
    return {};
}

} // namespace fluxdat::perms
