// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Coroutines for flows over the network. A function that awaits RPCs returns Task<T>
// and reads top to bottom:
//
//     Task<Result<std::string>> size(Connection& flux)
//     {
//         auto answer = co_await flux.rpc("attr.get", {{"name", "size"}});
//         ...
//     }
//
// A Task is lazy: it runs when it is awaited, when Loop::run() drives it, or when
// Loop::spawn() detaches it. Everything happens in the one thread of the loop.
// Exceptions are not used for errors here; one that escapes a task (std::bad_alloc)
// ends the program.
//
// GCC 12 miscompiles braced initializers inside a co_await expression ("array used as
// initializer", or worse): name the payload first, then await.
//
// Rejected: callbacks, since a start takes some ten RPCs with decisions in between; and
// C++20 coroutines over std::future, since there is one thread.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace fluxdat::flux {

template <class T = void>
class [[nodiscard]] Task;

namespace detail {

struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<>
    await_suspend(std::coroutine_handle<Promise> finished) noexcept
    {
        auto continuation = finished.promise().continuation;
        return continuation ? continuation : std::noop_coroutine();
    }
    void await_resume() noexcept {}
};

struct PromiseBase {
    std::coroutine_handle<> continuation;
    std::suspend_always initial_suspend() noexcept { return {}; }
    FinalAwaiter final_suspend() noexcept { return {}; }
    void unhandled_exception() noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
    std::optional<T> value;
    Task<T> get_return_object();
    template <class U>
    void return_value(U&& result)
    {
        value.emplace(std::forward<U>(result));
    }
    T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
    Task<void> get_return_object();
    void return_void() {}
    void take() {}
};

} // namespace detail

template <class T>
class [[nodiscard]] Task
{
public:
    using promise_type = detail::Promise<T>;
    using Handle = std::coroutine_handle<promise_type>;

    explicit Task(Handle handle) : handle_(handle) {}
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
    Task& operator=(Task&& other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task()
    {
        if (handle_)
            handle_.destroy();
    }

    bool await_ready() const noexcept { return handle_.done(); }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller)
    {
        handle_.promise().continuation = caller;
        return handle_;
    }
    T await_resume() { return handle_.promise().take(); }

private:
    Handle handle_;
};

namespace detail {

template <class T>
Task<T> Promise<T>::get_return_object()
{
    return Task<T>(Task<T>::Handle::from_promise(*this));
}

inline Task<void> Promise<void>::get_return_object()
{
    return Task<void>(Task<void>::Handle::from_promise(*this));
}

// A coroutine that nobody awaits: starts at once, frees itself at its end.
struct Detached {
    struct promise_type {
        Detached get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

} // namespace detail

// One waiting coroutine and how it is woken. wake() may come before wait(), or never.
class Waiter
{
public:
    bool await_ready() const noexcept { return woken_; }
    void await_suspend(std::coroutine_handle<> handle) { waiting_ = handle; }
    void await_resume() { woken_ = false; }

    void wake()
    {
        if (auto handle = std::exchange(waiting_, {}))
            handle.resume();
        else
            woken_ = true;
    }

private:
    std::coroutine_handle<> waiting_;
    bool woken_ = false;
};

// Runs all tasks side by side and gives their results in the same order.
template <class T>
Task<std::vector<T>> when_all(std::vector<Task<T>> tasks)
{
    std::vector<std::optional<T>> results(tasks.size());
    std::size_t running = tasks.size();
    Waiter done;
    auto drive = [](Task<T> task, std::optional<T>& result, std::size_t& left,
                    Waiter& waiter) -> detail::Detached {
        result.emplace(co_await std::move(task));
        if (--left == 0)
            waiter.wake();
    };
    for (std::size_t i = 0; i < tasks.size(); i++)
        drive(std::move(tasks[i]), results[i], running, done);
    if (!results.empty())
        co_await done;
    std::vector<T> out;
    out.reserve(results.size());
    for (auto& result : results)
        out.push_back(std::move(*result));
    co_return out;
}

} // namespace fluxdat::flux
