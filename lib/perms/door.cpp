// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/door.h"

#include "lib/perms/acl.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <iterator>
#include <memory>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace fluxdat::perms {

namespace {

constexpr std::string_view name_prefix = "dat-";
constexpr const char* list_lock_name = ".lock";
constexpr std::array files{socket_file_name, grants_file_name, grants_temporary_name,
                           list_lock_name};

constexpr std::size_t socket_path_max = sizeof(sockaddr_un::sun_path) - 1; // bytes

// Somebody who cleans a door up holds its lock for less than this.
constexpr long lock_wait_step = 10'000'000; // ns
constexpr int lock_wait_steps = 50;
// How often create() finds that a sweep was faster, or remove() that somebody wrote a
// list meanwhile, before they give up. One attempt is some microseconds; a sweep that
// starts over and over wins many of them, but not all.
constexpr int attempts_max = 1000;

std::unexpected<Error> cannot_make(int errnum, const std::string& path)
{
    auto remedy = errnum == ENOSPC || errnum == EDQUOT
                      ? "; make room there or choose another --door-dir"
                      : "";
    return std::unexpected(Error{
        fmt::format("cannot make {}: {}{}", path, strerror(errnum), remedy), errnum});
}

// The name of something in a directory, for a message.
std::string any_entry(int directory)
{
    int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::unique_ptr<DIR, int (*)(DIR*)> stream(fd < 0 ? nullptr : ::fdopendir(fd),
                                               ::closedir);
    while (auto* entry = stream ? ::readdir(stream.get()) : nullptr)
        if (std::string_view name = entry->d_name; name != "." && name != "..")
            return std::string(name);
    return "something";
}

// Those of `ids` that are on `list`, both ascending.
template <class Id>
std::vector<Id> on_both(const std::vector<Id>& ids, const std::vector<Id>& list)
{
    std::vector<Id> both;
    std::set_intersection(ids.begin(), ids.end(), list.begin(), list.end(),
                          std::back_inserter(both));
    return both;
}

// Whether `list` has somebody who is not on `other`.
bool lets_in_more(const GuestList& list, const GuestList& other)
{
    if (other.open)
        return false;
    return list.open || on_both(list.users, other.users) != list.users
           || on_both(list.groups, other.groups) != list.groups;
}

} // namespace

std::string DoorName::text() const
{
    return fmt::format("{}{}.{}", name_prefix, job, rank);
}

std::optional<DoorName> DoorName::parse(std::string_view text)
{
    if (!text.starts_with(name_prefix))
        return std::nullopt;
    auto job = text.substr(name_prefix.size());
    auto dot = job.find('.');
    if (dot == std::string_view::npos || !is_job_id(job.substr(0, dot)))
        return std::nullopt;
    DoorName name{std::string(job.substr(0, dot)), 0};
    auto digits = job.substr(dot + 1);
    auto parsed =
        std::from_chars(digits.data(), digits.data() + digits.size(), name.rank);
    // text() again, so that there is one name for a rank: no sign, no leading zeros.
    if (parsed.ec != std::errc{} || name.text() != text)
        return std::nullopt;
    return name;
}

Door::Door(const DoorDir& dir, const DoorName& name)
    : dir_(dir.share()), name_(name), path_(dir.path + "/" + name.text())
{
}

std::string Door::socket_path() const
{
    return path_ + "/" + socket_file_name;
}
std::string Door::grants_path() const
{
    return path_ + "/" + grants_file_name;
}

bool Door::in_place() const
{
    return leads_to(dir_.fd.get(), name_.text().c_str(), door_.get());
}

