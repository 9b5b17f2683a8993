// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Comma-separated values: RFC 4180, but that lines end in LF, as tools here expect.
#pragma once

#include <string>
#include <vector>

namespace fluxdat::dat {

// One line, its LF included. Texts come from other people's jobs, and go into
// spreadsheets: one that such a program would take for a formula (after =, +, -, @, tab
// or carriage return) gets an apostrophe before it, and control characters become "?".
std::string csv_line(const std::vector<std::string>& values);

} // namespace fluxdat::dat
