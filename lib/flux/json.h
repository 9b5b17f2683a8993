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

// Objects and arrays within one another that Flux takes (as its parser, jansson, does).
constexpr std::size_t json_depth_flux = 2048;
// Deeper nesting is refused before it is parsed. An answer to us may hold what anybody
// else gave to Flux, a memo or a jobspec, within some more levels of its own: if it
// were refused, that somebody would decide what we can read.
constexpr std::size_t json_depth_max = json_depth_flux + 16;

// A JSON object from text. errnum EPROTO.
Result<Json> parse_json(std::string_view text, std::size_t depth_max = json_depth_max);

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
