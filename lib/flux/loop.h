// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The event loop (libuv) of a process, timers, and interruption.
#pragma once

#include "lib/flux/task.h"
#include "lib/result.h"

#include <functional>
#include <uv.h>

namespace fluxdat::flux {

// Why a wait should end before what it waits for has come: a signal, a timeout. Waits
// that take an Interrupt give its error once it is raised, and at once if it already
// was. One Interrupt serves many waits; the owner keeps it alive longer than they are.
class Interrupt
{
public:
    void raise(Error reason);
    void clear() { reason_.reset(); }
    const std::optional<Error>& reason() const { return reason_; }

private:
    friend class InterruptScope;
    std::optional<Error> reason_;
    std::vector<class InterruptScope*> scopes_;
};

// Calls on_raise when the interrupt is raised during the scope's life.
class InterruptScope
{
public:
    InterruptScope(Interrupt* interrupt, std::function<void()> on_raise);
    ~InterruptScope();
    InterruptScope(const InterruptScope&) = delete;
    InterruptScope& operator=(const InterruptScope&) = delete;

private:
    friend class Interrupt;
    Interrupt* interrupt_;
    std::function<void()> on_raise_;
};

class Loop
{
public:
    Loop();
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    // Runs the loop until the task is done and gives its result. A task that waits for
    // what nothing in the loop can bring ends the program: it is a mistake in the code.
    template <class T>
    T run(Task<T> task)
    {
        std::optional<T> result;
        bool running = false;
        [](Task<T> inner, std::optional<T>& out, bool& stop,
           uv_loop_t* uv) -> detail::Detached {
            out.emplace(co_await std::move(inner));
            // Only out of uv_run(): a stop that is asked for before it would hold for
            // the next run, or keep the destructor from closing handles.
            if (stop)
                uv_stop(uv);
        }(std::move(task), result, running, &uv_);
        running = true;
        while (!result)
            if (uv_run(&uv_, UV_RUN_DEFAULT) == 0 && !result)
                std::terminate();
        return std::move(*result);
    }

    // Starts a task that nobody waits for. It must end before the loop does.
    void spawn(Task<void> task)
    {
        [](Task<void> inner) -> detail::Detached {
            co_await std::move(inner);
        }(std::move(task));
    }

    // Waits. Gives the interrupt's error if that comes first.
    Task<Result<>> sleep(double seconds, Interrupt* interrupt = nullptr);
    // Waits for a point of calendar time (lib/clock.h), seconds since the epoch; also
    // where the clock is set meanwhile, or the machine sleeps.
    Task<Result<>> sleep_until(double time, Interrupt* interrupt = nullptr);

    uv_loop_t* uv() { return &uv_; }

private:
    uv_loop_t uv_;
};

// An interrupt that is raised when some seconds have passed, or when another one is.
class Deadline
{
public:
    // `other` may be none; it must outlive this.
    Deadline(Loop& loop, double seconds, Error reason, Interrupt* other = nullptr);
    ~Deadline();
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    Interrupt& interrupt() { return interrupt_; }

private:
    Interrupt interrupt_;
    Error reason_;
    InterruptScope other_;
    uv_timer_t* timer_; // freed by libuv's close callback, which outlives this object
};

// Raises an interrupt when one of SIGINT, SIGTERM, SIGHUP, SIGALRM arrives, or when
// `timeout` seconds (if positive) have passed. The messages name the signal or the
// option. With Signals::ignore, only time does; signals then neither end the wait nor
// the process.
class InterruptSources
{
public:
    enum class Signals { raise, ignore };
    InterruptSources(Loop& loop, Interrupt& interrupt, double timeout_seconds = 0,
                     Error timeout_error = {}, Signals signals = Signals::raise);
    ~InterruptSources();
    InterruptSources(const InterruptSources&) = delete;
    InterruptSources& operator=(const InterruptSources&) = delete;

    // The signal that came, or 0.
    int signal() const;

private:
    struct State;
    State* state_; // freed by libuv's close callbacks, which outlive this object
};

} // namespace fluxdat::flux
