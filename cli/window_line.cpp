// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/window_line.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace fluxdat::cli {

namespace {

constexpr std::size_t bar_columns_min = 8; // below it, times give way to the line
constexpr double short_window = 600;       // seconds
constexpr double scale_min = 1; // seconds: no division by 0, whatever clocks say

struct Cell {
    const char* text;
    Hue hue;
};

} // namespace

bool Timeline::short_term() const
{
    return end > 0 && end - begin < short_window;
}

Timeline window_of(const dat::Dat& dat)
{
    Timeline window;
    window.begin = dat.job.t_run;
    window.end = dat.job.expiration;
    if (double stop = dat.record.stop_at;
        dat.phase() == "stopping" && stop > 0 && (window.end <= 0 || stop < window.end))
        window.end = stop;
    auto& plan = dat.record.window.plan;
    auto add = [&](double when, const char* what, char mark) {
        if (when > 0)
            window.points.push_back({when, what, mark});
    };
    for (double when : plan.warn_at)
        add(when, "warning", 'w');
    add(plan.close_at, "closed to new jobs", 'c');
    add(plan.term_at, "SIGTERM", 'T');
    std::stable_sort(window.points.begin(), window.points.end(),
                     [](auto& a, auto& b) { return a.when < b.when; });
    window.passed_over = plan.passed_over;
    return window;
}

std::string window_line(const Timeline& window, double now, std::size_t columns,
                        const Screen& screen)
{
    auto from = human_time(window.begin, now, window.short_term());
    auto to = window.end > 0 ? human_time(window.end, now, window.short_term())
                             : std::string("no end");
    auto times = columns_of(from) + columns_of(to) + 2;
    bool with_times = columns >= times + bar_columns_min;
    auto width = with_times ? columns - times : columns;
    if (width == 0)
        return {};
    double length = window.end > window.begin
                        ? window.end - window.begin
                        : std::max(scale_min, (now - window.begin) * 2);
    auto place = [&](double when) {
        double part = std::clamp((when - window.begin) / length, 0.0, 1.0);
        return static_cast<std::size_t>(
            std::lround(part * static_cast<double>(width - 1)));
    };
    auto here = place(now);
    bool utf8 = screen.utf8;
    std::vector<Cell> cells(width, Cell{utf8 ? "─" : "-", Hue::faint});
    for (std::size_t i = 0; i < here; i++)
        cells[i] = {utf8 ? "━" : "=", Hue::good};
    cells.back() = {window.end <= 0 ? (utf8 ? "┄" : ".") : (utf8 ? "┤" : "]"),
                    Hue::bad};
    std::vector<std::string> marks;
    marks.reserve(window.points.size());
    for (auto& point : window.points) {
        if (point.when < window.begin || point.when > window.end)
            continue;
        marks.emplace_back(1, point.mark);
        cells[place(point.when)] = {marks.back().c_str(), Hue::busy};
    }
    cells[here] = {utf8 ? "●" : "#", Hue::strong};
    std::string line;
    for (auto& cell : cells)
        line += screen.paint(cell.hue, cell.text);
    return with_times ? fmt::format("{} {} {}", from, line, to) : line;
}

std::string window_to_come(const Timeline& window, double now)
{
    std::string out;
    auto add = [&](const std::string& what, double when) {
        if (when <= now)
            return;
        auto first = out.empty();
        out += first ? "" : ", ";
        out += fmt::format("{} {}", what, human_time(when, now, window.short_term()));
        if (first)
            out += fmt::format(" (in {})", human_duration(when - now));
    };
    for (auto& point : window.points)
        add(point.what, point.when);
    if (window.end > 0)
        add("end", window.end);
    return out;
}

} // namespace fluxdat::cli
