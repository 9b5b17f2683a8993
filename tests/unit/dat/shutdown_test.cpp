// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/clock.h"
#include "lib/dat/shutdown.h"
#include "tests/unit/dat/fake_dat.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

using namespace fluxdat;
using namespace fluxdat::dat;
using flux::Json;
using fluxdat::test::comes_true;
using fluxdat::test::FakeDat;

namespace {

constexpr double minute = 60;

// The anonymous queue of a DAT.
struct Queue {
    std::atomic<bool> open = true;
    std::atomic<int> failures = 0; // so many times it cannot be closed
    std::atomic<int> attempts = 0;
    std::atomic<bool> holds_second = false; // gives no answer to the second attempt

    void serve_in(FakeDat& fake)
    {
        fake.dat["job-manager.queue-list"] = [](auto& client, auto& request) {
            client.respond(request, "{}");
        };
        fake.dat["job-manager.queue-status"] = [this](auto& client, auto& request) {
            Json status{{"enable", open.load()}, {"start", open.load()}};
            if (!open)
                status["stop_reason"] = status["disable_reason"] = "this DAT is closed";
            client.respond_json(request, status);
        };
        fake.dat["job-manager.queue-start"] = [this](auto& client, auto& request) {
            attempts++;
            while (attempts == 2 && holds_second)
                std::this_thread::yield();
            if (failures > 0) {
                failures--;
                return client.respond_error(request, EIO, "no space left");
            }
            open = request.payload_text().find("\"start\":true") != std::string::npos;
            client.respond(request, "");
        };
        fake.dat["job-manager.queue-enable"] = [](auto& client, auto& request) {
            client.respond(request, "");
        };
    }
};

// A supervisor's part for the end of a window, of a DAT that began an hour ago and
// closes half an hour before its end.
struct Supervisor {
    flux::Loop loop;
    Links links{loop, false};
    Book book;
    Shutdown shutdown{links, book};

    Supervisor() : book(links, first())
    {
        book.on_list = [] {};
        book.on_expiration = [] {};
    }

    static Record first()
    {
        Record record;
        record.name = "demo";
        record.state = State::ready;
        record.window.options = {{}, 30 * minute, 0};
        return record;
    }

    flux::Task<bool> expires_in(double seconds)
    {
        auto taken = co_await book.take_up(wall_clock() + seconds);
        REQUIRE(taken);
        shutdown.replan();
        co_return true;
    }

    flux::Task<bool> begin(FakeDat& fake, double end)
    {
        bool connected = co_await fake.connect(links);
        REQUIRE(connected);
        links.size = 1; // who is told something is told on all ranks
        (void)co_await expires_in(end);
        shutdown.follow(wall_clock() - 60 * minute);
        co_return true;
    }

    flux::Task<bool> comes(std::function<bool()> condition)
    {
        bool came = co_await comes_true(loop, std::move(condition));
        CHECK(came);
        co_return came;
    }

    // All that it does ends.
    flux::Task<bool> finish()
    {
        links.end.raise({"the test is over"});
        links.dat->close();
        (void)co_await loop.sleep(0);
        co_return true;
    }
};

} // namespace

TEST_CASE("Closing that fails is not recorded, and is tried again")
{
    FakeDat fake;
    Queue queue;
    queue.serve_in(fake);
    queue.failures = 1;
    queue.holds_second = true;
    Supervisor self;
    auto flow = [&]() -> flux::Task<bool> {
        (void)co_await self.begin(fake, 20 * minute);
        (void)co_await self.comes([&] { return queue.attempts == 2; });
        CHECK(self.book.record().window.closed == 0);
        CHECK(self.book.record().state == State::ready);
        queue.holds_second = false;
        (void)co_await self.comes([&] { return self.book.record().window.closed > 0; });
        CHECK(self.book.record().state == State::stopping);
        CHECK(!queue.open);
        co_return co_await self.finish();
    };
    self.loop.run(flow());
}

TEST_CASE("An end that moves while its last move is being told is not lost")
{
    FakeDat fake;
    Queue queue;
    queue.serve_in(fake);
    std::atomic<bool> holds = false, held = false;
    std::atomic<int> answered = 0;
    fake.dat["job-list.list"] = [&](auto& client, auto& request) {
        held = holds.load();
        while (holds)
            std::this_thread::yield();
        client.respond_error(request, ENODATA);
        answered++;
    };
    Supervisor self;
    auto flow = [&]() -> flux::Task<bool> {
        (void)co_await self.begin(fake, 20 * minute);
        (void)co_await self.comes([&] { return answered == 1; });
        CHECK(self.book.record().window.closed > 0);
        holds = true;
        (void)co_await self.expires_in(19 * minute);
        (void)co_await self.comes([&] { return held.load(); });
        (void)co_await self.expires_in(120 * minute);
        holds = false;
        (void)co_await self.comes([&] { return queue.open.load(); });
        (void)co_await self.comes(
            [&] { return self.book.record().state == State::ready; });
        CHECK(self.book.record().window.closed == 0);
        co_return co_await self.finish();
    };
    self.loop.run(flow());
}

TEST_CASE("Queues that were closed and not recorded are opened by the next worker")
{
    FakeDat fake;
    Queue queue;
    queue.serve_in(fake);
    queue.open = false;
    Supervisor self;
    self.book.record().window.span.begin =
        wall_clock() - 60 * minute; // known to another
    auto flow = [&]() -> flux::Task<bool> {
        (void)co_await self.begin(fake, 120 * minute);
        (void)co_await self.comes([&] { return queue.open.load(); });
        CHECK(self.book.record().state == State::ready);
        co_return co_await self.finish();
    };
    self.loop.run(flow());
}
