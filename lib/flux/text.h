// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the parsers of this directory share: text of strangers, made fit to be repeated
// in an error message, and the white space that the RFCs let us ignore.
#pragma once

#include <string>
#include <string_view>

namespace fluxdat::flux {

// Longer text is cut in messages, so that an error stays one line.
constexpr std::size_t quoted_bytes_max = 80;

// The text in double quotes, cut after about quoted_bytes_max bytes; control
// characters, and bytes that are no UTF-8, as \xNN, so that it can neither drive the
// terminal nor make JSON output fail.
std::string quoted(std::string_view text);

// Without leading and trailing ASCII white space.
std::string_view trimmed(std::string_view text);

} // namespace fluxdat::flux
