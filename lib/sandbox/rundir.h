// SPDX-License-Identifier: LGPL-3.0-or-later
//
// An instance's run directory (flux-broker-attributes(7)).
#pragma once

#include "lib/result.h"
#include "lib/sandbox/process.h"

#include <string>
#include <string_view>

namespace fluxdat::sandbox {

// A directory of our own, removed with what is in it when this object goes.
class Rundir
{
public:
    Rundir() = default;
    Rundir(Rundir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    Rundir& operator=(Rundir&& other) noexcept
    {
        std::swap(path_, other.path_);
        return *this;
    }
    ~Rundir();

    // "flux-XXXXXX", mode 0700, in the job's temporary directory, which goes with the
    // job whatever happens to this process; where sockets will be in it and their paths
    // would be too long there, in TMPDIR or /tmp.
    enum class Sockets { inside, elsewhere };
    static Result<Rundir> create(Sockets sockets);

    const std::string& path() const { return path_; }

private:
    std::string path_;
};

// What marks every process of a sandbox session, down through all instances in it, so
// that "down" finds them even when the engine was killed.
constexpr const char* session_variable = "FLUX_SANDBOX_SESSION";
Environment session_environment();

} // namespace fluxdat::sandbox
