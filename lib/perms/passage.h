// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The way to the socket of a broker that was started by hand, without a door: a Flux
// instance keeps it in a private directory (flux-broker-attributes(7), rundir), perhaps
// several levels deep. Adopting the instance opens that way to the guests, and no
// further than to pass:
//
//     the socket's directory       as a door: 0700 and x for the guests by ACL, or 0711
//     levels above that are the
//     owner's and not searchable   the same
//     all others                   as they are; they must be searchable
//
// What modes these levels had is kept in a file in the socket's directory, by which all
// of it is undone:
//
//     flux-dat-adopted 1
//     generation 3
//     level 0700 /tmp/flux-AbCdEf
//     end
//
// Its guest list is in force at the door only: the broker's environment, by which an
// IMP finds a `grants` file, can no longer be changed. Everything here is called as the
// instance's owner. Several ranks may share a way; they take turns. A level above may
// lead to several sockets, also of other instances: ways.h.
#pragma once

#include "lib/perms/fd.h"
#include "lib/perms/guestlist.h"
#include "lib/result.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::perms {

constexpr const char* adopted_file_name = "flux-dat-adopted";

class Passage
{
public:
    // The way to the socket at this absolute path. Errors: no socket there; its
    // directory is not this user's; a level that others could exchange, or that is
    // neither searchable nor this user's.
    static Result<Passage> open(const std::string& socket);

    // Puts this list in force. A list of an older generation than the one in force is
    // refused with errnum ESTALE. What the first call could not finish is undone.
    // Errors: as set_search_for(); a level that has an ACL of its own, which would be
    // lost; a kept file that is damaged: then the socket's directory is shut to all.
    Result<> apply(const GuestList& guests);

    // What is not as this list wants it, one line for people each.
    std::vector<std::string> check(const GuestList& guests) const;

    // Everything as it was before the first apply(); nothing to do if there was none.
    Result<> restore();

private:
    struct Level {
        mode_t mode = 0; // before
        std::string path;
    };
    struct Kept {
        std::uint64_t generation = 0;
        std::vector<Level>
            levels; // from the top; the last one is the socket's directory
    };
    Result<std::optional<Kept>> read_kept() const;
    Result<> write_kept(const Kept& kept) const;
    Result<Kept> first_levels() const;
    Result<> put_in_force(const GuestList& guests) const;
    Result<> put_back(const Kept& kept) const;

    std::string socket_, directory_path_;
    Fd directory_;                  // the socket's, O_RDONLY
    std::vector<std::string> shut_; // levels above it, ours and not searchable
};

} // namespace fluxdat::perms
