// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Configuration text, TOML 1.0 and JSON, as values with the place of each. The only
// user of toml++ and of nlohmann-json's parser in lib/conf.
#pragma once

#include "lib/conf/value.h"
#include "lib/result.h"

#include <string_view>

namespace fluxdat::conf {

// A place in a text, found by going forward only, so that finding all of them is
// linear.
struct Position {
    std::size_t offset = 0; // bytes
    std::size_t line = 1;
    std::size_t column = 1; // characters

    // To a later offset; beyond the text's end, to its end.
    void advance(std::string_view text, std::size_t to);
    Origin in(Origin where) const;
};

// `where` is the text's origin without a position; each value gets its own, and errors
// read "WHERE:LINE:COLUMN: what is wrong". Dates and times, infinite and undefined
// numbers, null, and integers beyond 64 bits signed are refused: brokers get the
// configuration as JSON, people see it as TOML, and it must be the same.
Result<Value> parse_toml(std::string_view text, const Origin& where);

// Any JSON value. A key that is given twice in an object is refused.
Result<Value> parse_json(std::string_view text, const Origin& where);

// The VALUE of KEY=VALUE on a command line: JSON, else a TOML value, else the text as
// it is if it does not look like a quoted string, an array or a table. So 1h,
// 2026-01-31, inf and /usr/libexec/imp need no quotes.
Result<Value> parse_argument_value(std::string_view text, const Origin& where);

} // namespace fluxdat::conf
