// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/timer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fluxdat::sandbox {

namespace {

// A wait for the wall clock is cut into pieces, so that a clock that is set, or a
// machine that slept, is noticed within this time.
constexpr double wall_clock_piece = 60; // real seconds

} // namespace

Timer::Timer(uv_loop_t* loop) : uv_(new uv_timer_t)
{
    uv_timer_init(loop, uv_);
    uv_->data = this;
}

Timer::~Timer()
{
    HandleDeleter<uv_timer_t>{}(uv_);
}

void Timer::start_in(double seconds, std::function<void()> callback)
{
    due_ = 0;
    callback_ = std::move(callback);
    arm(seconds);
}

void Timer::start_at(double time, std::function<void()> callback)
{
    due_ = time;
    callback_ = std::move(callback);
    arm(std::min(real_seconds(time - wall_clock()), wall_clock_piece));
}

void Timer::stop()
{
    uv_timer_stop(uv_);
    callback_ = nullptr;
}

void Timer::arm(double seconds)
{
    uv_update_time(uv_->loop);
    uv_timer_start(
        uv_,
        [](uv_timer_t* uv) {
            if (uv->data)
                static_cast<Timer*>(uv->data)->fire();
        },
        static_cast<std::uint64_t>(std::ceil(std::max(0.0, seconds) * 1000.0)), 0);
}

void Timer::fire()
{
    if (due_ > 0) {
        double left = due_ - wall_clock();
        if (left > 0) {
            arm(std::min(real_seconds(left), wall_clock_piece));
            return;
        }
    }
    // The callback may start the timer again, or destroy it.
    auto callback = std::exchange(callback_, nullptr);
    if (callback)
        callback();
}

} // namespace fluxdat::sandbox
