// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The directory that doors are made in. A guest passes through it and every level above
// it on the way to a socket, and whoever can rename something on that way can send the
// guest elsewhere. So every level must be searchable by everybody, belong to root or to
// this user, and not be writable by anybody else, unless it is sticky.
//
// Symbolic links in a given path are resolved once; what is checked, opened and
// reported is the path without them.
#pragma once

#include "lib/perms/fd.h"
#include "lib/result.h"

#include <optional>
#include <string>

namespace fluxdat::perms {

constexpr const char* door_dir_preferred = "/run/flux";

// While a private directory is in use, its users hold flock(2) on it, shared, so that
// the last one can remove it. (Nobody else can hold a lock on it: it is not readable
// for others.)
struct DoorDir {
    std::string path; // absolute, no symbolic links in it
    Fd fd;            // O_PATH; of a private one O_RDONLY, with the lock
    bool is_private = false;
    std::string note; // why not the preferred one; empty where it is or one was given

    // The same directory with a lock of its own.
    DoorDir share() const;
};

// Where this user's doors go. Fields other than `given` are for tests.
struct DoorDirChoice {
    std::optional<std::string> given; // --door-dir
    std::string preferred = door_dir_preferred;
    std::string private_parent = "/tmp";
};

// The given directory, or an error if it is not absolute (usage), not there, not a
// directory, not writable for this user, or fails the rule above. Else the preferred
// one where it would do. Else `<private_parent>/flux-dat-<uid>`, mode 0711, made if it
// is not there; an error if somebody else was first at that name.
Result<DoorDir> choose_door_dir(const DoorDirChoice& choice = {});

// To be called when no door is made in it, or the one that was has been removed:
// removes a private directory if it is empty and nobody else uses it.
void leave_door_dir(DoorDir dir);

// A directory on a path that holds to the rule above, whether this user can write there
// or not.
Result<DoorDir> open_door_dir(const std::string& path);

} // namespace fluxdat::perms
