// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/book.h"
#include "lib/dat/find.h"
#include "tests/unit/dat/fake_dat.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::dat;
using fluxdat::test::FakeBroker;
using fluxdat::test::FakeDat;

namespace {

Record first_record()
{
    Record record;
    record.name = "demo";
    record.guests = {1, false, {1001}, {}};
    return record;
}

Json event(const Json& memo)
{
    return {{"timestamp", 5.0}, {"name", "memo"}, {"context", memo}};
}

Change granting(uid_t user)
{
    Change change;
    change.key = new_change_key();
    change.by = getuid();
    change.grant.users = {user};
    return change;
}

// What a parent's thread has to do with; it outlives that.
struct Log {
    std::vector<std::string> log; // of the parent's thread, but before it is asked
    std::optional<flux::Message> watch;
    std::size_t told = 0; // of the log, to whom watches it
    std::atomic<bool> stuck = false;
    std::atomic<int> posted = 0;
    std::atomic<std::size_t> largest_change = 0;
};

// A parent that has the job's eventlog: what is posted comes back in it, once it is not
// stuck.
class Parent : public Log, public FakeDat
{
public:
    Parent()
    {
        parent["job-manager.memo"] = [this](auto& client, auto& request) {
            auto memo = (*flux::parse_json(request.payload_text()))["memo"];
            if (memo.contains(change_key))
                largest_change =
                    std::max(largest_change.load(), flux::dump_json(memo).size());
            log.push_back(flux::dump_json(event(memo)) + "\n");
            posted++;
            client.respond(request, "{}");
            tell_news(client);
        };
        parent["job-info.eventlog-watch"] = [this](auto& client, auto& request) {
            watch = request;
            tell_news(client);
        };
    }

private:
    void tell_news(FakeBroker::Client& client)
    {
        for (; watch && !stuck && told < log.size(); told++)
            client.respond_json(*watch, Json{{"event", log[told]}});
    }
};

struct Supervisor {
    flux::Loop loop;
    Links links;
    Book book;
    int lists = 0;

    explicit Supervisor(double event_time = event_time_max)
        : Supervisor(first_record(), event_time)
    {
    }
    explicit Supervisor(const Record& first, double event_time = event_time_max)
        : links{loop, !first.adoption.empty()}, book(links, first, event_time)
    {
        book.on_list = [this] { lists++; };
        book.on_expiration = [] {};
    }

    void run(Parent& parent, std::function<flux::Task<bool>()> test)
    {
        auto flow = [&]() -> flux::Task<bool> {
            bool connected = co_await parent.connect(links);
            REQUIRE(connected);
            auto taken = co_await book.take_up(0);
            REQUIRE(taken);
            loop.spawn([](Book& the_book) -> flux::Task<void> {
                (void)co_await the_book.follow();
            }(book));
            bool good = co_await test();
            links.end.raise({"the test is over"});
            book.close();
            (void)co_await loop.sleep(0);
            co_return good;
        };
        CHECK(loop.run(flow()));
    }
};

} // namespace

TEST_CASE("What a change would not do is not posted")
{
    Parent parent;
    parent.log = {flux::dump_json(event({{"dat", to_json(first_record())}})) + "\n"};
    parent.parent["job-info.lookup"] = [&](auto& client, auto& request) {
        client.respond_json(request, Json{{"eventlog", parent.log.front()}});
    };
    Supervisor self;
    self.run(parent, [&]() -> flux::Task<bool> {
        Change change = granting(1002);
        change.revoke.users.resize(perms::guests_max);
        std::iota(change.revoke.users.begin(), change.revoke.users.end(), 5000);
        auto made = co_await self.book.change(change);
        REQUIRE(made);
        CHECK(made->generation == 2);
        CHECK(made->effect.granted.users == std::vector<uid_t>{1002});
        CHECK(parent.largest_change > 0);
        CHECK(parent.largest_change < 1024);
        CHECK(self.book.history().back()["granted"]["users"] == Json::array({1002}));
        int before = parent.posted;
        made = co_await self.book.change(granting(1002)); // so already
        REQUIRE(made);
        CHECK(made->effect.none());
        CHECK(parent.posted == before);
        co_return true;
    });
}

