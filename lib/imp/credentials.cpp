// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/credentials.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <grp.h>
#include <sys/fsuid.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

constexpr uid_t no_uid = static_cast<uid_t>(-1);
constexpr gid_t no_gid = static_cast<gid_t>(-1);

std::unexpected<Error> cannot(const std::string& what)
{
    int errnum = errno;
    return fail("cannot " + what + ": " + std::strerror(errnum), errnum);
}

Result<> check_took(uid_t uid, gid_t gid)
{
    uid_t real = no_uid, effective = no_uid, saved = no_uid;
    gid_t real_gid = no_gid, effective_gid = no_gid, saved_gid = no_gid;
    if (getresuid(&real, &effective, &saved) < 0
        || getresgid(&real_gid, &effective_gid, &saved_gid) < 0)
        return cannot("ask for the user ids");
    if (real != uid || effective != uid || saved != uid || real_gid != gid
        || effective_gid != gid || saved_gid != gid)
        return fail("the change to uid " + std::to_string(uid) + ", gid "
                        + std::to_string(gid) + " did not take",
                    EPERM);
    // The only proof that root is gone is that it does not come back.
    if (uid != 0 && (setresuid(no_uid, 0, no_uid) == 0 || setuid(0) == 0))
        return fail("root's privileges could be had again after the change to uid "
                        + std::to_string(uid),
                    EPERM);
    return {};
}

} // namespace

Result<> drop_for_good(uid_t uid, gid_t gid)
{
    if (setresgid(gid, gid, gid) < 0)
        return cannot("change to gid " + std::to_string(gid));
    if (setresuid(uid, uid, uid) < 0)
        return cannot("change to uid " + std::to_string(uid));
    return check_took(uid, gid);
}

Result<> become(const User& user, const std::vector<gid_t>& groups)
{
    if (setgroups(groups.size(), groups.data()) < 0)
        return cannot("set the groups of user " + user.name);
    return drop_for_good(user.uid, user.gid);
}

Result<> become_root()
{
    if (setresuid(0, 0, 0) < 0)
        return cannot("change to uid 0");
    uid_t real = no_uid, effective = no_uid, saved = no_uid;
    if (getresuid(&real, &effective, &saved) < 0 || real != 0 || effective != 0
        || saved != 0)
        return fail("the change to uid 0 did not take", EPERM);
    return {};
}

// setfsuid(2) gives the id before, and with -1 changes nothing: the way to check.
FileAccessAs::FileAccessAs(uid_t uid, gid_t gid)
    : uid_before_(static_cast<uid_t>(setfsuid(no_uid))),
      gid_before_(static_cast<gid_t>(setfsgid(no_gid)))
{
    setfsgid(gid);
    setfsuid(uid);
    took_ = static_cast<uid_t>(setfsuid(no_uid)) == uid
            && static_cast<gid_t>(setfsgid(no_gid)) == gid;
}

FileAccessAs::~FileAccessAs()
{
    setfsuid(uid_before_);
    setfsgid(gid_before_);
    // A process that looks at files as the wrong user must not go on.
    if (static_cast<uid_t>(setfsuid(no_uid)) != uid_before_
        || static_cast<gid_t>(setfsgid(no_gid)) != gid_before_)
        std::abort();
}

} // namespace fluxdat::imp
