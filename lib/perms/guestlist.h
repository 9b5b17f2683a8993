// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Who may enter a DAT besides its owner: the whole list, with the generation that says
// which of two lists is the newer one. It is state that every rank converges to; there
// are no messages "add" and "remove" that could be lost or come out of order.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace fluxdat::perms {

// Users and groups together. The ACL of the door has to hold them: Linux takes an
// extended attribute of at most 64 KiB, which is 8191 entries, four of them not ours.
// (ext4 with 4 KiB blocks holds some 500; then setting the ACL fails and says so.)
constexpr std::size_t guests_max = 8000; // entries

struct GuestList {
    std::uint64_t generation = 0;
    bool open = false;         // everybody may enter
    std::vector<uid_t> users;  // ascending, each once
    std::vector<gid_t> groups; // ascending, each once

    bool operator==(const GuestList&) const = default;

    // Whether both let in the same users and groups, whatever their generations.
    bool same_guests(const GuestList& other) const;
};

// A list from users and groups in any order, repeated or not.
// Errors: as validate().
Result<GuestList> make_guest_list(std::uint64_t generation, bool open,
                                  std::vector<uid_t> users, std::vector<gid_t> groups,
                                  uid_t owner);

// Whether a DAT of `owner` can have this guest. User 0 and group 0 never are (a door
// for root is no door), nor is the owner, who needs none, nor the id that means "no
// id", -1.
Result<> validate_user(uid_t user, uid_t owner);
Result<> validate_group(gid_t group);

// Whether this is a list that a DAT of `owner` can have: such guests only, at most
// guests_max, ascending, each once.
Result<> validate(const GuestList& list, uid_t owner);

} // namespace fluxdat::perms
