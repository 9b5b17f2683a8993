// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Durations: RFC 23 (Flux Standard Duration), and the time limit of flux-alloc(1). All
// in seconds.
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>

namespace fluxdat::flux {

// "N[ms|s|m|h|d]", N a number of C99 strtod(3) from 0 up, in the C locale; without a
// suffix seconds. "inf" and "infinity" give INFINITY. A usage error for anything else:
// negative, not a number, an unknown unit, white space, beyond what a double holds.
Result<double> parse_fsd(std::string_view text);

// The value of -t, --time-limit: as parse_fsd(), but a number without a suffix is in
// minutes, and it must be finite. 0 is no limit, as everywhere in Flux.
Result<double> parse_time_limit(std::string_view text);

// For people: the largest unit that gives a number of at least 1, with four significant
// digits ("1.5h", "90ms", "2d"); "0s", "inf". Not for what is computed with: that is
// passed on as a number. Negative durations (an end that has passed) get their sign.
std::string format_fsd(double seconds);

} // namespace fluxdat::flux
