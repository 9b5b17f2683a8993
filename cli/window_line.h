// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A DAT's window as a line: from its begin to its end, with now and what is going to
// happen marked.
//
//     18:00 ━━━━━━━━━━━●────────w────w─c─T┤ 22:00
//     18:00 ===========#--------w----w-c-T] 22:00      without UTF-8
#pragma once

#include "cli/screen.h"
#include "lib/dat/find.h"

#include <string>
#include <vector>

namespace fluxdat::cli {

// What is drawn of a DAT's window (dat::Window).
struct Timeline {
    struct Point {
        double when = 0;  // seconds since the epoch
        std::string what; // for people: "warning"
        char mark = ' ';  // of the line
    };
    double begin = 0, end = 0; // 0: not begun; without end
    std::vector<Point> points; // in the order of time, the end not among them
    std::vector<std::string> passed_over{}; // what it is too short for
    bool short_term() const;                // times of it need seconds
};

// The window of a DAT, with what its record says is planned.
Timeline window_of(const dat::Dat& dat);

// Of one that has begun: the line with its times, of exactly so many columns; where
// they are too few for the times, without them.
std::string window_line(const Timeline& window, double now, std::size_t columns,
                        const Screen& screen);

// "warning 21:45 (in 1h33m), closed to new jobs 21:50": what is still to come, the end
// with it; empty where nothing is.
std::string window_to_come(const Timeline& window, double now);

} // namespace fluxdat::cli
