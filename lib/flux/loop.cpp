// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/loop.h"

#include "lib/clock.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace fluxdat::flux {

namespace {

// A wait for a point of time is cut into pieces, so that a clock that is set, or a
// machine that slept, is noticed within this time.
constexpr double calendar_wait_piece = 60; // real seconds

} // namespace

void Interrupt::raise(Error reason)
{
    if (reason_)
        return;
    reason_ = std::move(reason);
    // A callback may end its scope and open others: work on those of now, and skip
    // any that ended meanwhile.
    auto scopes = scopes_;
    for (auto* scope : scopes)
        if (std::find(scopes_.begin(), scopes_.end(), scope) != scopes_.end())
            scope->on_raise_();
}

InterruptScope::InterruptScope(Interrupt* interrupt, std::function<void()> on_raise)
    : interrupt_(interrupt), on_raise_(std::move(on_raise))
{
    if (interrupt_)
        interrupt_->scopes_.push_back(this);
}

InterruptScope::~InterruptScope()
{
    if (interrupt_)
        std::erase(interrupt_->scopes_, this);
}

Loop::Loop()
{
    // Out of memory or file descriptors before anything began: there is no command
    // that could do without.
    if (int status = uv_loop_init(&uv_); status != 0) {
        std::fprintf(stderr, "flux-dat: cannot set up the event loop: %s\n",
                     uv_strerror(status));
        std::_Exit(1);
    }
}

Loop::~Loop()
{
    // Handles that are being closed need one more turn for their callbacks.
    uv_run(&uv_, UV_RUN_NOWAIT);
    uv_loop_close(&uv_);
}

namespace {

// For libuv's timers. Beyond some thirty years (also INFINITY) it makes no difference;
// NaN is 0, which std::clamp would not have it.
std::uint64_t milliseconds(double seconds)
{
    return static_cast<std::uint64_t>(std::min(std::max(0.0, seconds), 1e9) * 1000.0);
}

} // namespace

Task<Result<>> Loop::sleep(double seconds, Interrupt* interrupt)
{
    if (interrupt && interrupt->reason())
        co_return std::unexpected(*interrupt->reason());
    struct Timer {
        uv_timer_t uv;
        Waiter waiter;
    };
    auto* timer = new Timer; // freed when libuv has closed it
    uv_timer_init(&uv_, &timer->uv);
    timer->uv.data = timer;
    uv_timer_start(
        &timer->uv,
        [](uv_timer_t* uv) { static_cast<Timer*>(uv->data)->waiter.wake(); },
        milliseconds(seconds), 0);
    {
        InterruptScope scope(interrupt, [timer] { timer->waiter.wake(); });
        co_await timer->waiter;
    }
    uv_close(reinterpret_cast<uv_handle_t*>(&timer->uv),
             [](uv_handle_t* handle) { delete static_cast<Timer*>(handle->data); });
    if (interrupt && interrupt->reason())
        co_return std::unexpected(*interrupt->reason());
    co_return Result<>{};
}

Task<Result<>> Loop::sleep_until(double time, Interrupt* interrupt)
{
    while (true) {
        double left = real_seconds(time - wall_clock());
        auto slept = co_await sleep(std::min(left, calendar_wait_piece), interrupt);
        if (!slept || left <= 0)
            co_return slept;
    }
}

Deadline::Deadline(Loop& loop, double seconds, Error reason, Interrupt* other)
    : reason_(std::move(reason)),
      other_(other, [this, other] { interrupt_.raise(*other->reason()); }),
      timer_(new uv_timer_t)
{
    if (other && other->reason())
        interrupt_.raise(*other->reason());
    uv_timer_init(loop.uv(), timer_);
    timer_->data = this;
    uv_timer_start(
        timer_,
        [](uv_timer_t* timer) {
            auto* self = static_cast<Deadline*>(timer->data);
            self->interrupt_.raise(self->reason_);
        },
        milliseconds(seconds), 0);
}

Deadline::~Deadline()
{
    uv_close(reinterpret_cast<uv_handle_t*>(timer_),
             [](uv_handle_t* timer) { delete reinterpret_cast<uv_timer_t*>(timer); });
}

struct InterruptSources::State {
    static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGALRM};
    Interrupt* interrupt;
    Error timeout_error;
    int signal = 0;
    bool ignore_signals = false;
    int open_handles = 0;
    std::array<uv_signal_t, signals.size()> handlers;
    uv_timer_t timer;
};

InterruptSources::InterruptSources(Loop& loop, Interrupt& interrupt,
                                   double timeout_seconds, Error timeout_error,
                                   Signals signals)
    : state_(new State)
{
    state_->interrupt = &interrupt;
    state_->timeout_error = std::move(timeout_error);
    state_->ignore_signals = signals == Signals::ignore;
    for (std::size_t i = 0; i < State::signals.size(); i++) {
        auto& handler = state_->handlers[i];
        uv_signal_init(loop.uv(), &handler);
        handler.data = state_;
        state_->open_handles++;
        uv_signal_start(
            &handler,
            [](uv_signal_t* uv, int signum) {
                auto* state = static_cast<State*>(uv->data);
                state->signal = signum;
                if (state->ignore_signals)
                    return;
                state->interrupt->raise(
                    Error{fmt::format("interrupted by {}",
                                      sigabbrev_np(signum)
                                          ? fmt::format("SIG{}", sigabbrev_np(signum))
                                          : std::to_string(signum)),
                          EINTR});
            },
            State::signals[i]);
    }
    uv_timer_init(loop.uv(), &state_->timer);
    state_->timer.data = state_;
    state_->open_handles++;
    if (timeout_seconds > 0)
        uv_timer_start(
            &state_->timer,
            [](uv_timer_t* uv) {
                auto* state = static_cast<State*>(uv->data);
                state->interrupt->raise(state->timeout_error);
            },
            milliseconds(timeout_seconds), 0);
}

InterruptSources::~InterruptSources()
{
    auto closed = [](uv_handle_t* handle) {
        auto* state = static_cast<State*>(handle->data);
        if (--state->open_handles == 0)
            delete state;
    };
    for (auto& handler : state_->handlers)
        uv_close(reinterpret_cast<uv_handle_t*>(&handler), closed);
    uv_close(reinterpret_cast<uv_handle_t*>(&state_->timer), closed);
}

int InterruptSources::signal() const
{
    return state_->signal;
}

} // namespace fluxdat::flux
