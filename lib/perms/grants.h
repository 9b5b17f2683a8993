// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The `grants` file in a rank's door: who may enter that rank, for people to audit and
// for the IMP to ask before it becomes a guest. flux-config-dat(5) has the format for
// users; this is the whole of it:
//
//     flux-dat-grants 1
//     owner 1500
//     job fAbC3dE
//     generation 7
//     open no
//     user 1001 alice
//     user 1002 -
//     group 2001 physics
//     end
//
// - ASCII, every line ended by one LF, fields separated by one space, nothing else: no
//   comments, no blank lines, no other order. What a setuid program parses is not the
//   place for convenience.
// - Numbers are decimal, without sign or leading zero. `owner` is the uid the file
//   belongs to; `job` the DAT's job id in F58 with an ASCII f; `generation` that of the
//   guest list; `open` is `yes` when everybody may enter, else `no`.
// - One line a guest, users before groups, each by ascending id. The id alone counts.
//   The name is a comment, looked up when the guest came on the list: 1 to 32
//   characters out of letters, digits and _.-$@\, or `-` where there is none.
// - `end` is the last line. A file without it has been cut off and grants nothing.
// - At most grants_size_max bytes and guests_max guests.
//
// The file is replaced as a whole: written beside itself and renamed, so a reader sees
// the old list or the new one. It belongs to the owner, mode 0600.
//
// Rejected: JSON, since the privileged reader shall link no parser; names without ids,
// since a name may mean another user on another node, or tomorrow.
#pragma once

#include "lib/perms/guestlist.h"
#include "lib/result.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::perms {

constexpr std::size_t grants_size_max = 512u << 10; // bytes: guests_max longest lines
constexpr std::size_t grants_name_max = 32;         // bytes of a user's or group's name
constexpr std::size_t grants_job_max = 16;          // bytes of a job id, f included

constexpr const char* grants_file_name = "grants";
constexpr const char* grants_temporary_name = "grants.new";

struct Grants {
    uid_t owner = 0;
    std::string job; // F58 with an ASCII f, as "fAbC3dE"
    GuestList guests;
    // The comments of a file that was read, in the order of guests.users and .groups,
    // as they stand there. They do not count in a comparison.
    std::vector<std::string> user_names = {}, group_names = {};

    bool operator==(const Grants& other) const
    {
        return owner == other.owner && job == other.job && guests == other.guests;
    }
};

// Names for the comments in the file. An empty string where there is none.
struct GrantsNames {
    std::function<std::string(uid_t)> user;
    std::function<std::string(gid_t)> group;
};

// From getpwuid_r(3) and getgrgid_r(3), for the first 256 ids only, and for two seconds
// in all: a directory server that takes its time must not hold up a door for the sake
// of a comment. `look_up` is called in other threads, and may be after this is gone.
GrantsNames system_names();
GrantsNames names_by(GrantsNames look_up, double seconds);

// As `written` has them, and system_names() for who is not in it: one more guest on a
// list of a thousand is one name to look up. `written` must outlive what this gives.
GrantsNames names_as_written(const Grants& written);

// Whether this is a job id as it stands in names of files: f and F58 characters.
bool is_job_id(std::string_view text);

std::string format_grants(const Grants& grants, const GrantsNames& names);

// Errors: "grants:LINE: what is wrong there". `file` is what the message calls the
// file.
Result<Grants> parse_grants(std::string_view text, std::string_view file = "grants");

// Replaces `grants` in the directory that is open as `directory`; `path` is what
// messages call that directory. Only one writer at a time (Door sees to it). Errors:
// the file system is full, and whatever else openat(2), write(2), renameat(2) say; the
// old file is then still there, and no temporary one.
Result<> write_grants(int directory, const std::string& path, const Grants& grants,
                      const GrantsNames& names);

// Puts a list of that generation with nobody on it over the file that is there, which
// takes no space: for a full disk, where somebody must be off the list. A reader sees
// the old list, this one, or one that it refuses. Errors: what openat(2), pwrite(2) and
// ftruncate(2) say; the old list may then be in force.
Result<> empty_grants(int directory, const std::string& path, Grants grants);

// Reads `grants` there. Besides what parse_grants() refuses: a symbolic link, anything
// that is not a regular file, one that is not `owner`'s or that others can write, one
// that is too large. errnum is ENOENT where there is no such file.
Result<Grants> read_grants(int directory, const std::string& path, uid_t owner);

// What is in force by `grants` there: also of a file that grants nothing, since it was
// cut off or something follows its `end`, as long as its first lines tell whose it is
// and of which generation; then the list has nobody on it. Errors: as read_grants().
Result<Grants> grants_in_force(int directory, const std::string& path, uid_t owner);

} // namespace fluxdat::perms
