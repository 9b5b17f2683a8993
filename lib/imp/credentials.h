// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Changes of who this process is. Each is checked to have taken: a setuid(2) that fails
// unnoticed leaves a program root that believes it is somebody else.
#pragma once

#include "lib/imp/result.h"
#include "lib/imp/user.h"

#include <sys/types.h>

namespace fluxdat::imp {

// Makes this process that of `uid` and `gid` in all three places (real, effective,
// saved), leaving supplementary groups alone, and makes sure that there is no way back.
Result<> drop_for_good(uid_t uid, gid_t gid);

// The same for another user than the one who called: with the groups given, which were
// looked up before.
Result<> become(const User& user, const std::vector<gid_t>& groups);

// All three uids root's; the groups stay those of who called, as with flux-imp.
Result<> become_root();

// Looks at files as `uid` would be allowed to, as long as it lives: the caller's paths
// must not be opened with root's rights. Only the file system uid changes
// (setfsuid(2)), so that no signal can be sent to this process meanwhile that could not
// be before.
class FileAccessAs
{
public:
    FileAccessAs(uid_t uid, gid_t gid);
    ~FileAccessAs();
    FileAccessAs(const FileAccessAs&) = delete;
    FileAccessAs& operator=(const FileAccessAs&) = delete;

    // Whether it took; if not, nothing may be opened.
    explicit operator bool() const { return took_; }

private:
    uid_t uid_before_;
    gid_t gid_before_;
    bool took_;
};

} // namespace fluxdat::imp
