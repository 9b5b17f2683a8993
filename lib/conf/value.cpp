// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/value.h"

#include "lib/harmless.h"

#include <limits>

namespace fluxdat::conf {

namespace {

constexpr std::size_t printable_max = 200; // bytes; enough to recognize, fits a line

bool bare(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
           || c == '-' || c == '_';
}

struct Overload {
    Json operator()(const Array& array) const
    {
        Json json = Json::array();
        for (const Value& element : array)
            json.push_back(element.json());
        return json;
    }
    Json operator()(const Table& table) const
    {
        Json json = Json::object();
        for (const auto& [key, value] : table)
            json[key] = value.json();
        return json;
    }
    template <class Scalar>
    Json operator()(const Scalar& scalar) const
    {
        return scalar;
    }
};

} // namespace

std::string Origin::str() const
{
    if (line == 0 || kind == Kind::argument)
        return source;
    if (kind == Kind::text)
        return fmt::format("{}, line {}, column {}", source, line, column);
    return fmt::format("{}:{}:{}", source, line, column);
}

const char* Value::type_name() const
{
    static constexpr const char* names[] = {"a boolean", "an integer", "a number",
                                            "a string",  "an array",   "a table"};
    static_assert(std::size(names) == std::variant_size_v<decltype(data)>);
    return names[data.index()];
}

Json Value::json() const
{
    return std::visit(Overload{}, data);
}

const Value* Value::find(const std::vector<std::string>& key) const
{
    const Value* value = this;
    for (const std::string& part : key) {
        const Table* members = value->table();
        if (!members)
            return nullptr;
        const auto found = members->find(part);
        if (found == members->end())
            return nullptr;
        value = &found->second;
    }
    return value;
}

const Value* Value::find(std::string_view key) const
{
    const auto parts = split_key(key);
    return parts ? find(*parts) : nullptr;
}

Result<std::vector<std::string>> split_key(std::string_view key)
{
    std::vector<std::string> parts;
    std::size_t at = 0;
    for (;;) {
        std::string part;
        const std::size_t start = at;
        if (at < key.size() && (key[at] == '"' || key[at] == '\'')) {
            const std::size_t close = key.find(key[at], at + 1);
            if (close == std::string_view::npos)
                return fail("quote at column {} is not closed", at + 1);
            part = key.substr(at + 1, close - at - 1);
            at = close + 1;
        } else {
            while (at < key.size() && bare(key[at]))
                part += key[at++];
            if (part.empty() && (at == key.size() || key[at] == '.'))
                return fail("empty part at column {}", at + 1);
        }
        if (at < key.size() && key[at] != '.')
            return fail("unexpected '{}' at column {}; quote a part that has other "
                        "characters than A-Z a-z 0-9 - _",
                        printable(key.substr(at, 1)), at + 1);
        if (parts.size() == value_depth_max)
            return fail("more than {} parts at column {}", value_depth_max, start + 1);
        parts.push_back(std::move(part));
        if (at == key.size())
            return parts;
        ++at;
    }
}

std::string quote_key(std::string_view part)
{
    bool plain = !part.empty();
    for (char c : part)
        plain = plain && bare(c);
    if (plain)
        return std::string(part);
    // JSON's escapes are a subset of those of TOML's basic strings, but for DEL, which
    // TOML wants escaped and JSON leaves alone.
    std::string quoted =
        Json(part).dump(-1, ' ', false, Json::error_handler_t::replace);
    for (std::size_t at; (at = quoted.find('\x7f')) != std::string::npos;)
        quoted.replace(at, 1, "\\u007f");
    return quoted;
}

std::string join_key(std::string_view table, std::string_view part)
{
    if (table.empty())
        return quote_key(part);
    return fmt::format("{}.{}", table, quote_key(part));
}

bool erase(Value& root, std::string_view key)
{
    auto parts = split_key(key);
    if (!parts)
        return false;
    std::vector<Table*> path;
    Value* value = &root;
    for (const std::string& part : *parts) {
        Table* members = value->table();
        if (!members)
            return false;
        auto found = members->find(part);
        if (found == members->end())
            return false;
        path.push_back(members);
        value = &found->second;
    }
    path.back()->erase(path.back()->find(parts->back()));
    for (std::size_t i = path.size() - 1; i > 0 && path[i]->empty(); --i)
        path[i - 1]->erase(path[i - 1]->find((*parts)[i - 1]));
    return true;
}

void put(Value& root, const std::vector<std::string>& key, Value value)
{
    const Origin origin = value.origin;
    Value* target = &root;
    for (const std::string& part : key) {
        if (!target->table())
            *target = Value{Table{}, origin};
        target =
            &target->table()->try_emplace(part, Value{Table{}, origin}).first->second;
    }
    *target = std::move(value);
}

namespace {

Result<Value> from_json(const Json& json, const Origin& origin, const std::string& key,
                        std::size_t depth)
{
    const auto refuse = [&](std::string_view why) {
        if (key.empty())
            return fail(origin.exit(), "{}: {}", origin.str(), why);
        return fail(origin.exit(), "{}: {}: {}", origin.str(), printable(key), why);
    };
    if (depth > value_depth_max)
        return refuse(fmt::format("nested more than {} deep", value_depth_max));
    switch (json.type()) {
    case Json::value_t::boolean:
        return Value{json.get<bool>(), origin};
    case Json::value_t::number_integer:
        return Value{json.get<std::int64_t>(), origin};
    case Json::value_t::number_unsigned:
        if (json.get<std::uint64_t>()
            > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
            return refuse("integer beyond 64 bits signed");
        return Value{json.get<std::int64_t>(), origin};
    case Json::value_t::number_float:
        return Value{json.get<double>(), origin};
    case Json::value_t::string:
        return Value{json.get<std::string>(), origin};
    case Json::value_t::array: {
        Array array;
        for (const Json& element : json) {
            auto value = from_json(element, origin, key, depth + 1);
            if (!value)
                return value;
            array.push_back(std::move(*value));
        }
        return Value{std::move(array), origin};
    }
    case Json::value_t::object: {
        Table table;
        for (const auto& [name, member] : json.items()) {
            auto value = from_json(member, origin, join_key(key, name), depth + 1);
            if (!value)
                return value;
            table.emplace(name, std::move(*value));
        }
        return Value{std::move(table), origin};
    }
    default:
        return refuse("null has no place in a configuration; leave the key out");
    }
}

} // namespace

Result<Value> from_json(const Json& json, const Origin& origin)
{
    return from_json(json, origin, "", 0);
}

std::string printable(std::string_view text)
{
    return harmless(text, printable_max);
}

} // namespace fluxdat::conf
