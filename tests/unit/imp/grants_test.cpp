// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/grants.h: the same texts are accepted and refused here and by lib/perms,
// which writes them.
#include "lib/imp/grants.h"

#include "lib/perms/grants.h"
#include "tests/unit/imp/place.h"

#include <catch2/catch.hpp>
#include <unistd.h>

using namespace fluxdat;
using Catch::Matchers::Contains;

namespace {

const std::string head = "flux-dat-grants 1\nowner 1500\njob fAbC3dE\ngeneration 7\n";

const std::vector<std::string> accepted{
    head + "open no\nend\n",
    head + "open yes\nend\n",
    head + "open no\nuser 1001 alice\nuser 1002 -\ngroup 2001 physics\nend\n",
    head + "open no\nuser 1 a.b-c_$@\\\ngroup 1 -\nend\n",
    head + "open no\nuser 4294967294 -\nend\n",
    "flux-dat-grants 1\nowner 0\njob f1\ngeneration 18446744073709551615\nopen "
    "no\nend\n",
};

std::vector<std::string> refused()
{
    std::vector<std::string> texts{
        "",
        "\n",
        "end\n",
        "flux-dat-grants 2\n" + head.substr(18) + "open no\nend\n",
        head,
        head + "open no\n",
        head + "open no\nend",
        head + "open no\nend\n\n",
        head + "open no\nend\nend\n",
        head + "open no\r\nend\n",
        head + "open maybe\nend\n",
        head + "open  no\nend\n",
        head + "open no \nend\n",
        head + "open no\n\nend\n",
        head + "open no\n# comment\nend\n",
        "flux-dat-grants 1\nowner 01500\njob f1\ngeneration 7\nopen no\nend\n",
        "flux-dat-grants 1\nowner -1\njob f1\ngeneration 7\nopen no\nend\n",
        "flux-dat-grants 1\nowner +1\njob f1\ngeneration 7\nopen no\nend\n",
        "flux-dat-grants 1\nowner\njob f1\ngeneration 7\nopen no\nend\n",
        "flux-dat-grants 1\nowner 1\njob 1\ngeneration 7\nopen no\nend\n",
        "flux-dat-grants 1\nowner 1\njob f0\ngeneration 7\nopen no\nend\n",
        "flux-dat-grants 1\nowner 1\njob f1\ngeneration x\nopen no\nend\n",
        "flux-dat-grants 1\njob f1\nowner 1\ngeneration 7\nopen no\nend\n",
        std::string(600000, 'x'),
        head + "open no\nend\n" + std::string(1, '\0'),
    };
    for (const auto* guest :
         {"user 0 root", "user 1500 owner", "user 4294967295 -", "user 4294967296 -",
          "group 0 root", "user 1001", "user 1001 ", "user alice", "user 1001 a b",
          "user 1001 al:ice", "user  1001 a", "User 1001 a", "user 01001 a",
          "user 1001 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "group 5 -\nuser 5 -",
          "user 5 -\nuser 5 -", "user 6 -\nuser 5 -", "user 5 \xc3\xa4"})
        texts.push_back(head + "open no\n" + guest + "\nend\n");
    std::string many = head + "open no\n";
    for (int id = 2000; id < 2000 + 8001; id++)
        many += "user " + std::to_string(id) + " -\n";
    texts.push_back(many + "end\n");
    return texts;
}

std::vector<imp::Grants> parsed(const std::string& text)
{
    auto grants = imp::parse_grants(text);
    REQUIRE(grants.has_value());
    return {*grants};
}

} // namespace

TEST_CASE("grants: both parsers accept the same", "[grants]")
{
    for (const auto& text : accepted) {
        INFO(text);
        auto ours = parsed(text).front();
        auto theirs = perms::parse_grants(text);
        REQUIRE(theirs.has_value());
        CHECK(ours.owner == theirs->owner);
        CHECK(ours.open == theirs->guests.open);
        CHECK(ours.users == theirs->guests.users);
        CHECK(ours.groups == theirs->guests.groups);
    }
}

TEST_CASE("grants: both parsers refuse the same", "[grants]")
{
    for (const auto& text : refused()) {
        INFO(text.substr(0, 300));
        auto ours = imp::parse_grants(text);
        REQUIRE_FALSE(ours.has_value());
        CHECK_THAT(ours.error().message, Contains("line ") || Contains("larger than"));
        CHECK_FALSE(perms::parse_grants(text).has_value());
    }
}

TEST_CASE("grants: every text that is cut off is refused", "[grants]")
{
    for (const auto& text : accepted)
        for (std::size_t length = 0; length < text.size(); length++)
            CHECK_FALSE(imp::parse_grants(text.substr(0, length)).has_value());
}

TEST_CASE("grants: who may enter", "[grants]")
{
    auto grants = parsed(accepted[2]).front();
    auto user = [](uid_t uid) { return imp::User{uid, uid, "name", "/"}; };
    CHECK(imp::is_granted(grants, user(1500), {}));
    CHECK(imp::is_granted(grants, user(1001), {}));
    CHECK(imp::is_granted(grants, user(1), {5, 2001}));
    CHECK_FALSE(imp::is_granted(grants, user(1), {5, 1001}));
    CHECK_FALSE(imp::is_granted(grants, user(2001), {}));
    CHECK(imp::is_granted(parsed(accepted[1]).front(), user(1), {}));
    CHECK_FALSE(imp::is_granted(parsed(accepted[0]).front(), user(1), {}));
}
