// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/program.h"

#include <climits>
#include <unistd.h>

namespace fluxdat::dat {

std::string program_path()
{
    char path[PATH_MAX];
    auto size = readlink("/proc/self/exe", path, sizeof(path));
    return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "flux-dat";
}

} // namespace fluxdat::dat
