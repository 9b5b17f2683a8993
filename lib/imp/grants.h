// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The guest list of a DAT's rank, as the IMP asks it before it becomes a guest:
// flux-config-dat(5), "The grants file". lib/perms/grants.h has the same format for
// those who write it, and a test holds the two parsers against each other. This one is
// apart because the IMP links nothing of the rest, and it answers one question only.
//
// What this is worth: the file belongs to the owner of the DAT, who is also the one who
// calls the IMP. It keeps out strangers whose signed job found its way in; it cannot
// keep the owner from running a job that somebody else signed and that the owner wants
// to run.
#pragma once

#include "lib/imp/result.h"
#include "lib/imp/user.h"

#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::imp {

constexpr std::size_t grants_bytes_max = 512u << 10;
constexpr std::size_t grants_guests_max = 8000; // users and groups together

struct Grants {
    uid_t owner = 0;
    bool open = false; // everybody may enter
    std::vector<uid_t> users;
    std::vector<gid_t> groups;
};

// The whole text of a file. Refusals say "line N: what is wrong there".
Result<Grants> parse_grants(std::string_view text);

// Reads the file as `owner`, with no more rights than that user has. Refuses what is no
// regular file, a symbolic link, not the owner's, writable by others, too large, or not
// well-formed, and a list whose line `owner` names somebody else.
Result<Grants> read_grants(const std::string& path, uid_t owner, gid_t owner_gid);

// Whether the user may run something here: the owner, a guest, a member of a group of
// guests, or anybody where the list is open. `groups` are all of the user's.
bool is_granted(const Grants& grants, const User& user,
                const std::vector<gid_t>& groups);

} // namespace fluxdat::imp
