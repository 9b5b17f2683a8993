// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/task.h and lib/flux/loop.h. Nothing here measures time: the sleeps that are
// interrupted are longer than any test may take.
#include "lib/flux/loop.h"
#include "lib/flux/task.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <memory>
#include <string>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;

namespace {

constexpr double for_ever = 1e6; // seconds

Task<int> constant(int value)
{
    co_return value;
}

Task<int> sum(int a, int b)
{
    int first = co_await constant(a);
    int second = co_await constant(b);
    co_return first + second;
}

} // namespace

TEST_CASE("task: awaits tasks and gives their values", "[task]")
{
    Loop loop;
    CHECK(loop.run(sum(2, 3)) == 5);
    CHECK(loop.run(constant(7)) == 7); // a loop runs any number of tasks
}

TEST_CASE("task: is lazy", "[task]")
{
    Loop loop;
    bool started = false;
    auto start = [](bool& flag) -> Task<int> {
        flag = true;
        co_return 1;
    };
    {
        auto never_awaited = start(started);
        CHECK_FALSE(started);
    }
    CHECK_FALSE(started);
    auto awaited = start(started);
    loop.run(std::move(awaited));
    CHECK(started);
}

TEST_CASE("task: values that can only be moved", "[task]")
{
    Loop loop;
    auto make = []() -> Task<std::unique_ptr<int>> {
        co_return std::make_unique<int>(4);
    };
    auto twice = [](auto maker) -> Task<Result<std::unique_ptr<int>>> {
        auto value = co_await maker();
        *value *= 2;
        co_return std::move(value);
    };
    CHECK(**loop.run(twice(make)) == 8);
}

TEST_CASE("task: what it holds is freed at its end, and when it is dropped", "[task]")
{
    Loop loop;
    auto token = std::make_shared<int>(1);
    auto hold = [](std::shared_ptr<int> held) -> Task<int> { co_return *held; };
    loop.run(hold(token));
    CHECK(token.use_count() == 1);
    {
        auto dropped = hold(token);
        CHECK(token.use_count() == 2);
    }
    CHECK(token.use_count() == 1);
}

TEST_CASE("task: a waiter may be woken before it waits", "[task]")
{
    Loop loop;
    Waiter waiter;
    auto wait = [](Waiter& what) -> Task<int> {
        co_await what;
        co_return 1;
    };
    waiter.wake();
    CHECK(loop.run(wait(waiter)) == 1);
    // Once: the next wait needs a wake of its own.
    auto wake_later = [](Loop& in, Waiter& what) -> Task<void> {
        co_await in.sleep(0);
        what.wake();
    };
    loop.spawn(wake_later(loop, waiter));
    CHECK(loop.run(wait(waiter)) == 1);
}

TEST_CASE("task: when_all runs side by side and keeps the order", "[task]")
{
    Loop loop;
    std::string trace;
    auto step = [](Loop& in, std::string& out, char name, int turns) -> Task<char> {
        out.push_back(name);
        for (int i = 0; i < turns; i++)
            co_await in.sleep(0);
        out.push_back(static_cast<char>(name - 'a' + 'A'));
        co_return name;
    };
    std::vector<Task<char>> tasks;
    tasks.push_back(step(loop, trace, 'a', 6));
    tasks.push_back(step(loop, trace, 'b', 0));
    tasks.push_back(step(loop, trace, 'c', 2));
    auto results = loop.run(when_all(std::move(tasks)));
    CHECK(results == std::vector<char>{'a', 'b', 'c'});
    CHECK(trace == "abBcCA");
}

TEST_CASE("task: when_all of none, and of tasks that are done at once", "[task]")
{
    Loop loop;
    CHECK(loop.run(when_all(std::vector<Task<int>>{})).empty());
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 100; i++)
        tasks.push_back(constant(i));
    auto results = loop.run(when_all(std::move(tasks)));
    REQUIRE(results.size() == 100);
    CHECK(results[99] == 99);
}

TEST_CASE("task: many awaits in a row do not fill the stack", "[task]")
{
    Loop loop;
    auto count = [](Loop& in) -> Task<int> {
        int total = 0;
        for (int i = 0; i < 20000; i++) {
            total += co_await constant(1);
            if (i % 1000 == 0)
                co_await in.sleep(0);
        }
        co_return total;
    };
    CHECK(loop.run(count(loop)) == 20000);
}

