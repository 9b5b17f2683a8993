// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/kv.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace fluxdat::imp {

namespace {

// The largest double has 309 digits before the point.
constexpr std::size_t real_text_max = 320;

// Not std::to_chars, whose tables would be a seventh of the setuid program. printf(3)
// may write a comma where somebody has called setlocale(3), which nobody does here; it
// would not be read again then.
std::string real_text(double value)
{
    std::array<char, real_text_max> text;
    auto length = std::snprintf(text.data(), text.size(), "%.6f", value);
    return {text.data(), static_cast<std::size_t>(length)};
}

std::optional<std::string> timestamp_text(std::time_t value)
{
    std::tm utc{};
    if (!gmtime_r(&value, &utc) || utc.tm_year < -1900 || utc.tm_year > 9999 - 1900)
        return {};
    std::array<char, sizeof("YYYY-MM-DDTHH:MM:SSZ")> text;
    // %Y has no leading zeros in years before 1000, which nobody signed a job in.
    if (std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)
        != text.size() - 1)
        return {};
    return text.data();
}

// Each of these gives nothing for a text that the value would not have been written as.

std::optional<std::int64_t> integer_value(std::string_view text)
{
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    if (std::to_string(value) != text)
        return {};
    return value;
}

std::optional<double> real_value(std::string_view text)
{
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    if (std::isnan(value) || real_text(value) != text)
        return {};
    return value;
}

std::optional<bool> boolean_value(std::string_view text)
{
    if (text == "true")
        return true;
    if (text == "false")
        return false;
    return {};
}

std::optional<std::time_t> timestamp_value(std::string_view text)
{
    constexpr std::string_view form = "0000-00-00T00:00:00Z";
    if (text.size() != form.size())
        return {};
    auto number = [&](std::size_t at, std::size_t digits) {
        int value = 0;
        std::from_chars(text.data() + at, text.data() + at + digits, value);
        return value;
    };
    std::tm utc{};
    utc.tm_year = number(0, 4) - 1900;
    utc.tm_mon = number(5, 2) - 1;
    utc.tm_mday = number(8, 2);
    utc.tm_hour = number(11, 2);
    utc.tm_min = number(14, 2);
    utc.tm_sec = number(17, 2);
    auto value = timegm(&utc);
    if (timestamp_text(value) != text)
        return {};
    return value;
}

std::optional<Kv::Type> type_of(char c)
{
    for (auto type : {Kv::Type::string, Kv::Type::integer, Kv::Type::real,
                      Kv::Type::boolean, Kv::Type::timestamp})
        if (static_cast<char>(type) == c)
            return type;
    return {};
}

const char* type_name(Kv::Type type)
{
    switch (type) {
    case Kv::Type::string:
        return "a string";
    case Kv::Type::integer:
        return "an integer";
    case Kv::Type::real:
        return "a real number";
    case Kv::Type::boolean:
        return "a boolean";
    case Kv::Type::timestamp:
        return "a timestamp";
    }
    return "";
}

bool valid_value(Kv::Type type, std::string_view text)
{
    switch (type) {
    case Kv::Type::string:
        return true;
    case Kv::Type::integer:
        return integer_value(text).has_value();
    case Kv::Type::real:
        return real_value(text).has_value();
    case Kv::Type::boolean:
        return boolean_value(text).has_value();
    case Kv::Type::timestamp:
        return timestamp_value(text).has_value();
    }
    return false;
}

// Takes what is before the next NUL off the front of bytes, and the NUL.
std::optional<std::string_view> take_field(std::string_view& bytes)
{
    auto end = bytes.find('\0');
    if (end == std::string_view::npos)
        return {};
    auto field = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    return field;
}

} // namespace

Result<> Kv::put(std::string_view key, Type type, std::string value)
{
    if (key.empty())
        return fail("kv: a key is empty", EINVAL);
    if (key.find('\0') != key.npos || value.find('\0') != value.npos)
        return fail("kv: a NUL in " + in_quotes(key) + " or its value", EINVAL);
    if (pairs_.size() == kv_pairs_max)
        return fail("kv: more than " + std::to_string(kv_pairs_max) + " pairs", E2BIG);
    if (!index_.try_emplace(std::string(key), pairs_.size()).second)
        return fail("kv: the key " + in_quotes(key) + " comes twice", EEXIST);
    pairs_.push_back({std::string(key), type, std::move(value)});
    return {};
}

Result<> Kv::put_string(std::string_view key, std::string value)
{
    return put(key, Type::string, std::move(value));
}

Result<> Kv::put_integer(std::string_view key, std::int64_t value)
{
    return put(key, Type::integer, std::to_string(value));
}

Result<> Kv::put_real(std::string_view key, double value)
{
    if (std::isnan(value))
        return fail("kv: " + in_quotes(key) + " is not a number", EINVAL);
    return put(key, Type::real, real_text(value));
}

Result<> Kv::put_boolean(std::string_view key, bool value)
{
    return put(key, Type::boolean, value ? "true" : "false");
}

Result<> Kv::put_timestamp(std::string_view key, std::time_t value)
{
    auto text = timestamp_text(value);
    if (!text)
        return fail("kv: the year of " + in_quotes(key) + " has not four digits",
                    EINVAL);
    return put(key, Type::timestamp, *text);
}

Result<const Kv::Pair*> Kv::get(std::string_view key, Type type) const
{
    auto found = index_.find(key);
    if (found == index_.end())
        return fail("kv: the key " + in_quotes(key) + " is missing", ENOENT);
    const auto& pair = pairs_[found->second];
    if (pair.type != type)
        return fail("kv: " + in_quotes(key) + " is " + type_name(pair.type) + ", not "
                        + type_name(type),
                    EINVAL);
    return &pair;
}

