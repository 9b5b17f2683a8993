// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Rows in columns. Where a screen is too narrow for them, columns that may be cut are,
// and then those that can best be done without go; a row is never longer than the
// screen, so that none is wrapped.
#pragma once

#include "cli/screen.h"

#include <string>
#include <vector>

namespace fluxdat::cli {

struct Cell {
    std::string text; // anybody's: it is made harmless here
    Hue hue = Hue::plain;
};
using Row = std::vector<Cell>;

struct Column {
    std::string header;
    std::size_t columns_min = 0; // may be cut down to so many; 0: is never cut
    int dispensable = 0;         // the highest goes first; 0: stays
};

// The lines, without newlines. In a pipe each column is as wide as its widest cell, two
// spaces apart, the last one not padded.
std::vector<std::string> table_lines(std::vector<Column> columns, std::vector<Row> rows,
                                     bool with_header, const Screen& screen);

} // namespace fluxdat::cli
