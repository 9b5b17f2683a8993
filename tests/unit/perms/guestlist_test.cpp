// SPDX-License-Identifier: LGPL-3.0-or-later
#include "support.h"

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

TEST_CASE("a guest list has each guest once, in order")
{
    auto list = make_guest_list(3, false, {1003, 1001, 1003}, {2002, 2001, 2001}, 1500);
    REQUIRE(list);
    CHECK(list->generation == 3);
    CHECK(list->users == std::vector<uid_t>{1001, 1003});
    CHECK(list->groups == std::vector<gid_t>{2001, 2002});
}

TEST_CASE("lists with the same guests are the same in any generation")
{
    GuestList one{1, false, {1001}, {}};
    GuestList two{2, false, {1001}, {}};
    CHECK(one.same_guests(two));
    CHECK_FALSE(one == two);
    two.open = true;
    CHECK_FALSE(one.same_guests(two));
    CHECK_FALSE(one.same_guests({1, false, {}, {1001}}));
}

TEST_CASE("who cannot be a guest")
{
    auto make = [](std::vector<uid_t> users, std::vector<gid_t> groups) {
        return message(make_guest_list(1, false, users, groups, 1500));
    };
    CHECK(make({1001}, {2001}) == "no error");
    CHECK(make({}, {}) == "no error");
    CHECK(make({0, 1001}, {}) == "user 0 (root) cannot be a guest");
    CHECK(make({}, {0}) == "group 0 (root) cannot be a guest");
    CHECK(make({1500}, {}) == "user 1500 owns the DAT and cannot be its guest");
    CHECK(make({static_cast<uid_t>(-1)}, {}) == "4294967295 is no user's id");
    CHECK(make({}, {static_cast<gid_t>(-1)}) == "4294967295 is no group's id");
}

TEST_CASE("a guest list has a limit")
{
    std::vector<uid_t> users;
    for (uid_t user = 10000; users.size() < guests_max; user++)
        users.push_back(user);
    CHECK(make_guest_list(1, false, users, {}, 1500));
    CHECK(message(make_guest_list(1, false, users, {7}, 1500))
          == "the guest list has 8001 users and groups, at most 8000 are possible; put "
             "the "
             "users in a group");
}

TEST_CASE("a list that was not made by make_guest_list is looked at, too")
{
    CHECK_THAT(message(validate({1, false, {1002, 1001}, {}}, 1500)),
               Contains("not in ascending order"));
    CHECK_THAT(message(validate({1, false, {1001, 1001}, {}}, 1500)),
               Contains("each guest once"));
    CHECK_THAT(message(validate({1, false, {}, {5, 5}}, 1500)),
               Contains("each guest once"));
}
