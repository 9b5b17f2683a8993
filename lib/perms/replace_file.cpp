// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/replace_file.h"

#include "lib/perms/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::perms {

Result<> replace_file(int directory, const std::string& path, const char* name,
                      const char* temporary, std::string_view text)
{
    auto cannot = [&] {
        int errnum = errno;
        ::unlinkat(directory, temporary, 0);
        return fail_errno(errnum, fmt::format("cannot write {}/{}", path, name));
    };
    // There is one writer, so one that is there was left by a writer that was killed.
    if (::unlinkat(directory, temporary, 0) < 0 && errno != ENOENT)
        return cannot();
    Fd file(::openat(directory, temporary,
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file || ::fchmod(file.get(), 0600) < 0 || !write_all(file.get(), text)
        || ::close(file.release()) < 0 // NFS and quotas tell here
        || ::renameat(directory, temporary, directory, name) < 0)
        return cannot();
    return {};
}

} // namespace fluxdat::perms
