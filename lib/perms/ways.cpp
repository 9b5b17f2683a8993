// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/ways.h"

#include "lib/perms/acl.h"
#include "lib/perms/level.h"
#include "lib/perms/replace_file.h"

#include <algorithm>
#include <fcntl.h>
#include <iterator>
#include <vector>

namespace fluxdat::perms {

namespace {

constexpr std::string_view first_line = "flux-dat-ways 1\n";
constexpr const char* lock_name = "flux-dat-ways.lock";
constexpr const char* temporary_name = "flux-dat-ways.new";

struct Ways {
    mode_t mode = 0; // before
    std::vector<std::string> paths;
};

Result<std::optional<Ways>> read_ways(int directory, const std::string& path)
{
    auto text = read_own(directory, path, ways_file_name);
    if (!text)
        return std::unexpected(text.error());
    if (!*text)
        return std::nullopt;
    auto bad = [&] {
        return fail("{}/{} is damaged: undo by hand what it says", path,
                    ways_file_name);
    };
    std::string_view rest = **text;
    if (!rest.starts_with(first_line))
        return bad();
    rest.remove_prefix(first_line.size());
    Ways ways;
    auto line = take_until(rest, '\n');
    if (!line || !line->starts_with("mode ")
        || !parse_number(line->substr(5), ways.mode, 8) || ways.mode > 07777)
        return bad();
    while ((line = take_until(rest, '\n')) && line->starts_with("way /"))
        ways.paths.emplace_back(line->substr(4));
    if (!line || *line != "end" || !rest.empty())
        return bad();
    return ways;
}

Result<> write_ways(int directory, const std::string& path, const Ways& ways)
{
    auto text = fmt::format("{}mode {:04o}\n", first_line, ways.mode);
    for (auto& way : ways.paths)
        text += fmt::format("way {}\n", way);
    return replace_file(directory, path, ways_file_name, temporary_name,
                        text + "end\n");
}

// The ways through a directory, none where there is no file yet, and the lock under
// which they may be changed.
struct LockedWays {
    Fd lock;
    Ways ways;
};

Result<LockedWays> lock_ways(int directory, const std::string& path, mode_t mode)
{
    auto lock = lock_in(directory, path, lock_name);
    if (!lock)
        return std::unexpected(lock.error());
    auto found = read_ways(directory, path);
    if (!found)
        return std::unexpected(found.error());
    return LockedWays{std::move(*lock), std::move(*found).value_or(Ways{mode, {}})};
}

template <class Id>
void merge(std::vector<Id>& ids, const std::vector<Id>& more) // both ascending
{
    std::vector<Id> all;
    std::set_union(ids.begin(), ids.end(), more.begin(), more.end(),
                   std::back_inserter(all));
    ids = std::move(all);
}

// Whom the other ways let in, beside those on the list; takes those off that are none
// any more. One that cannot be opened lets in nobody.
void merge_others(Ways& ways, const std::string& except, GuestList& guests,
                  const char* adopted_file)
{
    std::erase_if(ways.paths, [&](const std::string& way) {
        if (way == except)
            return false;
        auto level = open_level(way);
        struct stat status;
        if (!level || ::faccessat(level->get(), adopted_file, F_OK, 0) < 0
            || ::fstat(level->get(), &status) < 0)
            return true;
        auto acl = read_acl(level->get(), way);
        guests.open |= (status.st_mode & S_IXOTH) != 0;
        if (acl) {
            merge(guests.users, acl->users);
            merge(guests.groups, acl->groups);
        }
        return false;
    });
}

} // namespace

Result<std::optional<mode_t>> mode_before_ways(int directory, const std::string& path)
{
    auto ways = read_ways(directory, path);
    if (!ways)
        return std::unexpected(ways.error());
    return *ways ? std::optional((*ways)->mode) : std::nullopt;
}

Result<GuestList> guests_of_ways(int directory, const std::string& path,
                                 const std::string& way, const GuestList& guests,
                                 const char* adopted_file)
{
    auto found = read_ways(directory, path);
    if (!found)
        return std::unexpected(found.error());
    auto all = guests;
    if (*found)
        merge_others(**found, way, all, adopted_file);
    return all;
}

Result<> open_way(int directory, const std::string& path, const std::string& way,
                  const GuestList& guests, mode_t mode, const char* adopted_file)
{
    auto locked = lock_ways(directory, path, mode);
    if (!locked)
        return std::unexpected(locked.error());
    auto& ways = locked->ways;
    if (std::find(ways.paths.begin(), ways.paths.end(), way) == ways.paths.end())
        ways.paths.push_back(way);
    auto all = guests;
    merge_others(ways, way, all, adopted_file);
    // Before it is open: who is killed in between leaves nothing that is not undone.
    if (auto written = write_ways(directory, path, ways); !written)
        return written;
    return set_access(directory, path, all);
}

Result<> close_way(int directory, const std::string& path, const std::string& way,
                   mode_t mode, const char* adopted_file)
{
    auto locked = lock_ways(directory, path, mode);
    if (!locked)
        return std::unexpected(locked.error());
    auto& ways = locked->ways;
    std::erase(ways.paths, way);
    GuestList others;
    merge_others(ways, way, others, adopted_file);
    if (!ways.paths.empty()) {
        if (auto set = set_access(directory, path, others); !set)
            return set;
        return write_ways(directory, path, ways);
    }
    if (auto set = set_mode_only(directory, path, ways.mode); !set)
        return set;
    for (auto* file : {ways_file_name, lock_name})
        if (::unlinkat(directory, file, 0) < 0 && errno != ENOENT)
            return fail_errno(errno, fmt::format("cannot remove {}/{}", path, file));
    return {};
}

} // namespace fluxdat::perms
