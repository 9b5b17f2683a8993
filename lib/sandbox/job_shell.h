// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The sandbox's job shell, flux-dat-shell: on one node, runs the tasks of a guest's job
// under that guest's uid. The IMP starts it (RFC 15), and in the IMP's allowed-shells
// it has to be named: so it is a program of its own, installed at one place, and not
// another name of flux-dat in some instance's directory.
//
// It is the guest's side. The IMP has verified the J that it was given, but passes on
// only a job id; the J of that job comes from the instance, which is its owner's. So
// the signature is verified here once more, by the munged that the site's configuration
// names, and command, environment, files and working directory are taken from what is
// signed, and from nowhere else. From the engine comes only which of the job's tasks
// are on this node (shell_wire.h). When the engine is gone, everything ends.
#pragma once

#include "lib/sandbox/jobspec.h"

#include <string>
#include <string_view>

namespace fluxdat::sandbox {

// Where it is installed: exec.job-shell's default.
extern const char* const job_shell_path;

// The jobspec that `userid` has signed with munge, and no other's. `sign_pattern` are
// the files of root's where [sign] is read.
Result<Jobspec> verified_jobspec(std::string_view J, uid_t userid,
                                 const std::string& sign_pattern);

// flux-dat-shell JOBID. Gives the exit status.
int job_shell_main(int argc, char** argv, const std::string& sign_pattern);

} // namespace fluxdat::sandbox
