// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/changes.h"

#include "lib/dat/audit.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

using namespace fluxdat;
using namespace fluxdat::dat;
using Catch::Contains;

namespace {

constexpr uid_t owner = 500;

Record first_record(std::vector<uid_t> users = {1001}, std::vector<uid_t> managers = {})
{
    Record record;
    record.name = "demo";
    record.guests = {1, false, std::move(users), {}};
    record.managers = std::move(managers);
    return record;
}

Change granting(std::vector<uid_t> users, uid_t by = owner)
{
    Change change;
    change.key = new_change_key();
    change.by = by;
    change.grant.users = std::move(users);
    return change;
}

Change revoking(std::vector<uid_t> users, bool keep_jobs = false)
{
    Change change;
    change.key = new_change_key();
    change.by = owner;
    change.revoke.users = std::move(users);
    change.keep_jobs = keep_jobs;
    return change;
}

flux::Event event_of(const Change& change, double when)
{
    return {when, "memo", Json{{change_key, to_json(change)}}};
}

flux::Event event_of(const Record& record, double when)
{
    return {when, "memo", Json{{"dat", to_json(record)}}};
}

std::optional<std::vector<gid_t>> no_groups(uid_t)
{
    return std::vector<gid_t>{};
}

std::string error_of(const Json& json)
{
    auto change = change_from_json(json);
    return change ? "" : change.error().message;
}

} // namespace

TEST_CASE("a change goes to JSON and back")
{
    Change change = granting({1001, 1002}, 7);
    change.grant.groups = {20};
    change.grant.managers = {30};
    change.revoke = {{1}, {2}, {3}};
    change.open = false;
    change.keep_jobs = true;
    auto back = change_from_json(to_json(change));
    REQUIRE(back);
    CHECK(*back == change);
    change.open.reset();
    CHECK(*change_from_json(to_json(change)) == change);
    CHECK(change_in(event_of(change, 1)) == change);
    CHECK_FALSE(change_in({1, "memo", Json{{"other", 1}}}));
    CHECK_FALSE(change_in({1, "memo", nullptr}));
    CHECK_FALSE(change_in({1, "alloc", Json{{change_key, to_json(change)}}}));
    CHECK(new_change_key() != new_change_key());
}

TEST_CASE("what is no change says why")
{
    auto good = to_json(granting({1001}));
    auto with = [&](const char* key, Json value) {
        Json json = good;
        json[key] = std::move(value);
        return error_of(json);
    };
    CHECK(error_of(good) == "");
    CHECK(error_of(nullptr) == "the change is no JSON object");
    CHECK(error_of("text") == "the change is no JSON object");
    CHECK_THAT(with("version", 2), Contains("another version"));
    CHECK_THAT(with("key", ""), Contains("\"key\" is no key"));
    CHECK_THAT(with("key", 1), Contains("\"key\" is no key"));
    CHECK_THAT(with("key", std::string(65, 'x')), Contains("\"key\" is no key"));
    CHECK_THAT(with("by", -1), Contains("\"by\" is no user id"));
    CHECK_THAT(with("by", 1ull << 33), Contains("\"by\" is no user id"));
    CHECK_THAT(with("grant", 1), Contains("\"grant\" is no object"));
    CHECK_THAT(with("revoke", Json::array()), Contains("\"revoke\" is no object"));
    CHECK_THAT(with("grant", {{"users", "all"}}),
               Contains("\"grant.users\" is no list of ids"));
    CHECK_THAT(with("grant", {{"users", {"bob"}}}),
               Contains("\"grant.users\" is no list of ids"));
    CHECK_THAT(with("grant", {{"groups", {-5}}}),
               Contains("\"grant.groups\" is no list of ids"));
    CHECK_THAT(with("revoke", {{"managers", {1.5}}}),
               Contains("\"revoke.managers\" is no list of ids"));
    CHECK_THAT(with("keep_jobs", "yes"), Contains("\"keep_jobs\" is no boolean"));
    CHECK_THAT(with("grant", {{"users", std::vector<int>(perms::guests_max + 1, 5)}}),
               Contains("at most 8000 are possible"));
}

