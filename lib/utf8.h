// SPDX-License-Identifier: LGPL-3.0-or-later
//
// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace fluxdat {

// Bytes of the character that the text begins with, 1 to 4; 0 if it is none.
inline std::size_t utf8_length(std::string_view text)
{
    if (text.empty())
        return 0;
    auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    auto lead = byte(0);
    if (lead < 0x80)
        return 1;
    std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < length)
        return 0;
    for (std::size_t i = 1; i < length; i++)
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
    if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)
        || (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f))
        return 0;
    return length;
}

// The character that the text begins with, given its utf8_length(), 1 to 4.
inline char32_t utf8_character(std::string_view text, std::size_t length)
{
    auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    char32_t character = length == 1   ? byte(0)
                         : length == 2 ? byte(0) & 0x1f
                         : length == 3 ? byte(0) & 0x0f
                                       : byte(0) & 0x07;
    for (std::size_t i = 1; i < length; i++)
        character = character << 6 | (byte(i) & 0x3f);
    return character;
}

} // namespace fluxdat
