// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/evict.h"
#include "tests/unit/dat/fake_dat.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <future>
#include <thread>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::dat;
using fluxdat::test::comes_true;
using fluxdat::test::FakeBroker;

namespace {

constexpr uid_t revoked = 4242;

Desired nobody_but_the_owner()
{
    Record record;
    record.guests = *perms::make_guest_list(1, false, {}, {}, getuid());
    return {record, getuid(), 0};
}

// The job that an Evictor cancels first, where only the owner may be: of `revoked`.
flux::JobId first_cancelled(FakeBroker& broker)
{
    flux::Loop loop;
    flux::JobId cancelled = 0;
    auto flow = [&]() -> flux::Task<Result<>> {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        Lookups lookups(loop, [](uid_t) { return Account{}; });
        Evictor evictor(loop, **dat, lookups, "demo");
        flux::Interrupt end;
        evictor.on_cancel = [&](flux::JobId id, uid_t user) {
            CHECK(user == revoked);
            cancelled = id;
            end.raise({"seen"});
            (*dat)->close();
        };
        evictor.judge(nobody_but_the_owner());
        co_await evictor.follow(end);
        co_return Result<>{};
    };
    REQUIRE(loop.run(flow()));
    return cancelled;
}

} // namespace

TEST_CASE("Of a job that cannot be read, the others are still cancelled")
{
    auto broker = FakeBroker::answering([&](auto& client, const auto& request) {
        if (*request.topic != "job-manager.events-journal")
            return client.respond(request, "{}");
        // More routes than a message can have: it is framed well, and no more.
        auto odd = flux::make_response(request, "{}");
        odd.routes.assign(flux::route_count_max + 100, "r");
        client.send(flux::encode(odd));
        client.respond(request, "[]");
        client.respond_json(
            request,
            Json{{"id", 7},
                 {"events", Json::array({{{"name", "submit"},
                                          {"timestamp", 1.0},
                                          {"context", {{"userid", revoked}}}}})}});
    });
    CHECK(first_cancelled(broker) == 7);
}

namespace {

Json submitted(flux::JobId id, uid_t user = revoked)
{
    return {{"id", id},
            {"events", Json::array({{{"name", "submit"},
                                     {"timestamp", 1.0},
                                     {"context", {{"userid", user}}}}})}};
}

Desired a_group_only(gid_t group)
{
    Record record;
    record.guests = *perms::make_guest_list(1, false, {}, {group}, getuid());
    return {record, getuid(), 0};
}

} // namespace

TEST_CASE("Who is let in by a group is looked up, and stays where that cannot be told")
{
    std::mutex mutex;
    std::string cancelled;
    auto broker = FakeBroker::answering([&](auto& client, const auto& request) {
        if (*request.topic == "job-manager.events-journal")
            return client.respond_json(request, submitted(7));
        std::lock_guard lock(mutex);
        cancelled += request.payload_text();
        client.respond(request, "{}");
    });
    flux::Loop loop;
    std::atomic<int> looked_up = 0;
    std::atomic<bool> tells = false;
    auto flow = [&]() -> flux::Task<bool> {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        Lookups lookups(loop, [&](uid_t user) {
            CHECK(user == revoked);
            bool told = tells;
            looked_up++;
            return told ? Account{"x", std::vector<gid_t>{8}} : Account{};
        });
        Evictor evictor(loop, **dat, lookups, "demo");
        flux::Interrupt end;
        evictor.on_cancel = [&](flux::JobId, uid_t) { end.raise({"seen"}); };
        evictor.judge(a_group_only(7));
        loop.spawn(evictor.follow(end));
        bool asked = co_await comes_true(loop, [&] { return looked_up == 1; });
        CHECK(asked);
        evictor.judge(a_group_only(8)); // a member, if it could be told
        asked = co_await comes_true(loop, [&] { return looked_up == 2; });
        CHECK(asked);
        tells = true;
        evictor.judge(a_group_only(8));
        asked = co_await comes_true(loop, [&] { return looked_up == 3; });
        CHECK(asked);
        CHECK_FALSE(end.reason());
        evictor.judge(a_group_only(7));
        bool ended =
            co_await comes_true(loop, [&] { return end.reason().has_value(); });
        CHECK(ended);
        (*dat)->close();
        (void)co_await loop.sleep(0);
        co_return true;
    };
    loop.run(flow());
    std::lock_guard lock(mutex);
    CHECK(cancelled.find("user 4242 is not on the guest list") != std::string::npos);
}

TEST_CASE("Whose groups could not be told is looked up again")
{
    auto broker = FakeBroker::answering([](auto& client, const auto& request) {
        if (*request.topic == "job-manager.events-journal")
            return client.respond_json(request, submitted(7));
        client.respond(request, "{}");
    });
    flux::Loop loop;
    std::atomic<int> looked_up = 0;
    auto flow = [&]() -> flux::Task<bool> {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        Lookups lookups(loop, [&](uid_t) {
            return looked_up++ == 0 ? Account{} : Account{"x", std::vector<gid_t>{8}};
        });
        Evictor evictor(loop, **dat, lookups, "demo", 0.01);
        flux::Interrupt end;
        bool cancelled = false;
        evictor.on_cancel = [&](flux::JobId, uid_t) { cancelled = true; };
        evictor.judge(a_group_only(7));
        loop.spawn(evictor.follow(end));
        bool seen = co_await comes_true(loop, [&] { return cancelled; });
        CHECK(seen);
        CHECK(looked_up == 2);
        end.raise({"the test is over"});
        (*dat)->close();
        (void)co_await loop.sleep(0);
        co_return true;
    };
    loop.run(flow());
}

