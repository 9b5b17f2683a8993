// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/config.h"

#include "lib/flux/text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <toml++/toml.h>

namespace fluxdat::sandbox {

namespace {

template <class T>
std::string as_text(const T& value)
{
    std::ostringstream out;
    out << value;
    return out.str();
}

Json to_json(const toml::node& node)
{
    Json out;
    if (const auto* table = node.as_table()) {
        out = Json::object();
        for (const auto& [key, value] : *table)
            out[std::string(key.str())] = to_json(value);
    } else if (const auto* array = node.as_array()) {
        out = Json::array();
        for (const auto& value : *array)
            out.push_back(to_json(value));
    } else if (const auto* text = node.as_string()) {
        out = text->get();
    } else if (const auto* integer = node.as_integer()) {
        out = integer->get();
    } else if (const auto* real = node.as_floating_point()) {
        out = real->get();
    } else if (const auto* boolean = node.as_boolean()) {
        out = boolean->get();
    } else if (const auto* date = node.as_date()) {
        out = as_text(date->get());
    } else if (const auto* time = node.as_time()) {
        out = as_text(time->get());
    } else if (const auto* date_time = node.as_date_time()) {
        out = as_text(date_time->get());
    }
    return out;
}

Result<Json> load_file(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    std::string text(config_bytes_max + 1, '\0');
    if (!file
        || !file.read(text.data(), static_cast<std::streamsize>(text.size())).eof())
        return fail_errno(errno ? errno : EIO, fmt::format("cannot read {}", path));
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > config_bytes_max)
        return fail("{}: larger than {} bytes", path, config_bytes_max);
    return parse_config(text, path);
}

} // namespace

Result<Json> parse_config(const std::string& text, const std::string& name)
{
    if (flux::trimmed(text).starts_with('{')) {
        auto json = flux::parse_json(text);
        if (!json)
            return fail("{}: {}", name, json.error().message);
        return json;
    }
    // Debian's toml++ is built to throw; this is where it stops.
    try {
        return to_json(toml::parse(text));
    } catch (const toml::parse_error& error) {
        return fail("{}:{}:{}: {}", name, error.source().begin.line,
                    error.source().begin.column, error.description());
    }
}

void merge_config(Json& config, const Json& more)
{
    for (const auto& [key, value] : more.items()) {
        if (value.is_object() && config.contains(key) && config[key].is_object())
            merge_config(config[key], value);
        else
            config[key] = value;
    }
}

Result<Json> load_config(const std::string& path)
{
    std::error_code error;
    if (!std::filesystem::is_directory(path, error))
        return load_file(path);
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
        if (entry.path().extension() == ".toml")
            files.push_back(entry.path().string());
    if (error)
        return fail("cannot read {}: {}", path, error.message());
    std::sort(files.begin(), files.end());
    Json out = Json::object();
    for (const auto& file : files) {
        auto part = load_file(file);
        if (!part)
            return part;
        out.update(*part);
    }
    return out;
}

} // namespace fluxdat::sandbox
