// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/clock.h"

#include <charconv>
#include <cmath>
#include <ctime>

namespace fluxdat {

namespace {

struct Clock {
    double speed = 1, origin = 0;
    std::string text;
};
Clock process_clock;

} // namespace

double machine_clock()
{
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double wall_clock()
{
    double now = machine_clock();
    return now + (now - process_clock.origin) * (process_clock.speed - 1);
}

double real_seconds(double calendar_seconds)
{
    return calendar_seconds / process_clock.speed;
}

std::string faster_clock(std::uint32_t speed)
{
    return speed == 1 ? std::string()
                      : fmt::format("{}@{:.3f}", speed, machine_clock());
}

Result<> set_clock(std::string_view text)
{
    if (text.empty()) {
        process_clock = {};
        return {};
    }
    auto wrong = [&] {
        return fail(Exit::usage,
                    "{}: expected SPEED@ORIGIN, as \"flux-dat sandbox env\" prints it: "
                    "unset it, or use what that prints",
                    clock_variable);
    };
    auto at = text.find('@');
    if (at == text.npos)
        return wrong();
    auto number = [](std::string_view digits, auto& value) {
        auto end = digits.data() + digits.size();
        auto [rest, error] = std::from_chars(digits.data(), end, value);
        return error == std::errc() && rest == end;
    };
    std::uint32_t speed = 0;
    double origin = 0;
    if (!number(text.substr(0, at), speed) || !number(text.substr(at + 1), origin)
        || speed < 1 || speed > clock_speed_max || !std::isfinite(origin) || origin < 0)
        return wrong();
    process_clock = {static_cast<double>(speed), origin, std::string(text)};
    return {};
}

const std::string& clock_setting()
{
    return process_clock.text;
}

} // namespace fluxdat
