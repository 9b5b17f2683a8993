// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A terminal that a command draws on, again and again, until whoever watches has seen
// enough: the alternate screen, keys without Enter, signals. Whatever was on it before
// is back when it is left, also for a moment on SIGTSTP (Ctrl-Z).
//
// The alternate screen, and not the cursor moved up over the last frame: that leaves
// garbage as soon as the terminal is made narrower or the frame scrolls.
#pragma once

#include "cli/screen.h"
#include "lib/flux/loop.h"

#include <string>
#include <vector>

namespace fluxdat::cli {

class Terminal
{
public:
    // On stdout, keys from stdin where that is a terminal, too. `wake` is raised
    // whenever something has happened: a key, a new size, a signal; `quit` when
    // whoever watches wants no more (q, Ctrl-C, SIGTERM), or the terminal is gone.
    // With Use::keys the screen and the signals are left alone: for what prints lines.
    enum class Use { whole, keys };
    Terminal(flux::Loop& loop, flux::Interrupt& wake, flux::Interrupt& quit,
             Use use = Use::whole);
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    // As it is now.
    Screen screen() const;
    // In the place of what was drawn before; what is too much for the screen is left
    // out.
    void draw(const std::vector<std::string>& lines);

    // It ended by SIGTERM or SIGHUP, or the terminal is gone.
    bool cut_short() const;

private:
    struct State;
    State* state_; // freed by libuv's close callbacks, which outlive this object
};

} // namespace fluxdat::cli
