// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How far `start` has come, for whoever waits before a terminal: one line on stderr,
// drawn anew every second, that stays when it is done.
//
//     ƒ4T9L3Z: pending 12s … alloc … booting 3s … ready
#pragma once

#include "cli/screen.h"
#include "lib/flux/loop.h"

#include <string>
#include <vector>

namespace fluxdat::cli {

struct Phase {
    std::string name;
    double begin = 0; // seconds of a clock that does not jump
    std::string why;  // what it waits for, of the last one
};

// The line, not longer than the screen: phases that are over give way. A phase of less
// than a second has no time; the last one goes on until `now`, but for "ready".
std::string phases_line(const std::string& what, const std::vector<Phase>& phases,
                        double now, const Screen& screen);

class ProgressLine
{
public:
    explicit ProgressLine(flux::Loop& loop);
    ~ProgressLine(); // the line stays, with a newline
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    // Whether stderr can have such a line.
    static bool possible();

    void set_what(std::string what);
    void begin(std::string phase); // the one before is over
    void set_why(std::string why); // of the present one
    // Takes the line away, for a message; it is drawn again at the next second.
    void clear();

private:
    void draw();
    double now() const;

    struct State;
    State* state_; // freed by libuv's close callback, which outlives this object
};

} // namespace fluxdat::cli