Result<std::string_view> Kv::view_string(std::string_view key) const
{
    auto pair = get(key, Type::string);
    if (!pair)
        return std::unexpected(std::move(pair.error()));
    return (*pair)->value;
}

Result<std::string> Kv::get_string(std::string_view key) const
{
    auto pair = get(key, Type::string);
    if (!pair)
        return std::unexpected(std::move(pair.error()));
    return (*pair)->value;
}

// That the text has a value was seen when it was put.

Result<std::int64_t> Kv::get_integer(std::string_view key) const
{
    auto pair = get(key, Type::integer);
    if (!pair)
        return std::unexpected(std::move(pair.error()));
    return integer_value((*pair)->value).value();
}

Result<double> Kv::get_real(std::string_view key) const
{
    auto pair = get(key, Type::real);
    if (!pair)
        return std::unexpected(std::move(pair.error()));
    return real_value((*pair)->value).value();
}

Result<bool> Kv::get_boolean(std::string_view key) const
{
    auto pair = get(key, Type::boolean);
    if (!pair)
        return std::unexpected(std::move(pair.error()));
    return boolean_value((*pair)->value).value();
}

Result<std::time_t> Kv::get_timestamp(std::string_view key) const
{
    auto pair = get(key, Type::timestamp);
    if (!pair)
        return std::unexpected(std::move(pair.error()));
    return timestamp_value((*pair)->value).value();
}

std::string Kv::encode() const
{
    std::string bytes;
    for (const auto& pair : pairs_) {
        bytes.append(pair.key).push_back('\0');
        bytes.push_back(static_cast<char>(pair.type));
        bytes.append(pair.value).push_back('\0');
    }
    return bytes;
}

Result<Kv> Kv::decode(std::string_view bytes)
{
    if (bytes.size() > kv_bytes_max)
        return fail("kv: " + std::to_string(bytes.size()) + " bytes, more than "
                        + std::to_string(kv_bytes_max),
                    E2BIG);
    Kv kv;
    while (!bytes.empty()) {
        auto key = take_field(bytes);
        auto value = key ? take_field(bytes) : std::nullopt;
        if (!value)
            return fail("kv: the end is cut off", EINVAL);
        if (value->empty())
            return fail("kv: " + in_quotes(*key) + " has no type", EINVAL);
        auto type = type_of(value->front());
        if (!type)
            return fail("kv: " + in_quotes(*key)
                            + " has an unknown type: " + in_quotes(value->substr(0, 1)),
                        EINVAL);
        value->remove_prefix(1);
        if (!valid_value(*type, *value))
            return fail("kv: the value of " + in_quotes(*key) + " is not "
                            + type_name(*type) + ": " + in_quotes(*value),
                        EINVAL);
        if (auto done = kv.put(*key, *type, std::string(*value)); !done)
            return std::unexpected(std::move(done.error()));
    }
    return kv;
}

Result<> kv_join(Kv& whole, const Kv& part, std::string_view prefix)
{
    for (const auto& pair : part.pairs())
        if (auto done =
                whole.put(std::string(prefix) + pair.key, pair.type, pair.value);
            !done)
            return done;
    return {};
}

Kv kv_split(const Kv& whole, std::string_view prefix)
{
    Kv part;
    for (const auto& pair : whole.pairs()) {
        std::string_view key = pair.key;
        if (key.size() > prefix.size() && key.starts_with(prefix))
            // Cannot fail: the keys differ in what follows the prefix.
            (void)part.put(key.substr(prefix.size()), pair.type, pair.value);
    }
    return part;
}

Result<Kv> kv_from_argv(const std::vector<std::string>& argv)
{
    Kv kv;
    for (std::size_t i = 0; i < argv.size(); i++)
        if (auto done = kv.put_string(std::to_string(i), argv[i]); !done)
            return std::unexpected(std::move(done.error()));
    return kv;
}

Result<std::vector<std::string>> kv_to_argv(const Kv& kv)
{
    std::vector<std::string> argv;
    for (const auto& pair : kv.pairs()) {
        if (pair.key != std::to_string(argv.size()))
            return fail("kv: expected argument " + std::to_string(argv.size())
                            + ", found " + in_quotes(pair.key),
                        EINVAL);
        if (pair.type != Kv::Type::string)
            return fail("kv: argument " + pair.key + " is " + type_name(pair.type)
                            + ", not a string",
                        EINVAL);
        argv.push_back(pair.value);
    }
    return argv;
}

Result<Kv> kv_from_environment(const std::vector<std::string>& environment)
{
    Kv kv;
    for (std::string_view entry : environment) {
        auto equals = entry.find('=');
        if (equals == entry.npos || equals == 0)
            return fail("kv: an environment entry is not NAME=VALUE: "
                            + in_quotes(entry),
                        EINVAL);
        auto done = kv.put_string(entry.substr(0, equals),
                                  std::string(entry.substr(equals + 1)));
        if (!done)
            return std::unexpected(std::move(done.error()));
    }
    return kv;
}

Result<std::vector<std::string>> kv_to_environment(const Kv& kv)
{
    std::vector<std::string> environment;
    for (const auto& pair : kv.pairs()) {
        if (pair.type != Kv::Type::string || pair.key.find('=') != pair.key.npos)
            return fail("kv: " + in_quotes(pair.key)
                            + " is no environment variable with a string value",
                        EINVAL);
        environment.push_back(pair.key + "=" + pair.value);
    }
    return environment;
}

} // namespace fluxdat::imp
