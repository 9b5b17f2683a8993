// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/evict.h"
#include "tests/unit/flux/fake_broker.h"

#include <catch2/catch.hpp>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::dat;
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
        Evictor evictor(loop, **dat, "demo");
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
