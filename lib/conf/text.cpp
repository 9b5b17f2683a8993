// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/text.h"

namespace fluxdat::conf {

namespace {

bool looks_quoted(std::string_view text)
{
    return text.starts_with('"') || text.starts_with('\'') || text.starts_with('[')
           || text.starts_with('{');
}

} // namespace

void Position::advance(std::string_view text, std::size_t to)
{
    for (; offset < to && offset < text.size(); ++offset) {
        if (text[offset] == '\n') {
            ++line;
            column = 1;
        } else if ((static_cast<unsigned char>(text[offset]) & 0xc0u) != 0x80u) {
            ++column;
        }
    }
}

Origin Position::in(Origin where) const
{
    where.line = line;
    where.column = column;
    return where;
}

Result<Value> parse_argument_value(std::string_view text, const Origin& where)
{
    auto json = parse_json(text, where);
    if (json || Json::accept(text)) // JSON, but not for a configuration
        return json;
    auto toml = parse_toml(fmt::format("value = {}", text), where);
    if (toml && toml->table()->size() == 1) {
        Value value = std::move(toml->table()->at("value"));
        return value;
    }
    if (looks_quoted(text))
        return fail(
            where.exit(),
            "{}: the value is neither JSON nor TOML; close its quotes or brackets",
            where.str());
    return Value{std::string(text), where};
}

} // namespace fluxdat::conf
