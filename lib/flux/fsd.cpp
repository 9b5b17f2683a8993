// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/fsd.h"

#include "lib/flux/text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace fluxdat::flux {

namespace {

struct Unit {
    std::string_view suffix;
    double seconds;
};

constexpr std::array units{Unit{"ms", 1e-3}, Unit{"s", 1}, Unit{"m", 60},
                           Unit{"h", 3600}, Unit{"d", 86400}};

std::unexpected<Error> no_duration(std::string_view text, std::string_view why)
{
    return fail(Exit::usage, "{} is no duration: {}", in_quotes(text), why);
}

// strtod(3) follows the locale and skips white space; std::from_chars does neither,
// but leaves a plus sign and the prefix of a hexadecimal number to its caller.
Result<double> parse_duration(std::string_view text, double default_unit)
{
    if (text.empty())
        return no_duration(text, "it is empty");
    if (text.front() == '-')
        return no_duration(text, "it is negative");
    auto number = text;
    if (number.front() == '+')
        number.remove_prefix(1);
    auto format = std::chars_format::general;
    if (number.starts_with("0x") || number.starts_with("0X")) {
        number.remove_prefix(2);
        format = std::chars_format::hex;
    }
    double value = 0;
    auto end = number.data() + number.size();
    auto [rest, error] = std::from_chars(number.data(), end, value, format);
    if (error == std::errc::result_out_of_range)
        return no_duration(text, "the number is too large or too small");
    if (error != std::errc() || std::isnan(value) || std::signbit(value))
        return no_duration(text, "expected a number and a unit, as in 30m or 1.5h");

    std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
    if (std::isinf(value) && !suffix.empty())
        return no_duration(text, "infinity has no unit");
    if (suffix.empty())
        return value * default_unit;
    for (const auto& unit : units)
        if (suffix == unit.suffix) {
            if (std::isinf(value * unit.seconds))
                return no_duration(text, "the number is too large or too small");
            return value * unit.seconds;
        }
    return no_duration(text,
                       fmt::format("unknown unit {} (known are ms, s, m, h and d)",
                                   in_quotes(suffix)));
}

} // namespace

Result<double> parse_fsd(std::string_view text)
{
    return parse_duration(text, 1);
}

Result<double> parse_time_limit(std::string_view text)
{
    auto seconds = parse_duration(text, 60);
    if (seconds && std::isinf(*seconds))
        return no_duration(text, "a time limit must be finite");
    return seconds;
}

std::string format_fsd(double seconds)
{
    if (std::isinf(seconds))
        return seconds < 0 ? "-inf" : "inf";
    if (seconds == 0 || std::isnan(seconds))
        return "0s";
    const Unit* best = &units.front();
    for (const auto& unit : units)
        if (std::abs(seconds) >= unit.seconds)
            best = &unit;
    return fmt::format("{:.4g}{}", seconds / best->seconds, best->suffix);
}

} // namespace fluxdat::flux
