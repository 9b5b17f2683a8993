// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/csv.h"

#include <string_view>

namespace fluxdat::dat {

namespace {

std::string csv_value(std::string text)
{
    bool formula =
        !text.empty()
        && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            c = '?';
    if (formula)
        text.insert(text.begin(), '\'');
    if (text.find_first_of(",\"") == text.npos && !text.starts_with(' ')
        && !text.ends_with(' '))
        return text;
    std::string quoted = "\"";
    for (char c : text) {
        if (c == '"')
            quoted += '"';
        quoted += c;
    }
    return quoted + '"';
}

} // namespace

std::string csv_line(const std::vector<std::string>& values)
{
    std::string line;
    for (auto& value : values) {
        if (&value != &values.front())
            line += ',';
        line += csv_value(value);
    }
    return line + '\n';
}

} // namespace fluxdat::dat