TEST_CASE("a change tells what it did, and what was so already")
{
    Desired list(first_record({1001, 1002}, {30}), owner, 10);
    auto effect = list.apply(granting({1002, 1003}, 30), 20);
    REQUIRE(effect);
    CHECK(effect->granted.users == std::vector<uid_t>{1003});
    CHECK(list.guests() == perms::GuestList{2, false, {1001, 1002, 1003}, {}});
    CHECK(list.users().at(1003).by == 30);
    CHECK(list.users().at(1003).when == 20);
    CHECK(list.users().at(1002).by == owner); // the first grant counts
    CHECK(list.users().at(1002).when == 10);

    effect = list.apply(revoking({1001, 4}), 30);
    REQUIRE(effect);
    CHECK(effect->revoked.users == std::vector<uid_t>{1001});
    effect = list.apply(revoking({1001}), 40);
    REQUIRE(effect);
    CHECK(effect->none());
    CHECK(list.guests() == perms::GuestList{4, false, {1002, 1003}, {}});
    CHECK(list.managers() == std::vector<uid_t>{30});
    CHECK(list.is_manager(30));

    Change both = granting({});
    both.grant.groups = {7};
    both.grant.managers = {31};
    both.revoke.managers = {30};
    both.open = true;
    effect = list.apply(both, 50);
    REQUIRE(effect);
    CHECK(effect->open == true);
    CHECK(list.guests() == perms::GuestList{5, true, {1002, 1003}, {7}});
    CHECK(list.managers() == std::vector<uid_t>{31});
    CHECK(both.needs_owner());
    CHECK_FALSE(granting({1}).needs_owner());
}

TEST_CASE("a list that no DAT can have is refused, and takes a generation")
{
    Desired list(first_record(), owner, 10);
    auto refused = [&](const Change& change) {
        auto before = list.guests();
        auto effect = list.apply(change, 20);
        REQUIRE_FALSE(effect);
        CHECK(list.guests().same_guests(before));
        CHECK(list.guests().generation == before.generation + 1);
        return effect.error().message;
    };
    CHECK_THAT(refused(granting({0})), Contains("root"));
    CHECK_THAT(refused(granting({owner})), Contains("owns the DAT"));
    CHECK_THAT(refused(granting({static_cast<uid_t>(-1)})), Contains("no user's id"));
    std::vector<uid_t> many;
    for (uid_t uid = 2000; uid < 2000 + perms::guests_max; uid++)
        many.push_back(uid);
    CHECK_THAT(refused(granting(many)),
               Contains("8001 users and groups, at most 8000 are possible"));
    Change managers = granting({});
    managers.grant.managers = many;
    CHECK_THAT(refused(managers), Contains("8000 managers, at most 1000"));
}

TEST_CASE("who is admitted")
{
    Desired list(first_record(), owner, 10);
    CHECK(list.admits(owner, no_groups));
    CHECK(list.admits(1001, no_groups));
    CHECK_FALSE(list.admits(1002, no_groups));
    Change group = granting({});
    group.grant.groups = {7};
    REQUIRE(list.apply(group, 20));
    CHECK_FALSE(list.admits(1002, no_groups));
    CHECK(list.admits(1002, [](uid_t) { return std::vector<gid_t>{5, 7}; }));
    CHECK_FALSE(list.admits(1002, [](uid_t) { return std::vector<gid_t>{5, 8}; }));
    // Nobody loses jobs since a directory server is down.
    CHECK(list.admits(1002, [](uid_t) { return std::nullopt; }));
    Change open = granting({});
    open.open = true;
    REQUIRE(list.apply(open, 30));
    CHECK(list.admits(1002, no_groups));
}

TEST_CASE("jobs that were kept may finish, until they are not")
{
    Desired list(first_record({1001, 1002}), owner, 10);
    REQUIRE(list.apply(revoking({1001}, true), 20));
    REQUIRE(list.apply(revoking({1002}), 21));
    CHECK_FALSE(list.admits(1001, no_groups));
    CHECK(list.keeps(1001, 19, no_groups));
    CHECK_FALSE(list.keeps(1001, 21, no_groups)); // submitted after the revoke
    CHECK_FALSE(list.keeps(1002, 19, no_groups));
    auto effect = list.apply(revoking({1001}), 30);
    REQUIRE(effect);
    CHECK(effect->kept);
    CHECK_FALSE(effect->none());
    CHECK_FALSE(list.keeps(1001, 19, no_groups));

    Change group = granting({});
    group.grant.groups = {7};
    REQUIRE(list.apply(group, 40));
    Change out = revoking({}, true);
    out.revoke.groups = {7};
    REQUIRE(list.apply(out, 50));
    auto member = [](uid_t) { return std::vector<gid_t>{7}; };
    CHECK(list.keeps(1003, 45, member));
    CHECK_FALSE(list.keeps(1003, 55, member));
    CHECK_FALSE(list.keeps(1003, 45, no_groups));
    CHECK(list.keeps(1003, 45, [](uid_t) { return std::nullopt; }));

    Change open = granting({}), close = revoking({}, true);
    open.open = true;
    close.open = false;
    REQUIRE(list.apply(open, 60));
    REQUIRE(list.apply(close, 70));
    CHECK(list.keeps(1004, 65, no_groups));
    CHECK_FALSE(list.keeps(1004, 75, no_groups));
    close.keep_jobs = false;
    REQUIRE(list.apply(close, 80));
    CHECK_FALSE(list.keeps(1004, 65, no_groups));
}

