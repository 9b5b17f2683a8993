// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/sign.h: RFC 39. Each check of a signature has a test that fails without it.
#include "lib/imp/sign.h"

#include "lib/imp/base64.h"
#include "tests/unit/imp/munged.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <munge.h>
#include <unistd.h>

using namespace fluxdat::imp;
using Catch::Matchers::Contains;
using namespace std::string_literals;

namespace {

const SignPolicy allow_none{.allowed = {Mechanism::none}, .munge_socket = {}};

std::string header(std::string_view mechanism, std::int64_t userid)
{
    Kv kv;
    REQUIRE(kv.put_integer("version", 1));
    REQUIRE(kv.put_string("mechanism", std::string(mechanism)));
    REQUIRE(kv.put_integer("userid", userid));
    return base64_encode(kv.encode());
}

std::string wrapped(std::string_view payload, Mechanism mechanism, uid_t userid,
                    const std::string& socket = {})
{
    auto j = sign_wrap(payload, mechanism, userid, socket);
    if (!j)
        FAIL(j.error().message);
    return *j;
}

std::string refusal(std::string_view j, const SignPolicy& policy = allow_none)
{
    INFO(j.substr(0, 300));
    auto request = sign_unwrap(j, policy);
    REQUIRE_FALSE(request.has_value());
    CHECK(request.error().message.starts_with("sign: "));
    return request.error().message;
}

// A header with the pairs given, in a J that is otherwise good.
std::string with_header(const std::string& pairs)
{
    return base64_encode(pairs) + "." + base64_encode("{}") + ".none";
}

std::array<std::string, 3> parts_of(const std::string& j)
{
    auto first = j.find('.'), second = j.rfind('.');
    return {j.substr(0, first), j.substr(first + 1, second - first - 1),
            j.substr(second + 1)};
}

// What MUNGE makes of any content, for signatures that sign_wrap() would never make.
std::string credential(const std::string& content, const std::string& socket,
                       int ttl = 0)
{
    auto context = munge_ctx_create();
    REQUIRE(munge_ctx_set(context, MUNGE_OPT_SOCKET, socket.c_str()) == EMUNGE_SUCCESS);
    REQUIRE(munge_ctx_set(context, MUNGE_OPT_TTL, ttl) == EMUNGE_SUCCESS);
    char* text = nullptr;
    REQUIRE(
        munge_encode(&text, context, content.data(), static_cast<int>(content.size()))
        == EMUNGE_SUCCESS);
    std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
    munge_ctx_destroy(context);
    return text;
}

} // namespace

TEST_CASE("sign: mechanism none", "[sign]")
{
    auto j = wrapped("{\"version\":1}", Mechanism::none, getuid());
    CHECK(j
          == header("none", getuid()) + "." + base64_encode("{\"version\":1}")
                 + ".none");
    auto request = sign_unwrap(j, allow_none);
    REQUIRE(request.has_value());
    CHECK(request->payload == "{\"version\":1}");
    CHECK(request->userid == getuid());
    CHECK(request->mechanism == Mechanism::none);
    CHECK(request->header.size() == 3);
}

TEST_CASE("sign: any payload", "[sign]")
{
    for (const auto& payload : {""s, "\0"s, "a.b\n\xff"s, std::string(100000, 'x')})
        CHECK(sign_unwrap(wrapped(payload, Mechanism::none, getuid()), allow_none)
                  ->payload
              == payload);
}

TEST_CASE("sign: none is good for its own user only", "[sign]")
{
    auto j = wrapped("{}", Mechanism::none, getuid() + 1);
    CHECK(sign_read(j)->userid == getuid() + 1); // looking is allowed
    auto request = sign_unwrap(j, allow_none);
    REQUIRE_FALSE(request.has_value());
    CHECK(request.error().errnum == EPERM);
    CHECK_THAT(request.error().message,
               Contains("only good for the user who verifies")
                   && Contains("claims userid " + std::to_string(getuid() + 1)));
}

TEST_CASE("sign: none must be allowed, and is not by default", "[sign]")
{
    auto j = wrapped("{}", Mechanism::none, getuid());
    auto request = sign_unwrap(j, SignPolicy{});
    REQUIRE_FALSE(request.has_value());
    CHECK(request.error().errnum == EPERM);
    CHECK_THAT(request.error().message,
               Contains("mechanism none is not among") && Contains("allowed-types"));
    CHECK_THAT(refusal(j, SignPolicy{.allowed = {}, .munge_socket = {}}),
               Contains("is not among"));
}