Result<> Door::open_directory()
{
    Fd found(
        ::openat(dir_.fd.get(), name_.text().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status;
    if (!found || ::fstat(found.get(), &status) < 0)
        return fail_errno(errno, "cannot open the door " + path_);
    auto not_ours = [&](std::string what) {
        return std::unexpected(Error{std::move(what), EPERM});
    };
    if (S_ISLNK(status.st_mode))
        return not_ours(
            fmt::format("{} is a symbolic link where a door belongs; remove "
                        "it or choose another --door-dir",
                        path_));
    if (!S_ISDIR(status.st_mode))
        return not_ours(
            fmt::format("{} is not a directory, so it is no door; remove it "
                        "or choose another --door-dir",
                        path_));
    if (status.st_uid != ::geteuid())
        return not_ours(fmt::format("{} belongs to user {}, so it is no door of user "
                                    "{}'s; choose another --door-dir",
                                    path_, status.st_uid, ::geteuid()));
    door_ = Fd(::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!door_ && errno == EACCES) {
        // Ours, and yet shut to us: somebody's chmod. Through /proc, since what O_PATH
        // opened takes no fchmod(2), and the name may lead elsewhere by now.
        auto itself = fmt::format("/proc/self/fd/{}", found.get());
        if (::chmod(itself.c_str(), (status.st_mode & 07777) | 0700) == 0)
            door_ = Fd(::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    if (!door_)
        return fail_errno(errno, "cannot open the door " + path_);
    return {};
}

Result<Door> Door::create(const DoorDir& dir, const DoorName& name,
                          const GuestList& guests)
{
    if (auto valid = validate(guests, ::geteuid()); !valid)
        return std::unexpected(valid.error());
    Door door(dir, name);
    if (auto length = door.socket_path().size(); length > socket_path_max)
        return fail("the socket {} would have a path of {} bytes, and {} is the most: "
                    "choose a shorter --door-dir than {}",
                    door.socket_path(), length, socket_path_max, dir.path);
    GuestList in_force = guests;
    if (auto made = door.make_directory(dir, in_force); !made)
        return std::unexpected(made.error());
    if (auto applied = door.apply(in_force); !applied) {
        (void)door.remove(); // nothing but what we just made; the first error counts
        return std::unexpected(applied.error());
    }
    return door;
}

// Opens the directory that was just made and takes its lock, in as few calls as that
// takes: until then it looks like a stale door, and two sweeps that start over and over
// took every one of a thousand away from a slower way. Whether it is ours, in_place()
// and who owns it tell afterwards.
bool Door::open_new_directory()
{
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    door_ = Fd(::openat(dir_.fd.get(), name_.text().c_str(), flags));
    struct stat status;
    if (door_)
        return ::flock(door_.get(), LOCK_EX | LOCK_NB) == 0
               && ::fstat(door_.get(), &status) == 0 && status.st_uid == ::geteuid();
    // A umask may have taken even those bits away that opening it takes.
    return errno == EACCES && open_directory()
           && ::flock(door_.get(), LOCK_EX | LOCK_NB) == 0;
}

// Makes the directory and takes its lock. A sweep may come between the two, or at any
// time while a stale door is there; what counts is that the directory whose lock we
// hold is the one at that name.
Result<> Door::make_directory(const DoorDir& dir, GuestList& guests)
{
    auto name = name_.text();
    for (int attempt = 0; attempt < attempts_max; attempt++) {
        if (::mkdirat(dir_.fd.get(), name.c_str(), 0700) == 0) {
            if (!open_new_directory() || !in_place())
                continue; // swept, or exchanged: the next round tells
            // A umask may have taken bits away, a set-group-id bit come with it, or a
            // default ACL been inherited.
            return set_mode_only(door_.get(), path_, 0700);
        }
        if (errno != EEXIST)
            return cannot_make(errno, "the door " + path_);
        auto stale = take_stale(dir, name_, true);
        if (!stale && stale.error().errnum == ENOENT)
            continue;
        if (!stale)
            return std::unexpected(stale.error());
        auto old = grants_in_force(stale->door_.get(), stale->path_, ::geteuid());
        if (old && old->guests.generation > guests.generation)
            guests = old->guests;
        if (auto removed = stale->remove(); !removed)
            return removed;
    }
    return fail("cannot make the door {}: it was removed as often as it was made",
                path_);
}

Result<Door> Door::take_stale(const DoorDir& dir, const DoorName& name, bool wait)
{
    Door door(dir, name);
    if (auto opened = door.open_directory(); !opened)
        return std::unexpected(opened.error());
    auto in_use = [&](std::string_view why) {
        return std::unexpected(
            Error{fmt::format("the door {} is in use: {}", door.path_, why), EBUSY});
    };
    for (int step = 0; ::flock(door.door_.get(), LOCK_EX | LOCK_NB) < 0; step++) {
        if (errno != EWOULDBLOCK)
            return fail_errno(errno, "cannot lock the door " + door.path_);
        if (!wait || step == lock_wait_steps || door.accepts_connections())
            return in_use("another process holds its lock");
        timespec time{0, lock_wait_step};
        ::nanosleep(&time, nullptr);
    }
    if (!door.in_place())
        return std::unexpected(Error{
            fmt::format("the door {} has just been removed", door.path_), ENOENT});
    if (door.accepts_connections())
        return in_use("something accepts connections on its socket");
    return door;
}

// Whether something listens on the socket. A broker bound it at this very path, so
// where the path is too long for that there is none.
bool Door::accepts_connections() const
{
    struct stat status;
    if (::fstatat(door_.get(), socket_file_name, &status, AT_SYMLINK_NOFOLLOW) < 0
        || !S_ISSOCK(status.st_mode))
        return false;
    auto path = socket_path();
    if (path.size() > socket_path_max)
        return false;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, socket_path_max);
    Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address))
        == 0)
        return true;
    // Any other error (EAGAIN: its queue is full) may be that of a socket in use.
    return errno != ECONNREFUSED && errno != ENOENT;
}

