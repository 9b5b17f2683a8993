// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/passage.h"

#include "lib/perms/acl.h"
#include "lib/perms/level.h"
#include "lib/perms/replace_file.h"
#include "lib/perms/ways.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::perms {

namespace {

constexpr std::string_view first_line = "flux-dat-adopted 1\n";
constexpr const char* lock_name = "flux-dat-adopted.lock";
constexpr const char* kept_temporary_name = "flux-dat-adopted.new";
constexpr mode_t socket_bits = 0666; // what connecting takes

bool is_there(int directory, const char* name)
{
    return ::faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool is_searchable(const struct stat& status)
{
    return (status.st_mode & S_IXOTH) != 0;
}

// Whether a level is not searchable for everybody, or is so for another way alone,
// which may be opened or shut meanwhile: its file is there for as long as the mode is
// its, so the mode counts as it was before the file was looked for (`seen`) and after.
bool is_shut(int level, const struct stat& seen)
{
    struct stat status;
    return !is_searchable(seen) || is_there(level, ways_file_name)
           || (::fstat(level, &status) == 0 && !is_searchable(status));
}

// The mode of a level before it was opened for any way. Another adoption may open or
// shut it meanwhile: that one's file is there for as long as the mode and the ACL are
// its, so these are the level's own if it is not there before and after they are read.
Result<mode_t> own_mode(int level, const std::string& path)
{
    auto before = mode_before_ways(level, path);
    if (!before)
        return std::unexpected(before.error());
    if (*before)
        return **before; // its ACL is ours
    auto acl = read_acl(level, path);
    struct stat status;
    if (::fstat(level, &status) < 0)
        return fail_errno(errno, "cannot look at " + path);
    before = mode_before_ways(level, path);
    if (!before)
        return std::unexpected(before.error());
    if (*before)
        return **before;
    if (!acl)
        return std::unexpected(acl.error());
    if (!acl->users.empty() || !acl->groups.empty() || !acl->other.empty()
        || acl->has_default)
        return fail("{} has an ACL of its own, which would be lost; remove it "
                    "(setfacl -b -k) or open the way by hand",
                    path);
    return status.st_mode & 07777;
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
        walk(path, true, [&](int fd, const struct stat& seen, const std::string& here) {
            if (here != path && seen.st_uid == ::geteuid() && is_shut(fd, seen))
                passage.shut_.push_back(here);
        });
    if (!level)
        return std::unexpected(level.error());
    passage.directory_ =
        Fd(::openat(level->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!passage.directory_)
        return fail_errno(errno, "cannot open " + path);
    return passage;
}

// What the file says; nothing where there is none.
Result<std::optional<Passage::Kept>> Passage::read_kept() const
{
    auto path = directory_path_ + "/" + adopted_file_name;
    auto text = read_own(directory_.get(), directory_path_, adopted_file_name);
    if (!text)
        return std::unexpected(text.error());
    if (!*text)
        return std::nullopt;
    auto bad = [&] { return fail("{} is damaged: undo by hand what it says", path); };
    std::string_view rest = **text;
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
    Kept kept;
    for (auto& path : shut_)
        kept.levels.push_back({0, path});
    kept.levels.push_back({0, directory_path_});
    for (auto& level : kept.levels) {
        auto fd = open_level(level.path);
        if (!fd)
            return std::unexpected(fd.error());
        bool last = &level == &kept.levels.back();
        // A gate lets in whom its own instance does, and nobody else.
        if (is_there(fd->get(), last ? ways_file_name : adopted_file_name))
            return fail("{} is on the way to the socket of another adopted instance, "
                        "and a socket is in it itself: undo that adoption first",
                        last ? directory_path_ : level.path);
        auto mode = own_mode(fd->get(), level.path);
        if (!mode)
            return std::unexpected(mode.error());
        level.mode = *mode;
    }
    return kept;
}

Result<> Passage::apply(const GuestList& guests)
{
    if (auto valid = validate(guests, ::geteuid()); !valid)
        return valid;
    auto locked = lock_in(directory_.get(), directory_path_, lock_name);
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
        bool gate = level == kept->levels.rbegin();
        auto let = gate ? set_access(fd->get(), level->path, guests)
                        : open_way(fd->get(), level->path, directory_path_, guests,
                                   level->mode, adopted_file_name);
        if (!let)
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
        // On a level above, guests of others may pass, too.
        bool gate = &level == &(*kept)->levels.back();
        auto wanted = gate ? Result<GuestList>(guests)
                           : guests_of_ways(fd->get(), level.path, directory_path_,
                                            guests, adopted_file_name);
        if (!wanted) {
            wrong.push_back(wanted.error().message);
            continue;
        }
        bool listed = !wanted->open;
        if (acl->users != (listed ? wanted->users : std::vector<uid_t>{})
            || acl->groups != (listed ? wanted->groups : std::vector<gid_t>{})
            || !acl->other.empty())
            wrong.push_back(
                fmt::format("the ACL of {} is not the guest list", level.path));
        if ((status.st_mode & 07) != (wanted->open ? 01 : 0))
            wrong.push_back(
                fmt::format("{} has mode {:04o}", level.path, status.st_mode & 07777));
    }
    return wrong;
}

Result<> Passage::put_back(const Kept& kept) const
{
    // The gate is shut to all, so the guests are out whatever comes of the rest. Its
    // own mode it gets last: that may be 0755, behind a level that nobody passed; as
    // long as this is a way, that would be opened to everybody for it (ways.h).
    if (auto shut = set_mode_only(directory_.get(), directory_path_, 0700); !shut)
        return shut;
    for (auto& level : kept.levels) {
        auto fd = open_level(level.path);
        if (!fd)
            return std::unexpected(fd.error());
        bool gate = &level == &kept.levels.back();
        auto set = gate ? set_mode_only(fd->get(), level.path, level.mode)
                        : close_way(fd->get(), level.path, directory_path_, level.mode,
                                    adopted_file_name);
        if (!set)
            return set;
    }
    if (::unlinkat(directory_.get(), adopted_file_name, 0) < 0 && errno != ENOENT)
        return fail_errno(errno, fmt::format("cannot remove {}/{}", directory_path_,
                                             adopted_file_name));
    return {};
}

Result<> Passage::restore()
{
    auto locked = lock_in(directory_.get(), directory_path_, lock_name);
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
