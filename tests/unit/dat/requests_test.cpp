// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/requests.h"
#include "tests/unit/dat/fake_dat.h"

#include <catch2/catch.hpp>
#include <thread>

using namespace fluxdat;
using namespace fluxdat::dat;
using fluxdat::test::comes_true;
using fluxdat::test::FakeDat;

namespace {

constexpr uid_t manager = 4242, stranger = 4243;

// The first answer of a supervisor, which cannot tell the groups of anybody, to that
// many of these requests at once.
flux::Message answer_to(FakeDat& fake, const char* topic,
                        std::uint32_t userid = flux::userid_unknown,
                        std::string_view payload = "{}", Record record = {},
                        int times = 1)
{
    flux::Loop loop;
    Links links(loop, false);
    record.name = "demo";
    record.managers = {manager};
    Book book(links, record);
    Shutdown shutdown(links, book);
    Lookups lookups(loop, [](uid_t) { return Account{"somebody", {}}; });
    Requests requests(links, book, shutdown, lookups);
    requests.evictor_fault = [] { return "the journal ended"; };
    book.on_list = [] {};
    auto flow = [&]() -> flux::Task<bool> {
        bool connected = co_await fake.connect(links);
        REQUIRE(connected);
        auto taken = co_await book.take_up(0);
        REQUIRE(taken);
        auto request = flux::make_request(topic, payload);
        request.userid = userid;
        request.rolemask =
            userid == flux::userid_unknown ? flux::role_owner : flux::role_user;
        for (int i = 0; i < times; i++)
            requests.handle(request);
        bool answered =
            co_await comes_true(loop, [&] { return !fake.responses().empty(); });
        links.end.raise({"the test is over"});
        book.close();
        (void)co_await loop.sleep(0);
        co_return answered;
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
        CHECK((*status)["evictor_fault"] == "the journal ended");
        CHECK((*status)["imp"] == nullptr);
        CHECK(!status->contains("jobs"));
        CHECK((*status)["ranks"].empty());
    }
}

TEST_CASE("Where groups cannot be told, nobody is told anything for being in one")
{
    FakeDat fake;
    Record record;
    record.guests = {1, false, {}, {20}};
    auto answer = answer_to(fake, "x.admission", stranger, "{}", record);
    CHECK(answer.errnum() == EAGAIN);
    CHECK(answer.payload_text().find("try again") != std::string::npos);
    FakeDat other;
    answer = answer_to(other, "x.admission", stranger);
    CHECK(answer.errnum() == EPERM);
    CHECK(answer.payload_text()
          == "you (somebody) are not on the guest list of this DAT; ask its owner or a "
             "manager");
}

TEST_CASE("A manager cannot make the eventlog larger and larger")
{
    std::string line = R"({"timestamp":1,"name":"memo","context":{"x":")"
                       + std::string(1u << 20, 'x') + "\"}}\n",
                log;
    for (int i = 0; i < 17; i++)
        log += line;
    FakeDat fake;
    fake.parent["job-info.lookup"] = [&](auto& client, auto& request) {
        client.respond_json(request, flux::Json{{"eventlog", log}});
    };
    Change change;
    change.key = "x";
    change.grant.users = {4000};
    auto asked = flux::dump_json(to_json(change));
    auto answer = answer_to(fake, "x.guests", manager, asked);
    CHECK(answer.errnum() == EPERM);
    CHECK(answer.payload_text().find("its history has 17 MiB; only its owner")
          != std::string::npos);
    // Who is to go must go, as far as the parent takes it.
    Change leave;
    leave.key = "x";
    leave.revoke.users = {4000};
    Record record;
    record.guests = {1, false, {4000}, {}};
    FakeDat third;
    third.parent = fake.parent;
    CHECK(answer_to(third, "x.guests", manager, flux::dump_json(to_json(leave)), record)
              .payload_text()
              .find("cannot post the change")
          != std::string::npos);
    // The owner can do all.
    FakeDat other;
    other.parent = fake.parent;
    CHECK(answer_to(other, "x.guests", flux::userid_unknown, asked)
              .payload_text()
              .find("cannot post the change")
          != std::string::npos);
}

TEST_CASE("Managers' changes that wait for their event have a limit, the owner's none")
{
    FakeDat fake;
    fake.parent["job-manager.memo"] = [](auto& client, auto& request) {
        client.respond(request, "{}");
    };
    Change change;
    change.key = "x";
    change.grant.users = {4000};
    auto asked = flux::dump_json(to_json(change));
    // No event comes, so the first to be answered is the one that is too much.
    auto answer = answer_to(fake, "x.guests", manager, asked, {}, 17);
    CHECK(answer.errnum() == EAGAIN);
    CHECK(answer.payload_text()
          == "this DAT's supervisor has too many questions at a time; try again");
    // Of the owner's, all are posted: it is the parent that refuses.
    FakeDat other;
    answer = answer_to(other, "x.guests", flux::userid_unknown, asked, {}, 17);
    CHECK(answer.payload_text().find("cannot post the change") != std::string::npos);
}

TEST_CASE("Histories have a limit at a time")
{
    FakeDat fake;
    auto answer = answer_to(fake, "x.history", manager);
    CHECK(answer.errnum() == 0);
    FakeDat other;
    answer_to(other, "x.history", manager, "{}", {}, 3);
    // The last may come a little later than the first.
    for (int look = 0; look < 30000 && other.responses().size() < 3; look++)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    auto answers = other.responses();
    REQUIRE(answers.size() == 3);
    CHECK(answers[0].errnum() == 0);
    CHECK(answers[1].errnum() == 0);
    CHECK(answers[2].errnum() == EAGAIN);
}
