// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The access of a directory that is open: its mode and its POSIX ACL (acl(5)), set and
// read through libacl, so that no path can be exchanged meanwhile.
#pragma once

#include "lib/perms/guestlist.h"
#include "lib/result.h"

#include <string>
#include <sys/types.h>
#include <vector>

namespace fluxdat::perms {

// This mode and no ACL, neither an access ACL nor a default one. While it changes,
// nobody has access whom neither the old state nor the new one gives it. `path` is what
// messages call the directory, here and below.
Result<> set_mode_only(int directory, const std::string& path, mode_t mode);

// Mode 0700 and x for these users and groups, all at once. Errors: EOPNOTSUPP where the
// file system has no ACLs; ENOSPC, E2BIG or the like where it holds no ACL of that
// size.
Result<> set_search_for(int directory, const std::string& path,
                        const std::vector<uid_t>& users,
                        const std::vector<gid_t>& groups);

// What lets in those on this list, and nobody else: 0711 without an ACL if it is open,
// else 0700 and x for its users and groups. Errors: as the two above.
Result<> set_access(int directory, const std::string& path, const GuestList& guests);

struct Acl {
    std::vector<uid_t> users;  // with --x, ascending
    std::vector<gid_t> groups; // with --x, ascending
    std::vector<std::string>
        other;                // named entries with other permissions: "user 7: r-x"
    bool has_default = false; // a default ACL, which new files would inherit
};

// The ACL there is; empty where there is none or the file system has none.
Result<Acl> read_acl(int directory, const std::string& path);

} // namespace fluxdat::perms
