// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Whether it is time to start a DAT for a window that stands in the calendar: what a
// timer that calls "flux-dat start --begin-time T -t LIMIT --early FSD" over and over
// wants of each call. Without --early, T is Flux's begin time and nothing else.
#pragma once

namespace fluxdat::dat {

// What is left of a window when it is started late must be worth a start.
constexpr double window_left_min = 60; // seconds

struct FixedWindow {
    double begin = 0;      // seconds since the epoch
    double time_limit = 0; // seconds; 0: it has no end that we know
    double early = 0;      // seconds before its begin, from which on it is submitted
};

enum class Timeliness { early, now, over };
// `over` where less than window_left_min of it is left, or nothing.
Timeliness timeliness(const FixedWindow& window, double now);

// The limit of a DAT that is submitted now, so that it ends when the window does.
double limit_from(const FixedWindow& window, double now);

} // namespace fluxdat::dat
