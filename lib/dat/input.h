// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A command's standard input, read as it comes: from a pipe, a file, a terminal.
//
// The descriptor is shared with other programs, so it is not made non-blocking
// (lib/readable.h). In the background of a terminal
// nothing is read, which would stop the process (SIGTTIN), and what is typed is for
// somebody else.
#pragma once

#include "lib/fd.h"
#include "lib/flux/loop.h"

#include <string>

namespace fluxdat::dat {

class Input
{
public:
    // The descriptor stays the caller's.
    Input(flux::Loop& loop, int fd);

    // The next bytes; none at the end. The interrupt's error if that comes first.
    flux::Task<Result<std::string>> read(flux::Interrupt& interrupt);

private:
    flux::Task<void> wait(flux::Interrupt& interrupt);
    bool in_background() const;

    flux::Loop& loop_;
    int fd_;
    Fd epoll_; // none for a file, which is always ready
};

} // namespace fluxdat::dat
