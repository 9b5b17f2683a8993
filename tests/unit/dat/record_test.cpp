// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/record.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::dat;

TEST_CASE("A record reads back as it was written")
{
    Record record;
    record.name = "demo";
    record.state = State::ready;
    record.guests.generation = 3;
    record.guests.users = {1001, 1002};
    record.guests.groups = {2001};
    record.applied = 2;
    record.managers = {1001};
    record.service_name = "999-dat-f1";
    record.service_rank = 7;
    record.ranks_up = 2;
    record.window.options.warn = {60};
    auto read = record_from_json(to_json(record));
    REQUIRE(read);
    CHECK(read->name == "demo");
    CHECK(read->state == State::ready);
    CHECK(read->guests == record.guests);
    CHECK(read->applied == 2);
    CHECK(read->managers == record.managers);
    CHECK(read->service_name == "999-dat-f1");
    CHECK(read->service_rank == 7);
    CHECK(read->ranks_up == 2);
    CHECK(read->window.options == record.window.options);
}

TEST_CASE("What is no record is refused, with the key")
{
    auto good = to_json(Record{.name = "demo",
                               .guests = {},
                               .managers = {},
                               .service_name = "",
                               .adoption = "",
                               .stop_reason = "",
                               .window = {}});
    REQUIRE(record_from_json(good));
    auto error_with = [&](const char* key, Json value) {
        auto bad = good;
        bad[key] = std::move(value);
        auto read = record_from_json(bad);
        INFO(key);
        REQUIRE(!read);
        return read.error().message;
    };
    using Catch::Contains;
    CHECK_THAT(error_with("version", 2), Contains("version"));
    CHECK_THAT(error_with("version", "1"), Contains("version"));
    CHECK_THAT(error_with("name", 7), Contains("\"name\""));
    CHECK_THAT(error_with("name", "a\x1b[31m"), Contains("\"name\""));
    CHECK_THAT(error_with("users", std::vector<int>(8001, 5)), Contains("\"users\""));
    CHECK_THAT(error_with("service", {{"name", "x"}, {"rank", 4294967297}}),
               Contains("\"service.rank\""));
    CHECK_THAT(error_with("state", "lost"), Contains("\"state\""));
    CHECK_THAT(error_with("state", 1), Contains("\"state\""));
    CHECK_THAT(error_with("open", "yes"), Contains("\"open\""));
    CHECK_THAT(error_with("generation", -1), Contains("\"generation\""));
    CHECK_THAT(error_with("applied", 1.5), Contains("\"applied\""));
    CHECK_THAT(error_with("ranks_up", "2"), Contains("\"ranks_up\""));
    CHECK_THAT(error_with("ranks_up", 4294967296), Contains("\"ranks_up\""));
    CHECK_THAT(error_with("users", "alice"), Contains("\"users\""));
    CHECK_THAT(error_with("users", {"alice"}), Contains("\"users\""));
    CHECK_THAT(error_with("users", {4294967296}), Contains("\"users\""));
    CHECK_THAT(error_with("groups", {-1}), Contains("\"groups\""));
    CHECK_THAT(error_with("managers", 1), Contains("\"managers\""));
    CHECK_THAT(error_with("service", 1), Contains("\"service\""));
    CHECK_THAT(error_with("service", {{"name", "x"}}), Contains("\"service.rank\""));
    CHECK_THAT(error_with("service", {{"rank", 1}}), Contains("\"service.name\""));
    CHECK(!record_from_json(Json(nullptr)));
    CHECK(!record_from_json(Json::array()));
}

TEST_CASE("Names")
{
    for (auto* good : {"a", "demo", "Demo-2_x.y", "0x", "fred", "2fast"})
        CHECK(check_name(good));
    CHECK(check_name(std::string(64, 'x')));
    auto error_of = [](std::string_view name) {
        auto checked = check_name(name);
        REQUIRE(!checked);
        CHECK(checked.error().exit == Exit::usage);
        return checked.error().message;
    };
    using Catch::Contains;
    CHECK_THAT(error_of(""), Contains("empty"));
    CHECK_THAT(error_of(std::string(65, 'x')), Contains("too long") && Contains("65"));
    CHECK_THAT(error_of("a/b"), Contains("\"/\" at character 2"));
    CHECK_THAT(error_of("a b"), Contains("\" \" at character 2"));
    CHECK_THAT(error_of("a\nb"), Contains("byte 0x0a at character 2"));
    CHECK_THAT(error_of(std::string_view("a\0b", 3)), Contains("byte 0x00"));
    CHECK_THAT(error_of("-x"), Contains("at character 1"));
    CHECK_THAT(error_of(".."), Contains("at character 1"));
    CHECK_THAT(error_of("\xc6\x92x"), Contains("byte 0xc6"));
    CHECK_THAT(error_of("12345"), Contains("job id"));
}

TEST_CASE("The supervisor's service is named for owner and job")
{
    CHECK(service_name(999, 6731191091817518) == "999-dat-fuZZybuNNy");
}

TEST_CASE("A guest list goes through JSON by itself")
{
    perms::GuestList guests{7, false, {1001, 1002}, {2001}};
    auto back = guests_from_json(to_json(guests));
    REQUIRE(back);
    CHECK(*back == guests);
    CHECK(guests_from_json(Json::object()).value() == perms::GuestList{});
    CHECK_FALSE(guests_from_json({{"open", 1}}));
    CHECK_FALSE(guests_from_json({{"users", {-1}}}));
    CHECK_FALSE(guests_from_json({{"groups", "physics"}}));
    CHECK_FALSE(guests_from_json({{"generation", "7"}}));
}
