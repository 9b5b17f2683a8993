// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/conf.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace fluxdat::conf {

Result<> probe_setuid_imp(const std::string& path)
{
    const std::string name = printable(path);
    struct stat status;
    if (stat(path.c_str(), &status) < 0)
        return fail_errno(errno, name);
    if (!S_ISREG(status.st_mode))
        return fail("{}: not a regular file", name);
    if (status.st_uid != 0 || !(status.st_mode & S_ISUID))
        return fail("{}: not setuid root (chown root, chmod 4755)", name);
    if (eaccess(path.c_str(), X_OK) < 0)
        return fail("{}: not executable by this user: {}", name, strerror(errno));
    struct statvfs file_system;
    if (statvfs(path.c_str(), &file_system) == 0 && (file_system.f_flag & ST_NOSUID))
        return fail("{}: its file system is mounted nosuid", name);
    return {};
}

} // namespace fluxdat::conf
