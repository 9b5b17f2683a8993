// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/kv.h: RFC 38 with its test vectors; what decode() refuses.
#include "lib/imp/kv.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cfloat>
#include <clocale>
#include <cmath>
#include <random>

using namespace fluxdat::imp;
using Catch::Matchers::Contains;
using namespace std::string_literals;

namespace {

constexpr auto dbl_max_text =
    "17976931348623157081452742373170435679807056752584499659891747680315726078002853"
    "87605895586327668781715404589535143824642343213268894641827684675467035375169860"
    "49910576551282076245490090389328944075868508455133942304583236903222948165808559"
    "332123348274797826204144723168738177180919299881250404026184124858368.000000";

Kv accepted(const std::string& bytes)
{
    auto kv = Kv::decode(bytes);
    if (!kv)
        FAIL(kv.error().message);
    return *kv;
}

std::string refusal(const std::string& bytes)
{
    auto kv = Kv::decode(bytes);
    REQUIRE_FALSE(kv.has_value());
    CHECK(kv.error().errnum != 0);
    return kv.error().message;
}

} // namespace

TEST_CASE("kv: the test vectors of RFC 38", "[kv]")
{
    Kv kv;
    REQUIRE(kv.put_string("PATH", "/bin:/usr/bin"));
    REQUIRE(kv.put_string("EMPTY_STRING", ""));
    REQUIRE(kv.put_string("JOB_ID_STRING", "ƒuzzybunny"));
    REQUIRE(kv.put_integer("INT_PLUS", 42));
    REQUIRE(kv.put_integer("INT_MINUS", -42));
    REQUIRE(kv.put_integer("INT64_MAX", INT64_MAX));
    REQUIRE(kv.put_integer("INT64_MIN", INT64_MIN));
    REQUIRE(kv.put_real("DOUBLE", 3.0));
    REQUIRE(kv.put_real("DOUBLE_INF", INFINITY));
    REQUIRE(kv.put_real("DBL_MIN", DBL_MIN));
    REQUIRE(kv.put_real("DBL_MAX", DBL_MAX));
    REQUIRE(kv.put_real("MINUS_DBL_MAX", -DBL_MAX));
    REQUIRE(kv.put_boolean("FALSE", false));
    REQUIRE(kv.put_boolean("TRUE", true));
    REQUIRE(kv.put_timestamp("TIMESTAMP", 1692370785));

    auto bytes = "PATH\0s/bin:/usr/bin\0"s
                 "EMPTY_STRING\0s\0"s
                 "JOB_ID_STRING\0sƒuzzybunny\0"s
                 "INT_PLUS\0i42\0"s
                 "INT_MINUS\0i-42\0"s
                 "INT64_MAX\0i9223372036854775807\0"s
                 "INT64_MIN\0i-9223372036854775808\0"s
                 "DOUBLE\0d3.000000\0"s
                 "DOUBLE_INF\0dinf\0"s
                 "DBL_MIN\0d0.000000\0"s
                 "DBL_MAX\0d"s
                 + dbl_max_text + "\0MINUS_DBL_MAX\0d-"s + dbl_max_text + "\0"s
                 + "FALSE\0bfalse\0"s
                   "TRUE\0btrue\0"s
                   "TIMESTAMP\0t2023-08-18T14:59:45Z\0"s;
    CHECK(kv.encode() == bytes);

    auto decoded = accepted(bytes);
    CHECK(decoded == kv);
    CHECK(decoded.size() == 15);
    CHECK(decoded.get_string("PATH") == "/bin:/usr/bin");
    CHECK(decoded.get_string("EMPTY_STRING") == "");
    CHECK(decoded.get_string("JOB_ID_STRING") == "ƒuzzybunny");
    CHECK(decoded.get_integer("INT_PLUS") == 42);
    CHECK(decoded.get_integer("INT_MINUS") == -42);
    CHECK(decoded.get_integer("INT64_MAX") == INT64_MAX);
    CHECK(decoded.get_integer("INT64_MIN") == INT64_MIN);
    CHECK(decoded.get_real("DOUBLE") == 3.0);
    CHECK(decoded.get_real("DOUBLE_INF") == INFINITY);
    CHECK(decoded.get_real("DBL_MIN") == 0.0); // six decimals are all it has
    CHECK(decoded.get_real("DBL_MAX") == DBL_MAX);
    CHECK(decoded.get_real("MINUS_DBL_MAX") == -DBL_MAX);
    CHECK(decoded.get_boolean("FALSE") == false);
    CHECK(decoded.get_boolean("TRUE") == true);
    CHECK(decoded.get_timestamp("TIMESTAMP") == 1692370785);
}

TEST_CASE("kv: nothing is nothing", "[kv]")
{
    CHECK(accepted("").size() == 0);
    CHECK(Kv().encode().empty());
}

