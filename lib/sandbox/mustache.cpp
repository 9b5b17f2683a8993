// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/mustache.h"

namespace fluxdat::sandbox {

std::string render_mustache(
    std::string_view text,
    const std::function<std::optional<std::string>(std::string_view)>& value)
{
    std::string out;
    while (true) {
        auto open = text.find("{{");
        auto close = open == text.npos ? open : text.find("}}", open + 2);
        if (close == text.npos)
            return out.append(text);
        out.append(text.substr(0, open));
        auto name = text.substr(open + 2, close - open - 2);
        if (auto found = value(name))
            out.append(*found);
        else
            out.append(text.substr(open, close + 2 - open));
        text.remove_prefix(close + 2);
    }
}

} // namespace fluxdat::sandbox
