// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What is wrong with a door, and putting it right.
#include "lib/perms/acl.h"
#include "lib/perms/door.h"

#include <algorithm>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <iterator>
#include <sys/stat.h>

namespace fluxdat::perms {

namespace {

constexpr std::size_t ids_named_max = 8; // in one line, before "and N more"
constexpr mode_t socket_mode = 0777;     // the door decides who gets to it
constexpr mode_t socket_bits = 0222;     // what connect(2) asks for

using Ids = std::vector<id_t>;

Ids missing_from(const Ids& wanted, const Ids& there)
{
    Ids missing;
    std::set_difference(wanted.begin(), wanted.end(), there.begin(), there.end(),
                        std::back_inserter(missing));
    return missing;
}

std::string ids_text(const Ids& ids)
{
    auto named = std::min(ids.size(), ids_named_max);
    auto text = fmt::format(
        "{}",
        fmt::join(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(named), ", "));
    if (ids.size() > named)
        text += fmt::format(" and {} more", ids.size() - named);
    return text;
}

// "WHAT lacks user 1001, 1002", "WHAT lets in user 1003"
void compare_ids(std::vector<std::string>& wrong, const std::string& what,
                 const char* kind, const Ids& wanted, const Ids& there)
{
    if (auto ids = missing_from(wanted, there); !ids.empty())
        wrong.push_back(fmt::format("{} lacks {} {}", what, kind, ids_text(ids)));
    if (auto ids = missing_from(there, wanted); !ids.empty())
        wrong.push_back(fmt::format("{} lets in {} {}, not on the list", what, kind,
                                    ids_text(ids)));
}

void check_access(std::vector<std::string>& wrong, int door, const std::string& path,
                  const GuestList& guests)
{
    bool plain = guests.open || (guests.users.empty() && guests.groups.empty());
    mode_t wanted = guests.open ? 0711 : plain ? 0700 : 0710; // group: the ACL's mask
    struct stat status;
    if (::fstat(door, &status) < 0) {
        wrong.push_back(fmt::format("cannot look at {}: {}", path, strerror(errno)));
        return;
    }
    if (status.st_uid != ::geteuid())
        wrong.push_back(fmt::format("{} belongs to user {}, should to user {}", path,
                                    status.st_uid, ::geteuid()));
    if ((status.st_mode & 07777) != wanted)
        wrong.push_back(fmt::format("{} has mode {:04o}, should have {:04o}", path,
                                    status.st_mode & 07777, wanted));
    auto acl = read_acl(door, path);
    if (!acl) {
        wrong.push_back(acl.error().message);
        return;
    }
    auto what = "the ACL of " + path;
    compare_ids(wrong, what, "user", plain ? Ids() : guests.users, acl->users);
    compare_ids(wrong, what, "group", plain ? Ids() : guests.groups, acl->groups);
    for (const auto& entry : acl->other)
        wrong.push_back(fmt::format("{} has {}", what, entry));
    if (acl->has_default)
        wrong.push_back(fmt::format("{} has a default ACL, which should not be", path));
}

void check_grants(std::vector<std::string>& wrong, int door, const std::string& path,
                  const DoorName& name, const GuestList& guests)
{
    auto grants = read_grants(door, path, ::geteuid());
    if (!grants) {
        wrong.push_back(grants.error().message);
        return;
    }
    auto what = path + "/" + grants_file_name;
    if (grants->job != name.job)
        wrong.push_back(fmt::format("{} is for job {}, should for {}", what,
                                    grants->job, name.job));
    if (grants->guests.generation != guests.generation)
        wrong.push_back(fmt::format("{} is of generation {}, should of {}", what,
                                    grants->guests.generation, guests.generation));
    if (grants->guests.open != guests.open)
        wrong.push_back(
            fmt::format("{} says open {}", what, grants->guests.open ? "yes" : "no"));
    compare_ids(wrong, what, "user", guests.users, grants->guests.users);
    compare_ids(wrong, what, "group", guests.groups, grants->guests.groups);
}

void check_socket(std::vector<std::string>& wrong, int door, const std::string& path)
{
    struct stat status;
    if (::fstatat(door, socket_file_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return; // made by the broker, which may not be up yet
    if (!S_ISSOCK(status.st_mode))
        wrong.push_back(fmt::format("{} is not a socket", path));
    else if ((status.st_mode & socket_bits) != socket_bits)
        wrong.push_back(fmt::format("{} has mode {:04o}, should have {:04o}", path,
                                    status.st_mode & 07777, socket_mode));
}

} // namespace

std::vector<std::string> Door::check(const GuestList& guests) const
{
    std::vector<std::string> wrong;
    auto way = open_door_dir(dir_.path);
    if (!way)
        wrong.push_back(way.error().message);
    int dir = way ? way->fd.get() : dir_.fd.get();
    auto name = name_.text();
    struct stat status;
    if (::fstatat(dir, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0)
        wrong.push_back(fmt::format("{}: {}", path_, strerror(errno)));
    else if (!leads_to(dir, name.c_str(), door_.get()))
        wrong.push_back(fmt::format("{} is {}, not this rank's door", path_,
                                    S_ISLNK(status.st_mode) ? "a symbolic link"
                                                            : "something else"));
    check_access(wrong, door_.get(), path_, guests);
    check_grants(wrong, door_.get(), path_, name_, guests);
    check_socket(wrong, door_.get(), socket_path());
    return wrong;
}

Result<std::vector<std::string>> Door::repair(const GuestList& guests)
{
    auto wrong = check(guests);
    if (wrong.empty())
        return wrong;
    if (auto applied = apply(guests); !applied)
        return std::unexpected(applied.error());
    std::vector<std::string> left;
    check_socket(left, door_.get(), socket_path());
    if (!left.empty()
        && ::fchmodat(door_.get(), socket_file_name, socket_mode, AT_SYMLINK_NOFOLLOW)
               < 0)
        return fail_errno(errno, "cannot set the mode of " + socket_path());
    left = check(guests);
    if (!left.empty())
        return fail("{}", fmt::join(left, "; "));
    return wrong;
}

} // namespace fluxdat::perms
