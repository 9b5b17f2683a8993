// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/requests.h"
#include "tests/unit/dat/fake_dat.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::dat;
using fluxdat::test::comes_true;
using fluxdat::test::FakeDat;

namespace {

// The answer of a supervisor to its owner.
flux::Message answer_to(FakeDat& fake, const char* topic)
{
    flux::Loop loop;
    Links links(loop, false);
    Record record;
    record.name = "demo";
    Book book(links, record);
    Shutdown shutdown(links, book);
    Requests requests(links, book, shutdown);
    book.on_list = [] {};
    auto flow = [&]() -> flux::Task<bool> {
        bool connected = co_await fake.connect(links);
        REQUIRE(connected);
        auto taken = co_await book.take_up(0);
        REQUIRE(taken);
        auto request = flux::make_request(topic, "{}");
        request.rolemask = flux::role_owner;
        requests.handle(request);
        co_return co_await comes_true(loop, [&] { return !fake.responses().empty(); });
    };
    REQUIRE(loop.run(flow()));
    return fake.responses().front();
}

} // namespace

TEST_CASE(
    "Where jobs cannot be counted, that is the answer, and not that there are none")
{
    FakeDat fake;
    fake.dat["job-list.job-stats"] = [](auto& client, auto& request) {
        client.respond_error(request, EIO, "job-list is out of order");
    };
    auto answer = answer_to(fake, "x.jobs");
    CHECK(answer.errnum() == EIO);
    CHECK(answer.payload_text() == "job-list is out of order");
}

TEST_CASE("A status of what has a strange configuration")
{
    for (auto* config : {R"({"exec":{"imp":5}})", R"({"exec":5})", "{}"}) {
        INFO(config);
        FakeDat fake;
        fake.dat["config.get"] = [&](auto& client, auto& request) {
            client.respond(request, config);
        };
        auto answer = answer_to(fake, "x.status");
        REQUIRE(answer.errnum() == 0);
        auto status = flux::parse_json(answer.payload_text());
        REQUIRE(status);
        CHECK((*status)["imp"] == nullptr);
        CHECK(!status->contains("jobs"));
        CHECK((*status)["ranks"].empty());
    }
}