TEST_CASE("a revoke without it ends what was kept on another ground")
{
    auto member = [](uid_t) { return std::vector<gid_t>{7}; };
    auto record = first_record({1001});
    record.guests.groups = {7};
    record.guests.open = true;
    Change group = revoking({}, true), close = revoking({}, true);
    group.revoke.groups = {7};
    close.open = false;
    {
        Desired list(record, owner, 10);
        REQUIRE(list.apply(group, 20));
        REQUIRE(list.apply(close, 21));
        CHECK(list.keeps(1001, 15, member));
        REQUIRE(list.apply(revoking({1001}), 30));
        CHECK_FALSE(list.keeps(1001, 15, member));
        CHECK(list.keeps(1002, 15, member)); // another one's
    }
    {
        Desired list(record, owner, 10);
        REQUIRE(list.apply(close, 20));
        Change plain = revoking({});
        plain.revoke.groups = {7};
        REQUIRE(list.apply(plain, 30));
        CHECK_FALSE(list.keeps(1002, 15, member));
        CHECK(list.keeps(1002, 15, no_groups));
    }
    {
        // Kept as a user, in by the group for a while yet, kept as a member.
        Desired list(record, owner, 10);
        REQUIRE(list.apply(close, 11));
        REQUIRE(list.apply(revoking({1001}, true), 20));
        REQUIRE(list.apply(group, 40));
        CHECK(list.keeps(1001, 30, member));
    }
}

TEST_CASE("the list is the first record and all changes, whatever records say later")
{
    auto first = first_record();
    auto a = granting({1002}), b = granting({1003}), c = revoking({1001});
    auto stale = first; // somebody's who had not seen all of them
    stale.guests = {2, false, {1001, 1002}, {}};
    std::vector<flux::Event> log{{1, "submit", Json{{"userid", owner}}},
                                 event_of(first, 2),
                                 event_of(a, 3),
                                 event_of(b, 4),
                                 event_of(stale, 5),
                                 event_of(c, 6),
                                 {7, "memo", Json{{change_key, "nonsense"}}}};
    std::vector<std::string> seen;
    auto folded = fold(log, owner, std::nullopt,
                       [&](const Change& change, double when, auto& effect) {
                           seen.push_back(change.key + fmt::format("@{}", when));
                           CHECK(effect);
                       });
    CHECK(folded.desired.guests() == perms::GuestList{4, false, {1002, 1003}, {}});
    CHECK(folded.record->guests == stale.guests);
    CHECK(seen == std::vector<std::string>{a.key + "@3", b.key + "@4", c.key + "@6"});
    // Known from elsewhere, where the log's first record never came.
    log.erase(log.begin() + 1);
    CHECK(fold(log, owner, first).desired.guests() == folded.desired.guests());
    // A change that no record comes before is none of a DAT.
    CHECK(fold({event_of(a, 1)}, owner, std::nullopt).desired.guests()
          == perms::GuestList{});
}

TEST_CASE("what a change names in vain is left out of it")
{
    Desired list(first_record({1001, 1002}), owner, 10);
    std::vector<uid_t> many(perms::guests_max);
    std::iota(many.begin(), many.end(), 5000);
    Change change = granting({1001, 1003, 1003});
    change.revoke = {many, many, many};
    auto narrowed = list.narrowed(change);
    CHECK(narrowed.grant == Named{{1003}, {}, {}});
    CHECK(narrowed.revoke == Named{});
    CHECK(flux::dump_json(to_json(narrowed)).size() < 1024);
    // Whom another one names that may come first is not in vain.
    Change other = revoking({1001});
    CHECK(list.narrowed(change, {&other}).grant == Named{{1001, 1003}, {}, {}});
}

TEST_CASE("a revoke ends jobs that another change, which is not there yet, keeps")
{
    auto record = first_record({});
    record.guests.open = true;
    Desired list(record, owner, 10);
    Change shut = granting({});
    shut.open = false;
    shut.keep_jobs = true;
    Change change = revoking({1001});
    auto no_groups = [](uid_t) { return std::vector<gid_t>{}; };
    auto keeps = [&](const Change& after) {
        auto then = list;
        REQUIRE(then.apply(shut, 20));
        REQUIRE(then.apply(after, 30));
        return then.keeps(1001, 15, no_groups);
    };
    CHECK_FALSE(keeps(change));
    CHECK_FALSE(keeps(list.narrowed(change, {&shut})));
}

