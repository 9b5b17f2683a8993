// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/progress.h"

#include "lib/harmless.h"
#include "lib/say.h"

#include <cmath>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

constexpr std::uint64_t redraw_interval = 1000; // ms
constexpr const char* clear_line = "\r\x1b[K";

std::string elapsed(double seconds)
{
    return seconds >= 1 ? " " + human_duration(std::floor(seconds)) : "";
}

} // namespace

std::string phases_line(const std::string& what, const std::vector<Phase>& phases,
                        double now, const Screen& screen)
{
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < phases.size(); i++) {
        bool last = i + 1 == phases.size();
        auto part = phases[i].name;
        if (!last || phases[i].name != "ready")
            part += elapsed((last ? now : phases[i + 1].begin) - phases[i].begin);
        if (last && !phases[i].why.empty())
            part += " (" + phases[i].why + ")";
        parts.push_back(std::move(part));
    }
    std::string between = screen.utf8 ? " … " : " ... ";
    for (std::size_t first = 0;; first++) {
        std::string line = what.empty() ? "" : what + ": ";
        for (std::size_t i = first; i < parts.size(); i++)
            line += (i > first ? between : "") + parts[i];
        line = harmless(line);
        // One column less: at the last one, some terminals begin a new line.
        if (screen.columns == 0 || columns_of(line) < screen.columns)
            return line;
        if (first + 1 >= parts.size())
            return screen.cut(line, screen.columns - 1);
    }
}

struct ProgressLine::State {
    uv_timer_t timer{};
    std::string what;
    std::vector<Phase> phases;
};

ProgressLine::ProgressLine(flux::Loop& loop) : state_(new State)
{
    uv_timer_init(loop.uv(), &state_->timer);
    state_->timer.data = this;
    uv_timer_start(
        &state_->timer,
        [](uv_timer_t* timer) { static_cast<ProgressLine*>(timer->data)->draw(); },
        redraw_interval, redraw_interval);
    // What it tells of keeps the loop alive, not the telling.
    uv_unref(reinterpret_cast<uv_handle_t*>(&state_->timer));
}

ProgressLine::~ProgressLine()
{
    draw();
    if (!state_->phases.empty())
        say(stderr, "\n");
    state_->timer.data = state_;
    uv_close(reinterpret_cast<uv_handle_t*>(&state_->timer),
             [](uv_handle_t* timer) { delete static_cast<State*>(timer->data); });
}

bool ProgressLine::possible()
{
    return screen_of(STDERR_FILENO).moves;
}

double ProgressLine::now() const
{
    uv_update_time(state_->timer.loop);
    return static_cast<double>(uv_now(state_->timer.loop)) / 1000;
}

void ProgressLine::set_what(std::string what)
{
    state_->what = std::move(what);
}

void ProgressLine::begin(std::string phase)
{
    state_->phases.push_back({std::move(phase), now(), {}});
    draw();
}

void ProgressLine::set_why(std::string why)
{
    if (state_->phases.empty())
        return;
    state_->phases.back().why = std::move(why);
    draw();
}

void ProgressLine::clear()
{
    if (!state_->phases.empty())
        put(stderr, clear_line);
}

void ProgressLine::draw()
{
    if (state_->phases.empty())
        return;
    put(stderr, clear_line
                    + phases_line(state_->what, state_->phases, now(),
                                  screen_of(STDERR_FILENO)));
}

} // namespace fluxdat::cli
