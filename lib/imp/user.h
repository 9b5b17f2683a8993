// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Accounts as this host knows them (getpwuid(3)).
#pragma once

#include "lib/imp/result.h"

#include <string>
#include <sys/types.h>
#include <vector>

namespace fluxdat::imp {

struct User {
    uid_t uid = 0;
    gid_t gid = 0;
    std::string name;
    std::string home;
};

// ENOENT where there is none: the message has the uid and this host's name. Another
// errnum where the question could not be answered, which is no answer.
Result<User> user_by_uid(uid_t uid);

// Whether there is a user of this name.
bool user_exists(const std::string& name);

// All groups that initgroups(3) would give, the primary one among them.
Result<std::vector<gid_t>> groups_of(const User& user);

std::string host_name();

} // namespace fluxdat::imp