TEST_CASE("An adoption that is given up leaves no record, whenever ours was posted")
{
    Record first = first_record();
    first.adoption = "once";
    const Json given_up = event({{"dat", nullptr}, {change_key, nullptr}});
    Parent parent;
    parent.log = {flux::dump_json(event({{"dat", to_json(first)}})) + "\n"};
    parent.parent["job-info.lookup"] = [&](auto& client, auto& request) {
        client.respond_json(request, Json{{"eventlog", parent.log.front()}});
    };
    bool ours_is_late = GENERATE(false, true);
    std::atomic<int> removed = 0;
    auto take = parent.parent["job-manager.memo"];
    parent.parent["job-manager.memo"] = [&](auto& client, auto& request) {
        auto memo = (*flux::parse_json(request.payload_text()))["memo"];
        removed += memo.contains("dat") && memo["dat"].is_null();
        if (ours_is_late && parent.posted == 0)
            parent.log.push_back(flux::dump_json(given_up) + "\n");
        take(client, request);
        if (!ours_is_late && parent.posted == 1)
            parent.log.push_back(flux::dump_json(given_up) + "\n");
    };
    Supervisor self(first);
    self.run(parent, [&]() -> flux::Task<bool> {
        auto posted = co_await self.book.announce();
        REQUIRE(posted);
        if (!ours_is_late) { // somebody's memo, so that the parent tells its news
            Json note{{"note", "x"}};
            auto other = co_await flux::memo(*self.links.parent, 1, std::move(note));
            REQUIRE(other);
        }
        bool ended = co_await test::comes_true(
            self.loop, [&] { return self.links.end.reason().has_value(); });
        CHECK(ended);
        CHECK(removed == ours_is_late);
        co_return true;
    });
}

TEST_CASE("Who is granted by a change that comes too late is revoked by the next one")
{
    Parent parent;
    Supervisor self(0.05);
    self.run(parent, [&]() -> flux::Task<bool> {
        parent.stuck = true;
        auto made = co_await self.book.change(granting(1002));
        REQUIRE(!made);
        CHECK(made.error().message
              == "the change was posted, and is not to be found in the eventlog of the "
                 "DAT's job");
        CHECK(self.book.desired().guests().users == std::vector<uid_t>{1001});
        int before = parent.posted;
        parent.stuck = false; // both events come, once the second is posted
        Change revoking;
        revoking.key = new_change_key();
        revoking.by = getuid();
        revoking.revoke.users = {1002};
        (void)co_await self.book.change(revoking); // in time or not
        CHECK(parent.posted == before + 1);
        bool both = co_await test::comes_true(
            self.loop, [&] { return self.book.desired().guests().generation == 3; });
        CHECK(both);
        CHECK(self.book.desired().guests().users == std::vector<uid_t>{1001});
        // Nothing is to come any more.
        revoking.key = new_change_key();
        made = co_await self.book.change(revoking);
        REQUIRE(made);
        CHECK(parent.posted == before + 1);
        co_return true;
    });
}

TEST_CASE("An eventlog that is too large for one answer is read event by event")
{
    Parent parent;
    parent.parent["job-info.lookup"] = [](auto& client, auto& request) {
        client.respond_error(request, EMSGSIZE);
    };
    parent.log = {flux::dump_json(event({{change_key, to_json(granting(1002))}}))
                      + "\n",
                  "{\"timestamp\":6,\"name\":\"resource-update\",\"context\":"
                  "{\"expiration\":77.0}}\n"};
    Supervisor self;
    self.run(parent, [&]() -> flux::Task<bool> {
        CHECK(self.book.desired().guests().users == std::vector<uid_t>{1001, 1002});
        CHECK(self.book.expiration() == 77);
        CHECK(self.book.eventlog_size() > 100);
        auto before = self.book.list_at(4);
        REQUIRE(before);
        CHECK(before->guests().users == std::vector<uid_t>{1001});
        co_return true;
    });
}

TEST_CASE("An event that is none does not end following the others")
{
    Parent parent;
    parent.log = {"nonsense\n"};
    Supervisor self;
    self.run(parent, [&]() -> flux::Task<bool> {
        auto made = co_await self.book.change(granting(1003));
        REQUIRE(made);
        CHECK(made->effect.granted.users == std::vector<uid_t>{1003});
        co_return self.lists == 2;
    });
}