TEST_CASE("sign: a J has exactly three parts", "[sign]")
{
    auto form = "not of the form HEADER.PAYLOAD.SIGNATURE";
    auto good = wrapped("{}", Mechanism::none, getuid());
    auto [head, payload, signature] = parts_of(good);
    CHECK_THAT(refusal(""), Contains(form));
    CHECK_THAT(refusal(head), Contains(form));
    CHECK_THAT(refusal(head + "." + payload), Contains(form));
    CHECK_THAT(refusal(good + "."), Contains(form));
    CHECK_THAT(refusal(good + ".none"), Contains(form));
    CHECK_THAT(refusal(head + ".." + payload + ".none"), Contains(form));
    CHECK_THAT(refusal(head + "." + payload + "."), Contains("the signature is empty"));
    CHECK_THAT(refusal(good + "\0"s), Contains("has a NUL"));
    CHECK_THAT(refusal(head + "." + payload + "." + std::string(4097, 'x')),
               Contains("more than 4096 bytes"));
    CHECK_THAT(refusal(head + "." + payload + ".None"),
               Contains("mechanism none is not \"none\": \"None\""));
    CHECK_THAT(refusal(good + "\n"), Contains("\"none\\x0a\""));
}

TEST_CASE("sign: header and payload are strict base64", "[sign]")
{
    auto [head, payload, signature] =
        parts_of(wrapped("{}", Mechanism::none, getuid()));
    CHECK_THAT(refusal(head.substr(1) + "." + payload + ".none"),
               Contains("the header: base64: "));
    CHECK_THAT(refusal("!" + head.substr(1) + "." + payload + ".none"),
               Contains("the header: base64: byte 0"));
    CHECK_THAT(refusal(head + "." + payload + "\n.none"),
               Contains("the payload: base64: "));
    CHECK_THAT(refusal(head + ".e30.none"), Contains("multiple of four"));
    CHECK_THAT(refusal(head + ".e31=.none"), Contains("bits behind the end"));
    CHECK(sign_unwrap(head + "..none", allow_none)->payload.empty());
    CHECK_THAT(refusal("." + payload + ".none"),
               Contains("the header: kv: the key \"version\" is missing"));
}

TEST_CASE("sign: the header has what RFC 39 requires", "[sign]")
{
    auto uid = std::to_string(getuid());
    CHECK(sign_unwrap(with_header("userid\0i"s + uid
                                  + "\0future\0sx\0version\0i1\0mechanism\0snone\0"s),
                      allow_none)
              ->header.contains("future"));
    CHECK_THAT(refusal(with_header("version\0i1\0mechanism\0snone\0"s)),
               Contains("\"userid\" is missing"));
    CHECK_THAT(refusal(with_header("version\0i1\0userid\0i"s + uid + "\0"s)),
               Contains("\"mechanism\" is missing"));
    CHECK_THAT(refusal(with_header("mechanism\0snone\0userid\0i"s + uid + "\0"s)),
               Contains("\"version\" is missing"));
    CHECK_THAT(refusal(with_header("version\0s1\0mechanism\0snone\0userid\0i0\0"s)),
               Contains("\"version\" is a string, not an integer"));
    CHECK_THAT(refusal(with_header("version\0i1\0mechanism\0i1\0userid\0i0\0"s)),
               Contains("\"mechanism\" is an integer, not a string"));
    CHECK_THAT(refusal(with_header("version\0i1\0mechanism\0snone\0userid\0s0\0"s)),
               Contains("\"userid\" is a string, not an integer"));
    CHECK_THAT(refusal(with_header("version\0i2\0mechanism\0snone\0userid\0i0\0"s)),
               Contains("version 2 is not known here"));
    CHECK_THAT(refusal(with_header("version\0i0\0mechanism\0snone\0userid\0i0\0"s)),
               Contains("version 0"));
    CHECK_THAT(refusal(with_header("version\0i1\0mechanism\0scurve\0userid\0i0\0"s)),
               Contains("unknown mechanism \"curve\" (known are munge, none)"));
    CHECK_THAT(refusal(with_header("version\0i1\0mechanism\0snone\0userid\0i-1\0"s)),
               Contains("-1 is no userid"));
    // Truncated to 32 bits this would be root.
    CHECK_THAT(
        refusal(with_header("version\0i1\0mechanism\0snone\0userid\0i4294967296\0"s)),
        Contains("4294967296 is no userid"));
    CHECK_THAT(
        refusal(with_header("version\0i1\0mechanism\0snone\0userid\0i4294967295\0"s)),
        Contains("4294967295 is no userid"));
    CHECK_THAT(refusal(with_header("version\0i1\0mechanism\0snone\0userid\0i0\0"
                                   "userid\0i1\0"s)),
               Contains("\"userid\" comes twice"));
    CHECK_THAT(refusal(with_header("version\0i1"s)),
               Contains("the header: kv: the end"));
}

