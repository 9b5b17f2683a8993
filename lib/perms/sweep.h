// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Removes doors whose rank is gone and whose watcher could not do it (the node's job
// was killed as a whole, the watcher too).
#pragma once

#include "lib/perms/door_dir.h"
#include "lib/result.h"

#include <string>
#include <vector>

namespace fluxdat::perms {

struct Swept {
    std::vector<std::string> removed; // paths of doors
    struct Failure {
        std::string path;
        std::string reason;
    };
    std::vector<Failure> failed;
};

// Doors in this directory that are this user's, whose lock nobody holds, and in which
// nothing accepts connections. Doors in use and those of others are passed over. Safe
// while others are being made. Errors: the directory cannot be read.
Result<Swept> sweep(const DoorDir& dir);

} // namespace fluxdat::perms
