// SPDX-License-Identifier: LGPL-3.0-or-later
//
// All of lib/perms works on descriptors (openat(2) and its kin) and not on paths, so
// that what was checked is what is used.
#pragma once

#include "lib/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace fluxdat::perms {

// Whether `name` in a directory (or AT_FDCWD), itself and not what a symbolic link
// there points to, is what is open as `fd`.
inline bool leads_to(int directory, const char* name, int fd)
{
    struct stat by_name;
    struct stat by_fd;
    return ::fstatat(directory, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0
           && ::fstat(fd, &by_fd) == 0 && by_name.st_dev == by_fd.st_dev
           && by_name.st_ino == by_fd.st_ino;
}

} // namespace fluxdat::perms