Result<Door> Door::open(const std::string& path)
{
    auto slash = path.rfind('/');
    auto name = slash == std::string::npos ? std::nullopt
                                           : DoorName::parse(path.substr(slash + 1));
    if (!name || !path.starts_with('/'))
        return fail("{} is not the path of a door (/DIR/dat-JOBID.RANK)", path);
    // Not open_door_dir(): a list must be changed even where the way to the door is no
    // longer as it should be. check() looks at that.
    DoorDir dir{path.substr(0, slash), Fd(), false, {}};
    dir.fd = Fd(::open(dir.path.empty() ? "/" : dir.path.c_str(),
                       O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!dir.fd)
        return fail_errno(errno, "cannot open the door " + path);
    Door door(dir, *name);
    if (auto opened = door.open_directory(); !opened)
        return std::unexpected(opened.error());
    return door;
}

Result<GuestList> Door::guests() const
{
    auto grants = read_grants(door_.get(), path_, ::geteuid());
    if (!grants)
        return std::unexpected(grants.error());
    return grants->guests;
}

// Who changes the list holds this. It may be removed meanwhile along with the door.
Result<Fd> Door::lock_list() const
{
    auto path = path_ + "/" + list_lock_name;
    Fd lock(::openat(door_.get(), list_lock_name,
                     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock)
        return cannot_make(errno, path);
    if (::fchmod(lock.get(), 0600) < 0) // a umask may have taken what opening it takes
        return fail_errno(errno, "cannot set the mode of " + path);
    while (::flock(lock.get(), LOCK_EX) < 0)
        if (errno != EINTR)
            return fail_errno(errno, "cannot lock " + path);
    return lock;
}

Result<> Door::apply(const GuestList& guests)
{
    if (auto valid = validate(guests, ::geteuid()); !valid)
        return valid;
    auto lock = lock_list();
    if (!lock)
        return std::unexpected(lock.error());
    auto old = grants_in_force(door_.get(), path_, ::geteuid());
    // One that cannot be opened or read at the moment may be a newer one; one that says
    // nothing to us, or should not be there, is replaced.
    if (!old && old.error().errnum != 0 && old.error().errnum != ENOENT
        && old.error().errnum != EACCES)
        return std::unexpected(old.error());
    if (old && old->guests.generation > guests.generation)
        return std::unexpected(Error{
            fmt::format("{} has the guest list of generation {}, newer than {}; not "
                        "changed",
                        path_, old->guests.generation, guests.generation),
            ESTALE});
    if (auto out = shut_out(guests); !out)
        return out;
    Grants grants{::geteuid(), name_.job, guests};
    if (auto written = write_grants(door_.get(), path_, grants,
                                    old ? names_as_written(*old) : system_names());
        !written) {
        // For as long as a disk is full, who has been revoked would be on the list.
        int errnum = written.error().errnum;
        if ((errnum == ENOSPC || errnum == EDQUOT) && old
            && lets_in_more(old->guests, guests)
            && empty_grants(door_.get(), path_, grants))
            written.error().message +=
                "; until it can be written, no guest can run anything there";
        return written;
    }
    return set_access(door_.get(), path_, guests);
}

// First step of apply(): takes access from those who are not on this list.
Result<> Door::shut_out(const GuestList& guests)
{
    if (guests.open)
        return {};
    struct stat status;
    if (::fstat(door_.get(), &status) < 0)
        return fail_errno(errno, "cannot look at the door " + path_);
    auto acl = read_acl(door_.get(), path_);
    // What apply() never sets goes as a whole, as does an open door.
    bool has_acl = acl && !(acl->users.empty() && acl->groups.empty());
    if (!acl || !acl->other.empty() || (status.st_mode & (has_acl ? 07 : 077)) != 0)
        return set_mode_only(door_.get(), path_, 0700);
    auto users = on_both(acl->users, guests.users);
    auto groups = on_both(acl->groups, guests.groups);
    if (users == acl->users && groups == acl->groups)
        return {};
    if (users.empty() && groups.empty())
        return set_mode_only(door_.get(), path_, 0700);
    return set_search_for(door_.get(), path_, users, groups);
}

Result<> Door::remove()
{
    auto name = name_.text();
    // Should it be shut to us; where this fails, what follows says so.
    (void)::fchmod(door_.get(), 0700);
    for (int attempt = 0; attempt < attempts_max; attempt++) {
        for (auto* file : files)
            (void)::unlinkat(door_.get(), file, 0); // rmdir tells what is left
        if (!in_place()) {
            struct stat status;
            if (::fstatat(dir_.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0
                && errno == ENOENT)
                return {};
            return fail("{} is no longer the door that was made there; left alone",
                        path_);
        }
        if (::unlinkat(dir_.fd.get(), name.c_str(), AT_REMOVEDIR) == 0
            || errno == ENOENT)
            return {};
        if (errno != ENOTEMPTY && errno != EEXIST)
            return fail_errno(errno, "cannot remove the door " + path_);
        // Not empty: either somebody is just writing a list, or it is not only ours.
    }
    return fail("cannot remove the door {}: there is {} in it; remove that by hand",
                path_, any_entry(door_.get()));
}

} // namespace fluxdat::perms
