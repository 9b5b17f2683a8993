// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/text.h"

#include "lib/harmless.h"

#include <algorithm>
#include <fmt/format.h>

namespace fluxdat::flux {

std::string in_quotes(std::string_view text)
{
    std::string out = "\"";
    while (!text.empty()) {
        auto length = utf8_length(text);
        if (length == 0 || is_harmful(utf8_character(text, length))) {
            length = std::max<std::size_t>(length, 1);
            for (char c : text.substr(0, length))
                out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
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

std::vector<std::string_view> lines_of(std::string_view text)
{
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (!line.empty())
            lines.push_back(line);
    }
    return lines;
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
