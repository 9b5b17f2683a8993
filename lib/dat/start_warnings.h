// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What a start, or a check of one, says beforehand of a DAT that would come up, and not
// be what was asked for. Lines for people; nothing here fails.
#pragma once

#include "lib/dat/jobspec.h"
#include "lib/dat/window.h"
#include "lib/flux/services.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::dat {

// What is asked for before the end, and will not be: `limit` is the DAT's time limit in
// seconds, 0 where it has none; `options` has the wish in it.
std::vector<std::string> window_warnings(const WindowWish& wish,
                                         const WindowOptions& options, double limit);

// In what a DAT that is there already is not as this submission asks; empty where it
// is.
struct Difference {
    std::string nodes; // "2 nodes, not 4"
    std::string time;  // "for 4h, not 8h"; also one that was extended
};
Difference difference(const flux::JobInfo& job, const Submission& submission);

// A sandbox without an IMP has a stand-in, which runs no guest's jobs. That is no
// failure of a rehearsal. Whether this is it:
flux::Task<bool> is_stand_in(flux::Connection& parent, std::string imp);
constexpr const char* stand_in_seen =
    "the sandbox has none: its owner's jobs run, not those of guests";
constexpr const char* stand_in_remedy =
    "flux-dat sandbox up --conf exec.imp=PATH, of an IMP that is setuid root";

} // namespace fluxdat::dat