TEST_CASE("sign: size is bounded", "[sign]")
{
    auto largest = std::string(sign_bytes_max / 4 * 3, 'x');
    auto j = sign_wrap(largest, Mechanism::none, getuid());
    REQUIRE_FALSE(j.has_value()); // with the header it is too much
    CHECK(j.error().errnum == E2BIG);
    largest.push_back('x');
    CHECK_THAT(sign_wrap(largest, Mechanism::none, getuid()).error().message,
               Contains("makes more than the 16777216"));
    largest.resize(largest.size() - 200);
    CHECK(sign_unwrap(wrapped(largest, Mechanism::none, getuid()), allow_none)
              .has_value());
    CHECK_THAT(refusal(std::string(sign_bytes_max + 1, 'x')), Contains("more than"));
}

TEST_CASE("sign: names of mechanisms", "[sign]")
{
    CHECK(parse_mechanism("munge") == Mechanism::munge);
    CHECK(parse_mechanism("none") == Mechanism::none);
    CHECK_THAT(parse_mechanism("Munge").error().message, Contains("unknown mechanism"));
    CHECK_THAT(parse_mechanism("").error().message, Contains("unknown mechanism"));
}

TEST_CASE("sign: without a munged it is said where one was sought", "[sign]")
{
    auto socket = "/nonexistent/munge.socket"s;
    auto j = sign_wrap("{}", Mechanism::munge, geteuid(), socket);
    REQUIRE_FALSE(j.has_value());
    CHECK_THAT(j.error().message, Contains("cannot sign; is munged running?")
                                      && Contains("socket /nonexistent/munge.socket"));
    CHECK_THAT(refusal(header("munge", geteuid()) + ".e30=.MUNGE:x:",
                       {.munge_socket = socket}),
               Contains("cannot verify; is munged running?") && Contains(socket));
}

