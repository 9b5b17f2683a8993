// SPDX-License-Identifier: LGPL-3.0-or-later
// RFC 12, "Credential Assignment": who a message is from.
#include "lib/sandbox/listener.h"
#include "lib/sandbox/signature.h"

#include "lib/imp/base64.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::sandbox;
using namespace fluxdat::flux;

namespace {

constexpr Credentials unset{userid_unknown, 0};

std::string show(const std::optional<Credentials>& credentials)
{
    if (!credentials)
        return "refused";
    return fmt::format("{} {:x}", credentials->userid, credentials->rolemask);
}

} // namespace

TEST_CASE("the owner, guests, and root")
{
    AccessPolicy closed{1000, false, false}, open{1000, true, true};
    CHECK(show(assign_credentials(closed, 1000, unset)) == "1000 5");
    CHECK(show(assign_credentials(closed, 1001, unset)) == "refused");
    CHECK(show(assign_credentials(closed, 0, unset)) == "refused");
    CHECK(show(assign_credentials(open, 1001, unset)) == "1001 6");
    CHECK(show(assign_credentials(open, 0, unset)) == "1000 5");
    CHECK(show(assign_credentials({1000, true, false}, 0, unset)) == "0 6");
}

TEST_CASE("the owner may speak for others, nobody else")
{
    AccessPolicy policy{1000, true, true};
    CHECK(show(assign_credentials(policy, 1000, {1001, role_user})) == "1001 2");
    CHECK(show(assign_credentials(policy, 1000, {1001, 0})) == "1000 5");
    CHECK(show(assign_credentials(policy, 1001, {1000, role_owner})) == "1001 6");
    CHECK(show(assign_credentials(policy, 0, {1002, role_user})) == "1000 5");
}

TEST_CASE("an unsigned request is the owner's only")
{
    auto J = [](std::uint32_t userid) {
        auto header = std::string("version\0i1\0mechanism\0snone\0userid\0i", 35)
                      + std::to_string(userid) + '\0';
        return imp::base64_encode(header) + "." + imp::base64_encode("{}") + ".none";
    };
    auto good = unwrap(J(1000), 1000, 1000);
    REQUIRE(good);
    CHECK(good->payload == "{}");
    CHECK(good->userid == 1000);
    CHECK(unwrap(J(1001), 1001, 1000).error().message
          == "only instance owner can use sign-type=none");
    CHECK(unwrap(J(1000), 1001, 1000).error().message
          == "signer=1000 != requestor=1001");
    CHECK_THAT(unwrap("", 1000, 1000).error().message,
               Catch::StartsWith("sign-unwrap: "));
    CHECK(unwrap("a.b.c", 1000, 1000).error().errnum == EINVAL);
}
