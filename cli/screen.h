// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Text on a terminal, or in a pipe: how many columns it takes, cutting and wrapping it,
// colour. The text that comes here is harmless() already; escape sequences come in by
// Screen::paint(), last of all, so that nothing here has to count them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::cli {

// What a colour is to mean. Nothing is told by a colour alone.
enum class Hue { plain, strong, faint, good, busy, bad };

struct Screen {
    std::size_t columns = 0; // 0: as many as it takes
    std::size_t lines = 0;   // likewise
    bool terminal = false;
    bool moves = false;  // it has a cursor to be moved: no TERM=dumb
    bool colour = false; // terminal, no NO_COLOR, no TERM=dumb
    bool utf8 = true;    // of the locale; else what is drawn is ASCII

    const char* ellipsis() const { return utf8 ? "…" : "~"; }
    std::string paint(Hue hue, std::string text) const;
    // At most so many columns; what was longer ends in an ellipsis.
    std::string cut(std::string_view text, std::size_t columns_max) const;
};

// Of that descriptor, as it is now, and the environment: NO_COLOR, TERM, COLUMNS where
// the terminal does not know its size, and the locale's variables.
Screen screen_of(int fd);

// Columns that a text takes: wide characters of East Asia and emoji take two, combining
// ones none. Unicode has more to it; what is not known here counts as one.
std::size_t columns_of(std::string_view text);

// Spaces up to so many columns, behind the text or before it.
enum class Align { left, right, centre };
std::string padded(std::string text, std::size_t columns, Align align = Align::left);

// The words of a text on lines of at most so many columns. A word that is longer is cut
// into pieces. At least one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

// For people: "42s", "59m03s", "3h05m", "2d04h": the two largest units, rounded up to
// the smaller. One word, so that it is one field of awk(1).
std::string human_duration(double seconds);

// For people: the time of day, with the date before it where that is not the day of
// `now`; `with_seconds` of windows that are short.
std::string human_time(double when, double now, bool with_seconds = false);

} // namespace fluxdat::cli
