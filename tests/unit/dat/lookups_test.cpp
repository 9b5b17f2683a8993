// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/lookups.h"
#include "tests/unit/dat/fake_dat.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::dat;
using fluxdat::test::comes_true;

namespace {

// A directory server that is away, until it is let go.
struct Away {
    std::mutex mutex;
    std::condition_variable changed;
    bool back = false;
    int asking = 0, done = 0;

    Account look_up(uid_t)
    {
        std::unique_lock lock(mutex);
        asking++;
        changed.wait(lock, [&] { return back; });
        done++;
        changed.notify_all();
        return {"alice", std::vector<gid_t>{7}};
    }
    void come_back()
    {
        std::unique_lock lock(mutex);
        back = true;
        changed.notify_all();
        changed.wait(lock, [&] { return done == asking; });
    }
};

} // namespace

TEST_CASE("This process's own account is looked up")
{
    flux::Loop loop;
    Lookups lookups(loop);
    auto account = loop.run(lookups.of(getuid()));
    REQUIRE(account.groups);
    CHECK(std::find(account.groups->begin(), account.groups->end(), getgid())
          != account.groups->end());
    auto nobody = loop.run(lookups.of(4242424));
    CHECK(nobody.name == "4242424");
    REQUIRE(nobody.groups);
    CHECK(nobody.groups->empty());
}

TEST_CASE("A name service that does not answer holds up nobody, and says nothing")
{
    auto away = std::make_shared<Away>(); // outlives what nobody waits for
    flux::Loop loop;
    Lookups lookups(
        loop, [away](uid_t uid) { return away->look_up(uid); }, 0.05);
    auto flow = [&]() -> flux::Task<bool> {
        // More than there are threads for.
        std::vector<flux::Task<Account>> all;
        for (uid_t uid = 1; uid <= 40; uid++)
            all.push_back(lookups.of(uid));
        auto told = co_await flux::when_all(std::move(all));
        for (uid_t uid = 1; uid <= 40; uid++) {
            CHECK(told[uid - 1].name == std::to_string(uid));
            CHECK_FALSE(told[uid - 1].groups);
        }
        away->come_back();
        Account last;
        for (int look = 0; look < 1000 && !last.groups;
             look++) // threads are free again
            last = co_await lookups.of(1);
        CHECK(last.name == "alice");
        co_return true;
    };
    loop.run(flow());
}

TEST_CASE("Who no longer waits goes on at once")
{
    auto away = std::make_shared<Away>();
    flux::Loop loop;
    Lookups lookups(
        loop, [away](uid_t uid) { return away->look_up(uid); }, 1000);
    flux::Interrupt end;
    end.raise({"the end"});
    CHECK_FALSE(loop.run(lookups.of(1, &end)).groups);
    away->come_back();
}
