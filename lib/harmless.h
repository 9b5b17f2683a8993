// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Text of strangers, made fit to be shown. Names, notes, node lists and the output of
// jobs come from other people, and a terminal obeys what it is shown: control
// characters (C0, C1) move the cursor, those for bidirectional text (Unicode's UAX #9)
// show words in another order than they are in, and line separators begin lines of
// their own.
#pragma once

#include "lib/utf8.h"

#include <string>

namespace fluxdat {

inline bool is_harmful(char32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0)           // C0, DEL, C1
           || c == 0x061c || c == 0x200e || c == 0x200f  // marks of direction
           || (c >= 0x202a && c <= 0x202e)               // embeddings, overrides
           || (c >= 0x2066 && c <= 0x2069)               // isolates
           || c == 0x2028 || c == 0x2029 || c == 0xfeff; // separators, BOM
}

// The text on one line: newlines and tabs as blanks, what is harmful or no UTF-8 as
// "?". After about `bytes_max` bytes it is cut, and ends in "...".
inline std::string harmless(std::string_view text,
                            std::size_t bytes_max = std::string::npos)
{
    std::string out;
    while (!text.empty()) {
        if (out.size() >= bytes_max)
            return out + "...";
        auto length = utf8_length(text);
        if (text[0] == '\n' || text[0] == '\t')
            out += ' ';
        else if (length == 0 || is_harmful(utf8_character(text, length)))
            out += '?';
        else
            out += text.substr(0, length);
        text.remove_prefix(length ? length : 1);
    }
    return out;
}

} // namespace fluxdat
