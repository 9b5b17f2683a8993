// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Calendar time: what timestamps, expirations and begin-times are in. It is the
// machine's, but in a sandbox that was started with --speed, where it runs faster, so
// that a week of windows is rehearsed in minutes. What a program waits for its peers
// (answers, reconnecting, --timeout) is real time, and has no business here.
//
// The sandbox's clock is one variable, which "flux-dat sandbox env" exports and the
// sandbox gives to its jobs:
//
//     FLUX_DAT_SANDBOX_CLOCK=SPEED@ORIGIN
//
// SPEED is a whole number; ORIGIN, seconds since the epoch, is when both clocks showed
// the same. A broker of such a sandbox has the same text in its attribute
// "sandbox.clock": whoever has the variable compares, and works with no other instance
// (flux::same_clock).
// Rejected: asking each instance for its clock, a call more for every command; a file
// of the sandbox, which guests cannot read.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fluxdat {

constexpr const char* clock_variable = "FLUX_DAT_SANDBOX_CLOCK";
constexpr const char* clock_attribute = "sandbox.clock";

// A day in a second. Timers are good to milliseconds: faster, nothing would be in
// order.
constexpr std::uint32_t clock_speed_max = 86400;

// Now, in seconds since the epoch with microseconds: RFC 18's timestamps.
double wall_clock();
// The machine's, whatever the sandbox's.
double machine_clock();

// How many real seconds so much calendar time lasts, by this process's clock.
double real_seconds(double calendar_seconds);

// The text of a clock that runs `speed` times as fast from now on; empty for 1, the
// machine's.
std::string faster_clock(std::uint32_t speed);

// This process's clock: SPEED@ORIGIN, or the machine's where the text is empty. A usage
// error, and no change, where it is neither.
Result<> set_clock(std::string_view text);
// As it was set; empty: the machine's.
const std::string& clock_setting();

} // namespace fluxdat
