// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Where this program is.
#pragma once

#include <string>

namespace fluxdat::dat {

// The absolute path of the running flux-dat, symbolic links resolved; it must be the
// same on every node of a DAT.
std::string program_path();

} // namespace fluxdat::dat
