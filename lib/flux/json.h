// SPDX-License-Identifier: LGPL-3.0-or-later
//
// JSON that came from somebody else: bounded, without exceptions, and read with a
// default where a member is missing or of another type.
#pragma once

#include "lib/result.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fluxdat::flux {

using Json = nlohmann::json;

// Deeper nesting is refused before it is parsed.
constexpr std::size_t json_depth_max = 128; // objects and arrays within one another

// A JSON object from text. errnum EPROTO.
Result<Json> parse_json(std::string_view text);

// JSON as text, on one line. Bytes that are no UTF-8 are replaced by U+FFFD.
std::string dump_json(const Json& json);

// Members of an object. `object` may be anything; then they are missing.
std::string text_at(const Json& object, const char* key, std::string otherwise = {});
double number_at(const Json& object, const char* key, double otherwise = 0);
template <class T>
T integer_at(const Json& object, const char* key, T otherwise = 0)
{
    if (!object.is_object())
        return otherwise;
    auto found = object.find(key);
    return found != object.end() && found->is_number_integer() ? found->get<T>()
                                                               : otherwise;
}

} // namespace fluxdat::flux
