// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/datetime.h"

#include "lib/flux/fsd.h"
#include "lib/flux/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>

namespace fluxdat::flux {

namespace {

constexpr double epoch_seconds_min = 1e9;          // 2001-09-09
constexpr double epoch_seconds_max = 253402300799; // the end of the year 9999

std::unexpected<Error> no_time(std::string_view text, std::string_view why)
{
    return fail(Exit::usage, "{} is no begin time: {}", in_quotes(text), why);
}

std::unexpected<Error> unknown_form(std::string_view text)
{
    return no_time(text,
                   "give it as \"+1h\", \"today 18:00\", \"2026-12-24 18:00\", or in "
                   "seconds since the epoch");
}

struct Time {
    int hour = 0;
    int minute = 0;
    int second = 0;
};

// Exactly `digits` digits off the front of text.
std::optional<int> take_number(std::string_view& text, std::size_t digits)
{
    if (text.size() < digits)
        return {};
    int value = 0;
    for (char c : text.substr(0, digits)) {
        if (c < '0' || c > '9')
            return {};
        value = value * 10 + (c - '0');
    }
    text.remove_prefix(digits);
    return value;
}

bool take(std::string_view& text, char c)
{
    if (!text.starts_with(c))
        return false;
    text.remove_prefix(1);
    return true;
}

// HH:MM[:SS] off the front of text.
std::optional<Time> take_time(std::string_view& text)
{
    auto hour = take_number(text, 2);
    if (!hour || *hour > 23 || !take(text, ':'))
        return {};
    auto minute = take_number(text, 2);
    if (!minute || *minute > 59)
        return {};
    Time time{*hour, *minute, 0};
    if (take(text, ':')) {
        auto second = take_number(text, 2);
        if (!second || *second > 59)
            return {};
        time.second = *second;
    }
    return time;
}

// The rest of text as Z, +HH:MM or -HH:MM: seconds east of UTC.
std::optional<int> parse_zone(std::string_view text)
{
    if (text == "Z")
        return 0;
    int sign = text.starts_with('-') ? -1 : 1;
    if (!take(text, '+') && !take(text, '-'))
        return {};
    auto hours = take_number(text, 2);
    if (!hours || *hours > 23 || !take(text, ':'))
        return {};
    auto minutes = take_number(text, 2);
    if (!minutes || *minutes > 59 || !text.empty())
        return {};
    return sign * (*hours * 3600 + *minutes * 60);
}

// YYYY-MM-DD off the front of text; nothing unless it is a day of the calendar.
std::optional<std::tm> take_day(std::string_view& text)
{
    auto year = take_number(text, 4);
    if (!year || !take(text, '-'))
        return {};
    auto month = take_number(text, 2);
    if (!month || !take(text, '-'))
        return {};
    auto day = take_number(text, 2);
    if (!day)
        return {};
    std::tm asked{};
    asked.tm_year = *year - 1900;
    asked.tm_mon = *month - 1;
    asked.tm_mday = *day;
    auto normalized = asked;
    timegm(&normalized);
    if (normalized.tm_mon != asked.tm_mon || normalized.tm_mday != asked.tm_mday)
        return {};
    return asked;
}

bool same_time(const std::tm& a, const std::tm& b)
{
    return a.tm_year == b.tm_year && a.tm_mon == b.tm_mon && a.tm_mday == b.tm_mday
           && a.tm_hour == b.tm_hour && a.tm_min == b.tm_min && a.tm_sec == b.tm_sec;
}

// The first moment at which the local clocks show this; nothing if they skip it.
std::optional<std::time_t> local_moment(const std::tm& asked)
{
    std::optional<std::time_t> first;
    // Which of two moments mktime(3) gives for -1 is not specified: ask for each.
    for (int daylight_saving : {1, 0, -1}) {
        auto attempt = asked;
        attempt.tm_isdst = daylight_saving;
        std::time_t moment = std::mktime(&attempt);
        std::tm shown{};
        if (localtime_r(&moment, &shown) && same_time(shown, asked)
            && (!first || moment < *first))
            first = moment;
    }
    return first;
}

// A local day, with a time or from its first moment.
Result<double> local_time(std::string_view text, std::tm day, std::optional<Time> time)
{
    if (time) {
        day.tm_hour = time->hour;
        day.tm_min = time->minute;
        day.tm_sec = time->second;
    }
    auto moment = local_moment(day);
    if (!moment && !time) {
        // Where the clocks go forward at midnight, the day starts at one.
        day.tm_hour = 1;
        moment = local_moment(day);
    }
    if (!moment)
        return no_time(text, "the clocks of the local time zone skip it on that day");
    return static_cast<double>(*moment);
}

std::tm local_day(double now, int days_later)
{
    auto seconds = static_cast<std::time_t>(std::floor(now));
    std::tm shown{};
    localtime_r(&seconds, &shown);
    std::tm day{};
    day.tm_year = shown.tm_year;
    day.tm_mon = shown.tm_mon;
    day.tm_mday = shown.tm_mday + days_later;
    timegm(&day); // the 32nd becomes the 1st, the 0th the last
    return day;
}

Result<double> relative_time(std::string_view text, double now)
{
    auto offset = parse_fsd(text.substr(1));
    if (!offset)
        return no_time(text, offset.error().message);
    if (now + *offset > epoch_seconds_max)
        return no_time(text, "it is too far in the future");
    return now + *offset;
}

Result<double> epoch_time(std::string_view text)
{
    double seconds = 0;
    auto end = text.data() + text.size();
    auto [rest, error] =
        std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
    if (error != std::errc() || rest != end)
        return unknown_form(text);
    if (seconds < epoch_seconds_min)
        return no_time(text, "as seconds since the epoch it is before 2001, and a date "
                             "is written YYYY-MM-DD");
    if (seconds > epoch_seconds_max)
        return no_time(text, "it is too far in the future");
    return seconds;
}

} // namespace

Result<double> parse_begin_time(std::string_view given, double now)
{
    tzset(); // localtime_r(3) need not
    auto text = trimmed(given);
    if (text.empty())
        return no_time(text, "it is empty");
    if (text == "now")
        return now;
    if (text.starts_with('+'))
        return relative_time(text, now);
    if (text.find_first_not_of("0123456789.") == std::string_view::npos)
        return epoch_time(text);

    auto rest = text;
    std::tm day;
    bool by_name = true;
    if (rest.starts_with("today")) {
        rest.remove_prefix(5);
        day = local_day(now, 0);
    } else if (rest.starts_with("tomorrow")) {
        rest.remove_prefix(8);
        day = local_day(now, 1);
    } else if (rest.starts_with("yesterday")) {
        rest.remove_prefix(9);
        day = local_day(now, -1);
    } else {
        if (rest.size() < 10 || rest[4] != '-' || rest[7] != '-')
            return unknown_form(text);
        auto date = take_day(rest);
        if (!date)
            return no_time(text, "there is no such day");
        day = *date;
        by_name = false;
    }
    if (rest.empty())
        return local_time(text, day, {});
    if (rest.front() != ' ' && (by_name || rest.front() != 'T'))
        return unknown_form(text);
    rest.remove_prefix(1);
    auto time = take_time(rest);
    if (!time)
        return no_time(text, "expected a time of day as HH:MM or HH:MM:SS, from 00:00 "
                             "to 23:59:59");
    if (rest.empty())
        return local_time(text, day, time);
    auto zone = by_name ? std::nullopt : parse_zone(rest);
    if (!zone)
        return no_time(text,
                       fmt::format("{} follows the time of day (a zone is Z, +HH:MM "
                                   "or -HH:MM, and needs a date)",
                                   in_quotes(rest)));
    day.tm_hour = time->hour;
    day.tm_min = time->minute;
    day.tm_sec = time->second;
    return static_cast<double>(timegm(&day) - *zone);
}

std::string format_local_time(double when, const char* format)
{
    constexpr double year_9999 = epoch_seconds_max; // others' numbers may be any
    auto seconds = static_cast<std::time_t>(std::clamp(when, 0.0, year_9999));
    std::tm parts{};
    localtime_r(&seconds, &parts);
    std::array<char, 64> text{};
    std::strftime(text.data(), text.size(), format, &parts);
    return text.data();
}

std::string format_datetime(double time)
{
    // What is no time_t, or of no year that there is, is nothing to show.
    constexpr double seconds_max = 4e11;
    if (!(time > -seconds_max && time < seconds_max))
        return "?";
    auto seconds = static_cast<time_t>(std::floor(time));
    std::tm parts{};
    localtime_r(&seconds, &parts);
    std::array<char, 64> text{};
    auto size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %Z", &parts);
    return {text.data(), size};
}

} // namespace fluxdat::flux
