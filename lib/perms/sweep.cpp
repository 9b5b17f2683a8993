// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/sweep.h"

#include "lib/perms/door.h"

#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>

namespace fluxdat::perms {

namespace {

// What is called like a door in there, and is ours.
Result<std::vector<DoorName>> doors_of_ours(const DoorDir& dir)
{
    int fd = ::openat(dir.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::unique_ptr<DIR, int (*)(DIR*)> stream(fd < 0 ? nullptr : ::fdopendir(fd),
                                               ::closedir);
    if (!stream)
        return fail_errno(errno, "cannot read the door directory " + dir.path);
    std::vector<DoorName> names;
    errno = 0;
    while (auto* entry = ::readdir(stream.get())) {
        auto name = DoorName::parse(entry->d_name);
        struct stat status;
        if (name
            && ::fstatat(dir.fd.get(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0
            && status.st_uid == ::geteuid())
            names.push_back(*name);
        errno = 0;
    }
    if (errno != 0)
        return fail_errno(errno, "cannot read the door directory " + dir.path);
    return names;
}

} // namespace

Result<Swept> sweep(const DoorDir& dir)
{
    auto names = doors_of_ours(dir);
    if (!names)
        return std::unexpected(names.error());
    Swept swept;
    for (const auto& name : *names) {
        auto path = dir.path + "/" + name.text();
        auto stale = Door::take_stale(dir, name, false);
        if (!stale) {
            if (stale.error().errnum != EBUSY && stale.error().errnum != ENOENT)
                swept.failed.push_back({path, stale.error().message});
            continue;
        }
        if (auto removed = stale->remove(); removed)
            swept.removed.push_back(path);
        else
            swept.failed.push_back({path, removed.error().message});
    }
    return swept;
}

} // namespace fluxdat::perms
