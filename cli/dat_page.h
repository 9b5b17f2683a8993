// SPDX-License-Identifier: LGPL-3.0-or-later
//
// One DAT in detail: as rows for a pipe, and as a page for a terminal.
#pragma once

#include "cli/screen.h"
#include "lib/dat/find.h"

#include <string>
#include <vector>

namespace fluxdat::cli {

struct Details {
    dat::Dat dat;
    // What its supervisor says (supervisor.h, `status`), which may be anything; null
    // where it does not answer, or not to the one who asks.
    dat::Json supervisor;
    uid_t viewer = 0; // who asks
};

// A member of what another process says; null if it is not there.
const dat::Json& member(const dat::Json& json, const char* key);

// Lines "KEY  VALUE" that stay the same from version to version, but for new ones. Who
// was granted when and by whom, a line each; each rank, a line.
std::vector<std::string> detail_rows(const Details& details, double now);

// The same for eyes: the window as a line, nodes as hostlists, only those doors that
// are not right; no line longer than the screen.
std::vector<std::string> detail_page(const Details& details, double now,
                                     const Screen& screen);

} // namespace fluxdat::cli
