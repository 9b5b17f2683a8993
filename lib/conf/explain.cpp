// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A composed configuration for people and for scripts, with the origin of every key.
#include "lib/conf/conf.h"

namespace fluxdat::conf {

namespace {

std::string inline_toml(const Value& value);

std::string inline_array(const Array& array)
{
    std::string out;
    for (const Value& element : array)
        out += (out.empty() ? "" : ", ") + inline_toml(element);
    return "[" + out + "]";
}

std::string inline_table(const Table& table)
{
    std::string out;
    for (const auto& [key, member] : table)
        out += fmt::format("{}{} = {}", out.empty() ? " " : ", ", quote_key(key),
                           inline_toml(member));
    return out.empty() ? "{}" : "{" + out + " }";
}

std::string inline_string(const std::string& text)
{
    const std::string quoted = quote_key(text);
    return quoted.starts_with('"') ? quoted : '"' + quoted + '"';
}

std::string inline_toml(const Value& value)
{
    if (const Array* array = value.array())
        return inline_array(*array);
    if (const Table* table = value.table())
        return inline_table(*table);
    if (const std::string* string = value.string())
        return inline_string(*string);
    return value.json().dump(); // booleans and finite numbers read the same
}

// Elements that are tables were merged one by one and may come from different places.
bool has_origins_of_its_own(const Value& value)
{
    return value.array() && !value.array()->empty() && value.array()->front().table();
}

class Writer
{
public:
    void write(const Value& value, const std::string& name)
    {
        const Table& table = *value.table();
        bool keys = false;
        for (const auto& [key, member] : table)
            keys = keys || !member.table();
        if (!name.empty() && (keys || table.empty()))
            header(name, table.empty() ? &value.origin : nullptr);
        for (const auto& [key, member] : table) {
            if (!member.table())
                entry(key, member);
        }
        for (const auto& [key, member] : table) {
            if (member.table())
                write(member, join_key(name, key));
        }
    }

    std::string take() { return std::move(out_); }

private:
    void header(const std::string& name, const Origin* origin)
    {
        if (!out_.empty())
            out_ += '\n';
        out_ += origin ? fmt::format("[{}]  # {}\n", name, origin->str())
                       : fmt::format("[{}]\n", name);
    }

    void entry(const std::string& key, const Value& value)
    {
        if (!has_origins_of_its_own(value)) {
            out_ += fmt::format("{} = {}  # {}\n", quote_key(key), inline_toml(value),
                                value.origin.str());
            return;
        }
        out_ += fmt::format("{} = [\n", quote_key(key));
        for (const Value& element : *value.array())
            out_ += fmt::format("    {},  # {}\n", inline_toml(element),
                                element.origin.str());
        out_ += "]\n";
    }

    std::string out_;
};

void explain(const Value& value, const std::string& name, Json& out)
{
    const Table* table = value.table();
    if (table && (!table->empty() || name.empty())) {
        for (const auto& [key, member] : *table)
            explain(member, join_key(name, key), out);
    } else if (has_origins_of_its_own(value)) {
        std::size_t index = 0;
        for (const Value& element : *value.array())
            out[fmt::format("{}[{}]", name, index++)] = {
                {"value", element.json()}, {"origin", element.origin.str()}};
    } else {
        out[name] = {{"value", value.json()}, {"origin", value.origin.str()}};
    }
}

} // namespace

std::string Composed::toml() const
{
    Writer writer;
    writer.write(root, "");
    return writer.take();
}

Json Composed::explained() const
{
    Json out = Json::object();
    explain(root, "", out);
    return out;
}

} // namespace fluxdat::conf