TEST_CASE("kv: no value is had as another type", "[kv]")
{
    Kv kv;
    REQUIRE(kv.put_integer("n", 1));
    auto as_real = kv.get_real("n");
    REQUIRE_FALSE(as_real.has_value());
    CHECK(as_real.error().errnum == EINVAL);
    CHECK(as_real.error().message == "kv: \"n\" is an integer, not a real number");
    CHECK_FALSE(kv.get_string("n").has_value());
    CHECK_FALSE(kv.get_boolean("n").has_value());
    CHECK_FALSE(kv.get_timestamp("n").has_value());
    REQUIRE(kv.put_string("s", "1"));
    CHECK_THAT(kv.get_integer("s").error().message,
               Contains("a string, not an integer"));

    auto missing = kv.get_string("x\n");
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().errnum == ENOENT);
    CHECK(missing.error().message == "kv: the key \"x\\x0a\" is missing");
    CHECK(kv.contains("n"));
    CHECK_FALSE(kv.contains("x"));
}

TEST_CASE("kv: what cannot be put", "[kv]")
{
    Kv kv;
    CHECK_THAT(kv.put_string("", "x").error().message, Contains("a key is empty"));
    CHECK_THAT(kv.put_string("a\0b"s, "x").error().message, Contains("a NUL in"));
    CHECK_THAT(kv.put_string("a", "x\0"s).error().message, Contains("a NUL in"));
    CHECK_THAT(kv.put_real("a", NAN).error().message, Contains("not a number"));
    CHECK_THAT(kv.put_timestamp("a", 253402300800).error().message, Contains("year"));
    CHECK_THAT(kv.put_timestamp("a", INT64_MAX).error().message, Contains("year"));
    CHECK(kv.size() == 0);
    REQUIRE(kv.put_string("a", "x"));
    auto again = kv.put_integer("a", 1);
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().errnum == EEXIST);
    CHECK(kv.get_string("a") == "x");
}

TEST_CASE("kv: malformed encodings are refused", "[kv]")
{
    CHECK_THAT(refusal("a"), Contains("cut off"));
    CHECK_THAT(refusal("a\0"s), Contains("cut off"));
    CHECK_THAT(refusal("a\0s"s), Contains("cut off"));
    CHECK_THAT(refusal("a\0sx"s), Contains("cut off"));
    CHECK_THAT(refusal("\0"s), Contains("cut off"));
    CHECK_THAT(refusal("a\0\0"s), Contains("\"a\" has no type"));
    CHECK_THAT(refusal("\0sx\0"s), Contains("a key is empty"));
    CHECK_THAT(refusal("a\0x1\0"s), Contains("unknown type: \"x\""));
    CHECK_THAT(refusal("a\0S1\0"s), Contains("unknown type"));
    CHECK_THAT(refusal("a\0s1\0a\0s1\0"s), Contains("\"a\" comes twice"));
    CHECK_THAT(refusal("a\0s1\0a\0i1\0"s), Contains("\"a\" comes twice"));
    // The last pair would be hidden from a reader that stops at an empty key.
    CHECK_THAT(refusal("a\0s1\0\0s\0b\0s1\0"s), Contains("a key is empty"));
}

TEST_CASE("kv: values are written in one way only", "[kv]")
{
    for (auto text : {"", "+1", "01", "-0", "1.0", " 1", "1 ", "0x1", "1e3",
                      "9223372036854775808", "-9223372036854775809", "x"})
        CHECK_THAT(refusal("a\0i"s + text + "\0"s), Contains("is not an integer"));
    for (auto text : {"", "3", "3.0", "3.0000000", "+3.000000", "03.000000", "3e0",
                      "nan", "-nan", "INF", "infinity", "3,000000", "1e999", "x"})
        CHECK_THAT(refusal("a\0d"s + text + "\0"s), Contains("is not a real number"));
    for (auto text : {"", "True", "TRUE", "1", "yes", "true "})
        CHECK_THAT(refusal("a\0b"s + text + "\0"s), Contains("is not a boolean"));
    for (auto text :
         {"", "2023-08-18", "2023-08-18T14:59:45", "2023-08-18 14:59:45Z",
          "2023-08-18T14:59:45z", "2023-02-30T14:59:45Z", "2023-08-18T24:00:00Z",
          "2023-08-18T14:59:60Z", "2023-13-18T14:59:45Z", "23-08-18T14:59:45Z",
          "2023-08-18T14:59:45.0Z", "2023-8-018T14:59:45Z", "xxxx-xx-xxTxx:xx:xxZ"})
        CHECK_THAT(refusal("a\0t"s + text + "\0"s), Contains("is not a timestamp"));
    CHECK(accepted("a\0d-inf\0"s).get_real("a") == -INFINITY);
    CHECK(accepted("a\0d-0.000000\0"s).get_real("a") == 0);
    CHECK(accepted("a\0t1970-01-01T00:00:00Z\0"s).get_timestamp("a") == 0);
    CHECK(accepted("a\0t9999-12-31T23:59:59Z\0"s).get_timestamp("a") == 253402300799);
}

