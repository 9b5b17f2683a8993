// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A call that cannot be interrupted and may take minutes, as those of a name service
// (nsswitch.conf(5)) may whose server is away: made in a thread of its own, and waited
// for some seconds. For a process without an event loop; with one, lib/dat/lookups.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace fluxdat {

// Calls at a time, those among them that nobody waits for any more. Each is a thread,
// and these count against the limit of the job, or of the cgroup, that this process is
// in.
constexpr int calls_in_time_max = 16;
inline std::atomic<int> calls_in_time = 0;

// What `function` gives, or nothing where that takes longer; then the thread goes on
// alone, and `function` must not refer to what does not outlive it. Nothing, and it is
// not called, where too many such threads are there.
template <class Function>
auto in_time(std::chrono::duration<double> limit, Function function)
    -> std::optional<std::invoke_result_t<Function>>
{
    struct Shared {
        std::mutex mutex;
        std::condition_variable done;
        std::optional<std::invoke_result_t<Function>> result;
    };
    auto shared = std::make_shared<Shared>();
    if (calls_in_time++ >= calls_in_time_max) {
        calls_in_time--;
        return {};
    }
    try {
        std::thread([shared, function = std::move(function)]() mutable {
            auto result = function();
            calls_in_time--;
            std::lock_guard lock(shared->mutex);
            shared->result = std::move(result);
            shared->done.notify_one();
        }).detach();
    } catch (const std::system_error&) {
        calls_in_time--;
        return {};
    }
    std::unique_lock lock(shared->mutex);
    shared->done.wait_for(lock, limit, [&] { return shared->result.has_value(); });
    return shared->result;
}

// So much time for several such calls together.
class TimeLeft
{
public:
    explicit TimeLeft(double seconds) : end_(now() + Span(seconds)) {}
    template <class Function>
    auto call(Function function)
    {
        auto left = std::max(Span(0), end_ - now());
        using Result = decltype(in_time(left, std::move(function)));
        return left > Span(0) ? in_time(left, std::move(function)) : Result{};
    }

private:
    using Span = std::chrono::duration<double>;
    static std::chrono::time_point<std::chrono::steady_clock, Span> now()
    {
        return std::chrono::steady_clock::now();
    }
    std::chrono::time_point<std::chrono::steady_clock, Span> end_;
};

} // namespace fluxdat