TEST_CASE("sign: mechanism munge", "[sign][munge]")
{
    static Munged munged; // one for all sections
    if (!munged.missing().empty()) {
        WARN("SKIPPED: " << munged.missing());
        return;
    }
    const SignPolicy policy{.munge_socket = munged.socket()};
    const auto uid = geteuid();
    const auto good =
        wrapped("{\"version\":1}", Mechanism::munge, uid, munged.socket());
    const auto [head, payload, signature] = parts_of(good);

    SECTION("is verified, and again: a replay is success")
    {
        for (int i = 0; i < 3; i++) {
            auto request = sign_unwrap(good, policy);
            REQUIRE(request.has_value());
            CHECK(request->payload == "{\"version\":1}");
            CHECK(request->userid == uid);
            CHECK(request->mechanism == Mechanism::munge);
        }
        CHECK(head == header("munge", uid));
        CHECK(signature.starts_with("MUNGE:"));
    }
    SECTION("holds the SHA-256 of HEADER.PAYLOAD")
    {
        // The digest is sha256sum's of this text.
        auto j = wrapped("{}", Mechanism::munge, 1001, munged.socket());
        REQUIRE(j.starts_with("dmVyc2lvbgBpMQBtZWNoYW5pc20Ac211bmdlAHVzZXJpZABpMTAwMQA="
                              ".e30=."));
        auto context = munge_ctx_create();
        munge_ctx_set(context, MUNGE_OPT_SOCKET, munged.socket().c_str());
        void* content = nullptr;
        int size = 0;
        REQUIRE(munge_decode(parts_of(j)[2].c_str(), context, &content, &size, nullptr,
                             nullptr)
                == EMUNGE_SUCCESS);
        CHECK(std::string(static_cast<char*>(content), static_cast<std::size_t>(size))
              == "\x01\x36\x8f\x04\xaa\xbe\x2f\x17\xf6\xa0\xca\x72\xe2\x27\x67\x8e"
                 "\x95\xa7\x56\xf6\x50\x07\x2e\x8c\xad\x07\x28\xf9\x25\x05\x7d\x78"
                 "\x86"s);
        std::free(content);
        munge_ctx_destroy(context);
    }
    SECTION("a tampered payload")
    {
        CHECK_THAT(
            refusal(head + "." + base64_encode("{\"version\":2}") + "." + signature,
                    policy),
            Contains("not one of this header and payload"));
        CHECK_THAT(refusal(head + ".." + signature, policy),
                   Contains("not one of this header and payload"));
    }
    SECTION("a tampered header")
    {
        CHECK_THAT(
            refusal(header("munge", uid + 1) + "." + payload + "." + signature, policy),
            Contains("not one of this header and payload"));
        // The mechanism is signed for, too.
        CHECK_THAT(
            refusal(header("none", uid) + "." + payload + "." + signature, allow_none),
            Contains("is not \"none\""));
    }
    SECTION("a tampered or foreign signature")
    {
        auto tampered = signature;
        tampered[tampered.size() / 2] ^= 1;
        auto signed_part = head + "." + payload + ".";
        CHECK_THAT(refusal(signed_part + tampered, policy),
                   Contains("the signature is not valid"));
        CHECK_THAT(refusal(signed_part + "none", policy),
                   Contains("the signature is not valid"));
        CHECK_THAT(refusal(signed_part + signature.substr(0, 40), policy),
                   Contains("the signature is not valid"));

        Munged other; // of another realm
        REQUIRE(other.missing().empty());
        CHECK_THAT(refusal(good, {.munge_socket = other.socket()}),
                   Contains("the signature is not valid"));
    }
    SECTION("a credential with other content")
    {
        auto mismatch = "not one of this header and payload";
        auto signed_part = head + "." + payload;
        auto digest = std::string(32, 'x');
        for (const auto& content :
             {""s, "\x01"s, "\x01"s + digest, "\x02"s + digest, digest})
            CHECK_THAT(refusal(signed_part + "." + credential(content, munged.socket()),
                               policy),
                       Contains(mismatch));
    }
    SECTION("the right digest with another hash type, or more behind it")
    {
        auto context = munge_ctx_create();
        munge_ctx_set(context, MUNGE_OPT_SOCKET, munged.socket().c_str());
        void* content = nullptr;
        int size = 0;
        munge_decode(signature.c_str(), context, &content, &size, nullptr, nullptr);
        std::string right(static_cast<char*>(content), static_cast<std::size_t>(size));
        std::free(content);
        munge_ctx_destroy(context);
        REQUIRE(right.size() == 33);
        auto with = [&](const std::string& other) {
            return head + "." + payload + "." + credential(other, munged.socket());
        };
        CHECK(sign_unwrap(with(right), policy).has_value());
        CHECK_THAT(refusal(with(right + "x"), policy), Contains("not one of"));
        CHECK_THAT(refusal(with("\x02" + right.substr(1)), policy),
                   Contains("not one of"));
        CHECK_THAT(refusal(with(right.substr(0, 32)), policy), Contains("not one of"));
    }
    SECTION("a claim to be somebody else")
    {
        auto j = wrapped("{}", Mechanism::munge, uid + 1, munged.socket());
        CHECK(sign_read(j)->userid == uid + 1);
        auto request = sign_unwrap(j, policy);
        REQUIRE_FALSE(request.has_value());
        CHECK(request.error().errnum == EPERM);
        CHECK_THAT(request.error().message,
                   Contains("claims userid " + std::to_string(uid + 1))
                       && Contains("but " + std::to_string(uid) + " signed"));
    }
    SECTION("older than the configuration allows")
    {
        auto strict = policy;
        strict.max_ttl = -1; // so that it is too old from the start
        auto request = sign_unwrap(good, strict);
        REQUIRE_FALSE(request.has_value());
        CHECK(request.error().errnum == EPERM);
        CHECK_THAT(request.error().message, Contains("max-ttl"));
    }
    SECTION("must be allowed")
    {
        CHECK_THAT(refusal(good, allow_none), Contains("mechanism munge is not among"));
    }
}
