// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/json.h"

namespace fluxdat::flux {

Result<Json> parse_json(std::string_view text, std::size_t depth_max)
{
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > depth_max)
                return std::unexpected(Error{
                    fmt::format("JSON nested deeper than {}", depth_max), EPROTO});
        } else if (c == '}' || c == ']') {
            if (depth > 0)
                depth--;
        }
    }
    auto json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object())
        return std::unexpected(Error{"not a JSON object", EPROTO});
    return json;
}

std::string dump_json(const Json& json)
{
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string text_at(const Json& object, const char* key, std::string otherwise)
{
    if (!object.is_object())
        return otherwise;
    auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>()
                                                       : otherwise;
}

double number_at(const Json& object, const char* key, double otherwise)
{
    if (!object.is_object())
        return otherwise;
    auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<double>()
                                                       : otherwise;
}

} // namespace fluxdat::flux