TEST_CASE("Who has jobs without end does not keep others from being looked up")
{
    constexpr uid_t busy = 1001;
    auto broker = FakeBroker::answering([](auto& client, const auto& request) {
        if (*request.topic == "job-manager.events-journal") {
            for (flux::JobId id = 1; id <= 4; id++)
                client.respond_json(request, submitted(id, busy));
            return client.respond_json(request, submitted(5));
        }
        client.respond(request, "{}");
    });
    struct {
        std::mutex mutex;
        std::condition_variable change;
        std::vector<uid_t> asked;
        int may_answer = 0;
    } service; // which outlives the threads
    auto asked = [&] {
        std::lock_guard lock(service.mutex);
        return service.asked;
    };
    auto answers = [&](int more) {
        std::lock_guard lock(service.mutex);
        service.may_answer += more;
        service.change.notify_all();
    };
    flux::Loop loop;
    auto flow = [&]() -> flux::Task<bool> {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        Lookups lookups(
            loop,
            [&](uid_t user) {
                std::unique_lock lock(service.mutex);
                service.asked.push_back(user);
                service.change.wait(lock, [&] { return service.may_answer > 0; });
                service.may_answer--;
                return Account{"x", std::vector<gid_t>{7}};
            },
            600);
        Evictor evictor(loop, **dat, lookups, "demo");
        flux::Interrupt end;
        evictor.judge(a_group_only(7));
        loop.spawn(evictor.follow(end));
        // As many as there may be at a time, and then all jobs are there.
        bool four = co_await comes_true(loop, [&] { return asked().size() == 4; });
        CHECK(four);
        Json nothing = Json::object();
        (void)co_await (*dat)->rpc("ping", std::move(nothing));
        (void)co_await loop.sleep(0);
        CHECK(asked() == std::vector<uid_t>(4, busy));
        evictor.judge(a_group_only(7)); // all jobs hang on groups anew
        answers(1);
        bool fifth = co_await comes_true(loop, [&] { return asked().size() == 5; });
        CHECK(fifth);
        CHECK(asked().back() == revoked);
        answers(100);
        bool sixth = co_await comes_true(loop, [&] { return asked().size() == 6; });
        CHECK(sixth);
        bool all = co_await comes_true(loop, [&] { // and no thread waits any more
            std::lock_guard lock(service.mutex);
            return service.may_answer + static_cast<int>(service.asked.size()) == 101;
        });
        CHECK(all);
        end.raise({"the test is over"});
        (*dat)->close();
        (void)co_await loop.sleep(0);
        co_return true;
    };
    loop.run(flow());
}

// LeakSanitizer tells what is left of it.
TEST_CASE("At its end an evictor waits for no lookup")
{
    auto broker = FakeBroker::answering([](auto& client, const auto& request) {
        client.respond_json(request, submitted(7));
    });
    auto hangs = std::make_shared<std::promise<void>>();
    std::atomic<bool> asked = false, answered = false;
    {
        flux::Loop loop;
        auto flow = [&]() -> flux::Task<bool> {
            auto dat = co_await flux::Connection::open(loop, broker.uri());
            REQUIRE(dat);
            Lookups lookups(loop, [&](uid_t) {
                asked = true;
                hangs->get_future().wait();
                answered = true;
                return Account{};
            });
            Evictor evictor(loop, **dat, lookups, "demo");
            flux::Interrupt end;
            evictor.judge(a_group_only(7));
            loop.spawn(evictor.follow(end));
            bool hanging = co_await comes_true(loop, [&] { return asked.load(); });
            CHECK(hanging);
            end.raise({"the end"});
            (*dat)->close();
            (void)co_await loop.sleep(0);
            co_return true;
        };
        loop.run(flow());
    }
    hangs->set_value();
    while (!answered)
        std::this_thread::yield();
}

TEST_CASE("That the jobs cannot be followed is told until they are")
{
    std::atomic<int> journals = 0;
    auto broker = FakeBroker::answering([&](auto& client, const auto& request) {
        if (*request.topic != "job-manager.events-journal")
            return client.respond(request, "{}");
        if (journals++ == 0)
            return client.respond_error(request, EIO, "out of order");
        client.respond_json(request, submitted(7));
    });
    flux::Loop loop;
    auto flow = [&]() -> flux::Task<bool> {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        Lookups lookups(loop, [](uid_t) { return Account{}; });
        Evictor evictor(loop, **dat, lookups, "demo");
        flux::Interrupt end;
        loop.spawn(evictor.follow(end));
        bool told = co_await comes_true(
            loop, [&] { return evictor.fault() == "out of order"; });
        CHECK(told);
        bool over = co_await comes_true(loop, [&] { return evictor.fault().empty(); });
        CHECK(over);
        CHECK(journals == 2);
        end.raise({"the test is over"});
        (*dat)->close();
        (void)co_await loop.sleep(0);
        co_return true;
    };
    loop.run(flow());
}

TEST_CASE("A journal that ends is followed again, with what was there")
{
    int journals = 0;
    auto broker = FakeBroker::answering([&](auto& client, const auto& request) {
        if (*request.topic != "job-manager.events-journal")
            return client.respond(request, "{}");
        if (journals++ == 0)
            return client.respond_error(request, ENOSYS);
        client.respond_json(
            request,
            Json{{"id", 8},
                 {"events", Json::array({{{"name", "submit"},
                                          {"timestamp", 1.0},
                                          {"context", {{"userid", revoked}}}}})}});
    });
    CHECK(first_cancelled(broker) == 8);
    CHECK(journals == 2);
}
