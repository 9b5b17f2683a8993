// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Files that a privileged program may believe, or execute as root: nobody but root can
// have put them there or changed them (flux-config-security-imp(5)). That is a property
// of the file and of every directory above it, so the path is walked from "/" down, one
// component at a time, through the directory that was checked and not through its name.
//
//   - every component belongs to root, or to `also`;
//   - none can be written by others, nor by a group other than root's. A directory that
//     can be is accepted when it is sticky, as /tmp: nobody else can rename or remove
//     what is below it there;
//   - none is a symbolic link, the last one neither. A link would bring in a second
//     path with owners of its own; flux-imp refuses them as well;
//   - the last one is a regular file.
#pragma once

#include "lib/imp/fd.h"
#include "lib/imp/result.h"

#include <string>
#include <sys/types.h>

namespace fluxdat::imp {

// Opens the file for reading. `also` is a second accepted owner: a program without
// privileges passes its own uid, since nothing it is told can hurt anybody else.
// Refusals name the component and what is wrong with it; ENOENT where it is not there.
Result<Fd> open_trusted(const std::string& path, uid_t also = 0);

// The same checks for a file that is to be executed and need not be readable.
Result<> check_trusted(const std::string& path, uid_t also = 0);

} // namespace fluxdat::imp
