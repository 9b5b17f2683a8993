// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/text.h"

#include <fmt/format.h>

namespace fluxdat::flux {

std::string quoted(std::string_view text)
{
    bool cut = text.size() > quoted_bytes_max;
    if (cut) {
        text = text.substr(0, quoted_bytes_max);
        // Not in the middle of a UTF-8 character.
        while (!text.empty()
               && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80)
            text.remove_suffix(1);
        if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0)
            text.remove_suffix(1);
    }
    std::string out = "\"";
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f)
            out += fmt::format("\\x{:02x}", byte);
        else
            out.push_back(c);
    }
    out += cut ? "...\"" : "\"";
    return out;
}

std::string_view trimmed(std::string_view text)
{
    constexpr std::string_view white = " \t\n\v\f\r";
    auto first = text.find_first_not_of(white);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(white) - first + 1);
}

} // namespace fluxdat::flux
