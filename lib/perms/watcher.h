// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Removes a rank's door when the rank has ended, however it ended. The launcher cannot
// do it: it becomes the broker (exec). So it leaves a process behind that makes the
// door, holds its lock, waits for the broker to end (pidfd_open(2)), removes the door,
// and ends. That it makes the door, and not the launcher, is for a launcher that is
// killed: there is no moment in which a door is there and nobody to remove it.
//
// The watcher is in a session of its own, so signals to the job's process group pass it
// by; it blocks all others that can be blocked; it holds none of the job's descriptors,
// so the job's output ends with the job. SIGKILL to everything in the job's cgroup gets
// it too; the door is then stale, and for the next sweep() on that node.
//
// Rejected: the broker as the launcher's child, since then job-exec's signals and the
// PMI descriptors have to be passed on for as long as the rank lives; cleaning up in
// the broker's rc3, which does not run after kill -9.
#pragma once

#include "lib/perms/door.h"
#include "lib/result.h"

#include <functional>
#include <string>
#include <sys/types.h>

namespace fluxdat::perms {

using Attend = std::function<void(const std::string& door, int ended)>;

// Leaves a watcher behind, with the door that `make` made in it, for the rank whose
// broker has (or, after exec, will have) the process id `broker`, usually getpid().
// `make` has no descriptor of this process but 0 to 2; what it leaves open, as a thread
// may that it does not wait for, stays open.
// `attend` is what it does meanwhile: it gets the door's path and a descriptor that is
// readable (poll(2)) when the broker has ended, and is to return then; if it returns
// before, the watcher waits on. Whatever it leaves open goes with the
// watcher. Returns the door's path when it is watching; no descriptor of the door is in
// this process. When the door goes, a private door directory goes with it unless others
// use it. Errors: those of `make`, and that there can be no watcher; the door is gone
// then.
Result<std::string> spawn_watcher(const std::function<Result<Door>()>& make,
                                  pid_t broker, Attend attend = {});

} // namespace fluxdat::perms