TEST_CASE("without those named in vain a change does the same")
{
    // Random, and the same at each run.
    std::minstd_rand random(1);
    auto some = [&](std::uint32_t first) {
        std::vector<std::uint32_t> ids;
        for (auto count = random() % 4; count > 0; count--)
            ids.push_back(first + static_cast<std::uint32_t>(random() % 5));
        return ids;
    };
    Desired list(first_record({1001, 1002}, {31}), owner, 0);
    auto some_change = [&] {
        Change change = granting(some(1000));
        change.grant.groups = some(20);
        change.grant.managers = some(30);
        change.revoke = {some(1000), some(20), some(30)};
        change.keep_jobs = random() % 2;
        if (random() % 4 == 0)
            change.open = random() % 2;
        return change;
    };
    for (int when = 1; when < 3000; when++) {
        auto change = some_change(), before = some_change();
        auto whole = list, narrow = list;
        std::vector<const Change*> others;
        if (random() % 2) { // that is not there yet, and may come first or not at all
            others = {&before};
            if (random() % 2) {
                REQUIRE(whole.apply(before, when - 0.25));
                REQUIRE(narrow.apply(before, when - 0.25));
            }
        }
        auto one = whole.apply(change, when);
        auto other = narrow.apply(list.narrowed(change, others), when);
        REQUIRE(one);
        REQUIRE(other);
        auto sorted = [](Named named) {
            std::sort(named.users.begin(), named.users.end());
            std::sort(named.groups.begin(), named.groups.end());
            std::sort(named.managers.begin(), named.managers.end());
            return named;
        };
        CHECK(sorted(one->granted) == sorted(other->granted));
        CHECK(sorted(one->revoked) == sorted(other->revoked));
        CHECK(one->open == other->open);
        CHECK(one->kept == other->kept);
        CHECK(to_json(whole) == to_json(narrow));
        for (uid_t uid = 1000; uid < 1005; uid++)
            for (gid_t gid = 20; gid < 25; gid++)
                for (double submitted :
                     {when - 5.5, when - 0.5, when - 0.1, when + 0.5}) {
                    auto groups = [gid](uid_t) { return std::vector<gid_t>{gid}; };
                    CHECK(whole.keeps(uid, submitted, groups)
                          == narrow.keeps(uid, submitted, groups));
                }
        list = whole;
    }
}

TEST_CASE("of an eventlog that is kept what the list comes of")
{
    auto first = first_record(), later = first_record({1001, 1002});
    later.state = State::ready;
    std::vector<flux::Event> log{{1, "submit", Json{{"userid", owner}}},
                                 event_of(first, 2),
                                 event_of(granting({1002}), 3),
                                 event_of(first, 4),
                                 event_of(first, 5),
                                 {6, "memo", Json{{"dat", nullptr}}},
                                 event_of(later, 7),
                                 event_of(granting({1003}), 8),
                                 event_of(first, 9),
                                 event_of(later, 10)};
    Ledger ledger;
    for (auto event : log) {
        event.size = 100;
        ledger.take(std::move(event));
    }
    CHECK(ledger.count() == log.size());
    CHECK(ledger.bytes() == 100 * log.size());
    CHECK(ledger.bytes_kept() == 500);
    CHECK(ledger.events().size() == 6);
    auto whole = fold(log, owner, std::nullopt),
         kept = fold(ledger.events(), owner, std::nullopt);
    CHECK(to_json(kept.desired) == to_json(whole.desired));
    CHECK(to_json(*kept.record) == to_json(*whole.record));
    CHECK(history(ledger.events(), owner) == history(log, owner));
}

TEST_CASE("an eventlog is read as far as it is one")
{
    auto events =
        parse_eventlog("{\"timestamp\":1.5,\"name\":\"submit\"}\n"
                       "nonsense\n"
                       "{\"timestamp\":2,\"name\":\"memo\",\"context\":{}}\n");
    REQUIRE(events.size() == 2);
    CHECK(events[0].name == "submit");
    CHECK(events[1].timestamp == 2);
}

TEST_CASE("a change in words")
{
    Desired::Effect effect;
    CHECK(summary(effect) == "");
    effect.granted = {{1001, 1002}, {20}, {}};
    CHECK(summary(effect) == "granted users 1001 1002, group 20");
    effect.revoked.managers = {30};
    effect.open = false;
    CHECK(summary(effect)
          == "granted users 1001 1002, group 20; revoked manager 30; closed");
    effect = {};
    effect.open = true;
    CHECK(summary(effect) == "opened");
    effect = {};
    effect.kept = true;
    CHECK(summary(effect) == "ended the jobs that were kept");
    effect = {};
    effect.granted.users.assign(summary_ids_max + 5, 7);
    CHECK_THAT(summary(effect), Contains(" 7 and 5 more"));
}
