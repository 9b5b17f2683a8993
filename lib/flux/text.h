// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the parsers of this directory share: text of strangers, made fit to be repeated
// in an error message, and the white space that the RFCs let us ignore.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::flux {

// Longer text is cut in messages, so that an error stays one line.
constexpr std::size_t quoted_bytes_max = 80;

// The text in double quotes, cut after about quoted_bytes_max bytes; control
// characters, and bytes that are no UTF-8, as \xNN, so that it can neither drive the
// terminal nor make JSON output fail.
// (Not "quoted": std::quoted would be found first where <iomanip> is included.)
std::string in_quotes(std::string_view text);

// JSON holds nothing else: text from outside is checked before it goes into a payload.
bool valid_utf8(std::string_view text);

// The lines of a text, without their newlines and without empty ones. Views of `text`.
std::vector<std::string_view> lines_of(std::string_view text);

// Without leading and trailing ASCII white space.
std::string_view trimmed(std::string_view text);

} // namespace fluxdat::flux
