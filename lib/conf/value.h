// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A configuration as a tree in which every value knows where it was written, so that
// what is wrong can be told with file, line and column long after it was merged.
// Neither toml++ nor nlohmann-json keeps that through a merge, hence a tree of our own.
#pragma once

#include "lib/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fluxdat::conf {

using Json = nlohmann::json;

// Deeper nesting than this is a mistake or an attack. Flux's own tables are six deep
// (queues.NAME.policy.limits.job-size.max.nnodes is seven names).
constexpr std::size_t value_depth_max = 32; // tables and arrays within one another

// Where a value was written.
struct Origin {
    enum class Kind : std::uint8_t {
        builtin, // the template, the bundled IMP, a rule of flux-dat
        parent,  // the parent's configuration
        file,
        text,     // a --conf argument of several lines; line and column count in it
        argument, // --conf KEY=VALUE, --imp PATH
    };
    std::string source; // a path, or a description such as "--conf exec.imp=/x"
    Kind kind = Kind::builtin;
    bool command_line = false; // given by whoever typed the command, not by the site
    std::size_t line = 0;      // counting from 1; 0 where there is none
    std::size_t column = 0;    // in characters, counting from 1

    // "path:3:1"; "--conf text (argument 2), line 3, column 1"; "--imp". One line,
    // valid UTF-8, no control characters.
    std::string str() const;

    // The exit status of an error that this place is to blame for: a command line that
    // cannot work is a usage error, a site's file that cannot is a failure.
    Exit exit() const { return command_line ? Exit::usage : Exit::failed; }
};

struct Value;
using Table = std::map<std::string, Value, std::less<>>;
using Array = std::vector<Value>;

struct Value {
    std::variant<bool, std::int64_t, double, std::string, Array, Table> data = Table{};
    Origin origin;

    const Table* table() const { return std::get_if<Table>(&data); }
    Table* table() { return std::get_if<Table>(&data); }
    const Array* array() const { return std::get_if<Array>(&data); }
    Array* array() { return std::get_if<Array>(&data); }
    const std::string* string() const { return std::get_if<std::string>(&data); }
    const bool* boolean() const { return std::get_if<bool>(&data); }

    // "a string", "an integer", "a table"... for messages.
    const char* type_name() const;

    // The member that a key names, by its parts or as split_key() takes it, or nullptr.
    // Array elements have no key.
    const Value* find(const std::vector<std::string>& key) const;
    const Value* find(std::string_view key) const;

    Json json() const;
};

// A key of several parts, "job-manager.prolog" or `ingest."x.y"`, as TOML writes it;
// the error has the column and no subject: "empty part at column 3".
Result<std::vector<std::string>> split_key(std::string_view key);

// One part of a key as TOML writes it: bare where it can be, else quoted.
std::string quote_key(std::string_view part);
std::string join_key(std::string_view table, std::string_view part);

// Takes the value at a dotted key out of the tree, and tables that it leaves empty.
// False if there was none.
bool erase(Value& root, std::string_view key);

// Puts a value at a key, making the tables on the way (with the value's origin). What
// stands in the way and is no table is replaced.
void put(Value& root, const std::vector<std::string>& key, Value value);

// A JSON document as values that all have the same origin. JSON's null, and integers
// beyond 64 bits signed, have no place in a configuration: errors name the key.
Result<Value> from_json(const Json& json, const Origin& origin);

// Text for people: control characters and invalid UTF-8 replaced, cut at 200 bytes.
std::string printable(std::string_view text);

} // namespace fluxdat::conf