TEST_CASE("loop: a spawned task goes on beside the one that is run", "[loop]")
{
    Loop loop;
    int turns = 0;
    bool stop = false;
    auto spin = [](Loop& in, int& count, bool& end) -> Task<void> {
        while (!end) {
            count++;
            co_await in.sleep(0);
        }
    };
    auto watch = [](Loop& in, int& count, bool& end) -> Task<int> {
        while (count < 5)
            co_await in.sleep(0);
        end = true;
        co_await in.sleep(0.001);
        co_return count;
    };
    loop.spawn(spin(loop, turns, stop));
    CHECK(turns == 1); // up to its first wait at once
    CHECK(loop.run(watch(loop, turns, stop)) >= 5);
}

TEST_CASE("loop: sleeps", "[loop]")
{
    Loop loop;
    for (double seconds : {0.0, -1.0, 0.001, std::nan("")})
        CHECK(loop.run(loop.sleep(seconds)).has_value());
}

TEST_CASE("loop: a sleep is interrupted", "[loop]")
{
    Loop loop;
    Interrupt interrupt;
    auto raise_later = [](Loop& in, Interrupt& what) -> Task<void> {
        co_await in.sleep(0);
        what.raise(Error{"enough", EINTR});
    };
    loop.spawn(raise_later(loop, interrupt));
    auto result = loop.run(loop.sleep(for_ever, &interrupt));
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().message == "enough");
    CHECK(result.error().errnum == EINTR);

    // Once raised, it holds for what begins later.
    CHECK(loop.run(loop.sleep(INFINITY, &interrupt)).error().message == "enough");
    interrupt.clear();
    CHECK(loop.run(loop.sleep(0, &interrupt)).has_value());
}

TEST_CASE("loop: one interrupt ends many waits, with the first reason", "[loop]")
{
    Loop loop;
    Interrupt interrupt;
    auto raise_later = [](Loop& in, Interrupt& what) -> Task<Result<>> {
        co_await in.sleep(0);
        what.raise(Error{"first"});
        what.raise(Error{"second"});
        co_return Result<>{};
    };
    // Waits again as soon as it was interrupted, while the others are being told.
    auto wait_twice = [](Loop& in, Interrupt& what) -> Task<Result<>> {
        (void)co_await in.sleep(for_ever, &what);
        co_return co_await in.sleep(for_ever, &what);
    };
    std::vector<Task<Result<>>> tasks;
    tasks.push_back(raise_later(loop, interrupt));
    for (int i = 0; i < 10; i++) {
        tasks.push_back(loop.sleep(for_ever, &interrupt));
        tasks.push_back(wait_twice(loop, interrupt));
    }
    auto results = loop.run(when_all(std::move(tasks)));
    for (std::size_t i = 1; i < results.size(); i++)
        CHECK(results[i].error().message == "first");
}

TEST_CASE("loop: a scope that another one's callback ends is not called", "[loop]")
{
    Interrupt interrupt;
    std::string called;
    std::optional<InterruptScope> second;
    InterruptScope first(&interrupt, [&] {
        called += "first ";
        second.reset();
    });
    second.emplace(&interrupt, [&] { called += "second "; });
    InterruptScope third(&interrupt, [&] { called += "third "; });
    interrupt.raise(Error{"x"});
    CHECK(called == "first third ");
    InterruptScope none(nullptr, [] {});
}

TEST_CASE("loop: signals interrupt, and are named", "[loop]")
{
    Loop loop;
    for (auto [signum, name] :
         {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}) {
        Interrupt interrupt;
        InterruptSources sources(loop, interrupt);
        CHECK(sources.signal() == 0);
        raise(signum);
        auto result = loop.run(loop.sleep(for_ever, &interrupt));
        REQUIRE_FALSE(result.has_value());
        CHECK(result.error().message == "interrupted by " + std::string(name));
        CHECK(result.error().errnum == EINTR);
        CHECK(sources.signal() == signum);
    }
}

TEST_CASE("loop: a timeout interrupts with its own error", "[loop]")
{
    Loop loop;
    Interrupt interrupt;
    InterruptSources sources(loop, interrupt, 0.001,
                             Error{"not ready in time", ETIMEDOUT, Exit::not_ready});
    auto result = loop.run(loop.sleep(for_ever, &interrupt));
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().message == "not ready in time");
    CHECK(result.error().exit == Exit::not_ready);
    CHECK(sources.signal() == 0);
}

TEST_CASE("loop: closes its handles even if it never ran", "[loop]")
{
    // What is left open here is a leak to the address sanitizer.
    Loop loop;
    Interrupt interrupt;
    loop.run(constant(1));
    InterruptSources sources(loop, interrupt, for_ever);
}
