// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/result.h"

namespace fluxdat::imp {

std::string in_quotes(std::string_view text)
{
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out = "\"";
    for (char c : text.substr(0, quoted_bytes_max)) {
        if (c >= ' ' && c <= '~') {
            out.push_back(c);
        } else {
            auto byte = static_cast<unsigned char>(c);
            out += "\\x";
            out.push_back(hex[byte >> 4]);
            out.push_back(hex[byte & 15]);
        }
    }
    return out + (text.size() > quoted_bytes_max ? "...\"" : "\"");
}

} // namespace fluxdat::imp
