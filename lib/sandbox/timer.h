// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Owners of libuv handles. libuv lets go of a handle only in a later turn of the loop:
// these close it when they are destroyed, and free its memory when libuv is done.
#pragma once

#include "lib/clock.h"

#include <cstdint>
#include <functional>
#include <uv.h>

namespace fluxdat::sandbox {

// Frees a handle (allocated with new) once libuv has closed it.
template <class T>
struct HandleDeleter {
    void operator()(T* handle) const
    {
        handle->data = nullptr;
        uv_close(reinterpret_cast<uv_handle_t*>(handle),
                 [](uv_handle_t* closed) { delete reinterpret_cast<T*>(closed); });
    }
};

// Calls back once, after a time or at a time; again only if started again. Starting a
// running timer replaces what it was waiting for.
class Timer
{
public:
    explicit Timer(uv_loop_t* loop);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    void start_in(double seconds, std::function<void()> callback);
    // At a time of the wall clock (lib/clock.h), seconds since the epoch. The clock may
    // be set meanwhile, so the time is checked when the timer fires.
    void start_at(double time, std::function<void()> callback);
    void stop();

private:
    void arm(double seconds);
    void fire();

    uv_timer_t* uv_;
    std::function<void()> callback_;
    double due_ = 0; // wall clock, or 0
};

} // namespace fluxdat::sandbox
