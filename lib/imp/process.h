// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Small things about processes that several parts of the IMP need.
#pragma once

#include "lib/imp/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::imp {

// What execve(2) takes: pointers into `words`, and a null at the end.
std::vector<char*> c_strings(const std::vector<std::string>& words);

// Text from outside as one line for a terminal and a log: what is no printable ASCII
// becomes "?".
std::string printable(std::string_view text);

// Makes sure that descriptors 0 to 2 are open, on /dev/null where they are not: else
// the first file that is opened becomes what messages are written to.
Result<> open_standard_fds();

// What execve(2) gives a shell: 127 where there is no such program, else 126.
int exec_status(int errnum);

} // namespace fluxdat::imp
