// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Privilege separation: everything that comes from outside is parsed by the reader, a
// program of its own that runs as the user who called and nothing more. The privileged
// half gets one encoded Kv (RFC 38) from it through a pipe:
//
//     J        s   the signed job, not yet verified
//     error    s   instead of all others: why there is none, for a person
//     options.*, R_local.*     see contain.h
//
// The reader is a process of the user who called, who can stop it, trace it, and make
// it write anything. So nothing of what it writes is believed: it is bounded in size
// and time, J is verified with its signature, and the rest is checked where it is used.
#pragma once

#include "lib/imp/kv.h"
#include "lib/imp/result.h"

#include <string>
#include <sys/types.h>
#include <vector>

namespace fluxdat::imp {

// Descriptor on which the reader finds the pipe to write to.
constexpr int reader_output_fd = 3;

// Seconds until a reader that does not come to an end is given up. A helper may have to
// wait for a broker that is starting thousands of jobs.
constexpr int reader_seconds_max = 120;

struct Reader {
    std::string program;                // absolute path
    uid_t also = 0;                     // who may own it besides root (trusted.h)
    std::vector<std::string> arguments; // the reader's name, and what exec was given
    int seconds_max = reader_seconds_max;
};

// Runs the reader as uid and gid (the caller's; supplementary groups are the caller's
// anyway), with descriptors 0 to 2, the environment, and the pipe. Nothing of it is
// left running on return. Refusals say what went wrong with it, or what it said itself.
Result<Kv> read_input(const Reader& reader, uid_t uid, gid_t gid);

} // namespace fluxdat::imp
