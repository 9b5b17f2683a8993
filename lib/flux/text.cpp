// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/text.h"

#include <fmt/format.h>

namespace fluxdat::flux {

namespace {

// The length of the UTF-8 character at the head of text: 1 to 4, or 0 where there is
// none (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text)
{
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

} // namespace

std::string in_quotes(std::string_view text)
{
    std::string out = "\"";
    while (!text.empty()) {
        auto length = utf8_length(text);
        auto byte = static_cast<unsigned char>(text[0]);
        if (length == 0 || byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\x{:02x}", byte);
            length = 1;
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length);
        if (out.size() > quoted_bytes_max && !text.empty())
            return out + "...\"";
    }
    return out + "\"";
}

bool valid_utf8(std::string_view text)
{
    while (!text.empty()) {
        auto length = utf8_length(text);
        if (length == 0)
            return false;
        text.remove_prefix(length);
    }
    return true;
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
