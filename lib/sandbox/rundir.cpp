// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/rundir.h"

#include "lib/clock.h"
#include <cstdlib>
#include <filesystem>
#include <sys/un.h>

namespace fluxdat::sandbox {

namespace {

// "/local-" and a rank, and "/jobtmp-RANK-ƒID/boot" below it.
constexpr std::size_t below_rundir = 48; // bytes

} // namespace

Rundir::~Rundir()
{
    std::error_code ignored;
    if (!path_.empty())
        std::filesystem::remove_all(path_, ignored);
}

Result<Rundir> Rundir::create(Sockets sockets)
{
    int errnum = ENOENT;
    std::string tried;
    for (const char* name : {"FLUX_JOB_TMPDIR", "TMPDIR", ""}) {
        const char* parent = *name ? std::getenv(name) : "/tmp";
        if (!parent || !*parent)
            continue;
        Rundir out;
        out.path_ = std::string(parent) + "/flux-XXXXXX";
        if (sockets == Sockets::inside
            && out.path_.size() + below_rundir >= sizeof(sockaddr_un::sun_path)) {
            out.path_.clear();
            continue;
        }
        if (mkdtemp(out.path_.data()))
            return out;
        errnum = errno;
        tried = std::exchange(out.path_, {});
    }
    return fail_errno(errnum, fmt::format("cannot create {}", tried));
}

Environment session_environment()
{
    Environment out;
    if (const char* session = std::getenv(session_variable))
        set_variable(out, session_variable, session);
    if (!clock_setting().empty())
        set_variable(out, clock_variable, clock_setting());
    return out;
}

} // namespace fluxdat::sandbox