TEST_CASE("kv: the comma of a locale changes nothing", "[kv]")
{
    // Where no such locale is installed the calls fail and the test holds trivially.
    std::setlocale(LC_ALL, "de_DE.UTF-8");
    Kv kv;
    REQUIRE(kv.put_real("a", 1.5));
    CHECK(kv.encode() == "a\0d1.500000\0"s);
    CHECK(accepted(kv.encode()).get_real("a") == 1.5);
    std::setlocale(LC_ALL, "C");
}

TEST_CASE("kv: size is bounded", "[kv]")
{
    CHECK_THAT(refusal(std::string(kv_bytes_max + 1, 'x')), Contains("more than"));
    auto largest = "a\0s"s + std::string(kv_bytes_max - 4, 'x') + "\0"s;
    REQUIRE(largest.size() == kv_bytes_max);
    CHECK(accepted(largest).size() == 1);

    std::string many;
    for (std::size_t i = 0; i < kv_pairs_max; i++)
        many += std::to_string(i) + "\0s\0"s;
    CHECK(accepted(many).size() == kv_pairs_max);
    CHECK_THAT(refusal(many + "x\0s\0"s), Contains("more than 65536 pairs"));
}

TEST_CASE("kv: every mutation is refused or comes back byte for byte", "[kv]")
{
    auto seed = "version\0i1\0mechanism\0smunge\0userid\0i1001\0x\0d1.500000\0"
                "b\0btrue\0t\0t2023-08-18T14:59:45Z\0"s;
    std::mt19937 random(38);
    for (int i = 0; i < 50000; i++) {
        auto bytes = seed;
        for (auto n = 1 + random() % 3; n > 0; n--) {
            auto at = random() % bytes.size();
            switch (random() % 3) {
            case 0:
                bytes[at] = static_cast<char>(random());
                break;
            case 1:
                bytes.erase(at, 1 + random() % 4);
                break;
            default:
                bytes.insert(at, 1, "\0si0"[random() % 4]);
            }
        }
        if (auto kv = Kv::decode(bytes))
            REQUIRE(kv->encode() == bytes);
    }
}

TEST_CASE("kv: joined under a prefix and split again", "[kv]")
{
    Kv whole;
    Kv argv = *kv_from_argv({"flux-shell", "123", ""});
    Kv environment = *kv_from_environment({"PATH=/bin", "EMPTY=", "EQUALS=a=b"});
    REQUIRE(whole.put_integer("uid", 1));
    REQUIRE(kv_join(whole, argv, "argv."));
    REQUIRE(kv_join(whole, environment, "env."));
    CHECK(whole.get_string("argv.1") == "123");
    CHECK(whole.get_string("env.PATH") == "/bin");

    auto received = accepted(whole.encode());
    CHECK(kv_split(received, "argv.") == argv);
    CHECK(kv_to_argv(kv_split(received, "argv."))
          == std::vector<std::string>{"flux-shell", "123", ""});
    CHECK(kv_to_environment(kv_split(received, "env."))
          == std::vector<std::string>{"PATH=/bin", "EMPTY=", "EQUALS=a=b"});
    CHECK(kv_split(received, "none.").size() == 0);
    CHECK(kv_split(received, "uid").size() == 0); // nothing is left of the key

    auto twice = kv_join(whole, argv, "argv.");
    REQUIRE_FALSE(twice.has_value());
    CHECK(twice.error().errnum == EEXIST);
}

TEST_CASE("kv: what is no argv and no environment", "[kv]")
{
    auto to_argv = [](const std::string& bytes) {
        return kv_to_argv(accepted(bytes)).error().message;
    };
    CHECK(kv_to_argv(Kv()) == std::vector<std::string>{});
    CHECK_THAT(to_argv("1\0sx\0"s), Contains("expected argument 0, found \"1\""));
    CHECK_THAT(to_argv("0\0sx\0"
                       "2\0sx\0"s),
               Contains("expected argument 1"));
    CHECK_THAT(to_argv("00\0sx\0"s), Contains("expected argument 0"));
    CHECK_THAT(to_argv("0\0i1\0"s), Contains("argument 0 is an integer"));
    CHECK_THAT(kv_from_argv({"a\0b"s}).error().message, Contains("a NUL in"));

    for (auto entry : {"PATH", "=x", ""})
        CHECK_THAT(kv_from_environment({entry}).error().message,
                   Contains("not NAME=VALUE"));
    CHECK_THAT(kv_from_environment({"A=1", "A=2"}).error().message,
               Contains("\"A\" comes twice"));
    for (auto& bytes : {"A\0i1\0"s, "A=B\0s1\0"s})
        CHECK_THAT(kv_to_environment(accepted(bytes)).error().message,
                   Contains("no environment variable"));
}
