// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Points in time as people give them to --begin-time. flux-alloc(1) takes any phrase
// that a Python module understands; here it is a short list of forms that cannot be
// misread.
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>

namespace fluxdat::flux {

// Seconds since the epoch, out of
//
//     now                                   +FSD (from now on)
//     today [HH:MM[:SS]]                    tomorrow or yesterday, likewise
//     YYYY-MM-DD [HH:MM[:SS]]               YYYY-MM-DDTHH:MM[:SS][Z|+HH:MM|-HH:MM]
//     seconds since the epoch (from the year 2001 on: "2030" is not meant so)
//
// A day without a time is its first moment (Flux takes the present time of day). Times
// without a zone are in the local one (TZ); one that the clocks skip is refused, of one
// that they show twice it is the first. `now` is seconds since the epoch. A time that
// has passed is no error: a job with such a begin-time may start at once.
// A usage error for everything else.
Result<double> parse_begin_time(std::string_view text, double now);

// In the local zone, for people: "2026-11-30 18:00:00", or as strftime(3) makes it of
// `format`, in at most 63 bytes. Any number will do.
std::string format_local_time(double when, const char* format = "%Y-%m-%d %H:%M:%S");

// "YYYY-MM-DD HH:MM:SS ZONE" in the local time of that moment, with the zone's
// abbreviation, so that of two moments that clocks show alike each can be told.
std::string format_datetime(double time);

} // namespace fluxdat::flux
