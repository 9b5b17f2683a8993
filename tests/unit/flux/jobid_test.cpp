// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/jobid.h: RFC 19, its examples and what must be refused.
#include "lib/flux/jobid.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;

namespace {

std::string refusal(std::string_view text)
{
    auto id = parse_jobid(text);
    REQUIRE_FALSE(id.has_value());
    CHECK(id.error().exit == Exit::usage);
    CHECK(id.error().message.find('\n') == std::string::npos);
    return id.error().message;
}

JobId accepted(std::string_view text)
{
    INFO(text);
    auto id = parse_jobid(text);
    REQUIRE(id.has_value());
    return *id;
}

constexpr JobId example = 6731191091817518;

} // namespace

TEST_CASE("jobid: the examples of RFC 19", "[jobid]")
{
    CHECK(accepted("6731191091817518") == example);
    CHECK(accepted("ƒuZZybuNNy") == example);
    CHECK(accepted("fuZZybuNNy") == example);
    CHECK(accepted("0x17e9fb8df16c2e") == example);
    CHECK(accepted("0017.e9fb.8df1.6c2e") == example);
    CHECK(accepted("0xedaf97d000000") == accepted("000e.daf9.7d00.0000"));
    CHECK(format_jobid(example) == "ƒuZZybuNNy");
    CHECK(format_jobid_ascii(example) == "fuZZybuNNy");
    for (auto text : {"ƒZemgA8Bzf", "ƒ278oEf7zGf"})
        CHECK(format_jobid(accepted(text)) == text);
}

TEST_CASE("jobid: the ends of the range", "[jobid]")
{
    CHECK(format_jobid(0) == "ƒ1");
    CHECK(accepted("ƒ1") == 0);
    CHECK(accepted("0") == 0);
    CHECK(accepted("0.0.0.0") == 0);
    CHECK(format_jobid_ascii(UINT64_MAX) == "fjpXCZedGfVQ");
    CHECK(accepted("fjpXCZedGfVQ") == UINT64_MAX);
    CHECK(accepted("18446744073709551615") == UINT64_MAX);
    CHECK(accepted("0xffffffffffffffff") == UINT64_MAX);
    CHECK(accepted("ffff.ffff.ffff.ffff") == UINT64_MAX);

    // Flux's own commands give job 0 for the first of these.
    CHECK_THAT(refusal("fjpXCZedGfVR"), Contains("64 bits"));
    CHECK_THAT(refusal("fzzzzzzzzzzz"), Contains("64 bits"));
    CHECK_THAT(refusal("18446744073709551616"), Contains("64 bits"));
    CHECK_THAT(refusal("0x10000000000000000"), Contains("64 bits"));
}

TEST_CASE("jobid: every id comes back from its own text", "[jobid]")
{
    JobId id = 1;
    for (int i = 0; i < 1000; i++) {
        id = id * 6364136223846793005u + 1442695040888963407u;
        for (auto value : {id, id >> (i % 64)}) {
            CHECK(parse_jobid(format_jobid(value)) == value);
            CHECK(parse_jobid(format_jobid_ascii(value)) == value);
        }
    }
}

TEST_CASE("jobid: white space around it is ignored", "[jobid]")
{
    CHECK(accepted(" \tfuZZybuNNy\n") == example);
    refusal("6731 191091817518");
}

TEST_CASE("jobid: what is no job id is refused with the reason", "[jobid]")
{
    CHECK_THAT(refusal(""), Contains("\"\" is no job id: it is empty"));
    CHECK_THAT(refusal("  "), Contains("empty"));
    CHECK_THAT(refusal("-1"), Contains("negative"));
    CHECK_THAT(refusal("+1"), Contains("expected a number"));
    CHECK_THAT(refusal("demo"), Contains("expected a number, or F58"));
    CHECK_THAT(refusal("12x"), Contains("expected a number"));
    CHECK_THAT(refusal("0X12"), Contains("expected a number"));
    CHECK_THAT(refusal("0x"), Contains("after 0x"));
    CHECK_THAT(refusal("0x12g"), Contains("after 0x"));
    CHECK_THAT(refusal("ƒ"), Contains("nothing follows"));
    CHECK_THAT(refusal("f"), Contains("nothing follows"));
    CHECK_THAT(refusal("f10"), Contains("F58 has no \"0\""));
    CHECK_THAT(refusal("fluke"), Contains("F58 has no \"l\""));
    CHECK_THAT(refusal("fA%"), Contains("F58 has no \"%\""));
    CHECK_THAT(refusal("1.5"), Contains("four groups"));
    CHECK_THAT(refusal("0.0.0.0.0"), Contains("four groups"));
    CHECK_THAT(refusal("0.0.0."), Contains("four groups"));
    CHECK_THAT(refusal(".0.0.0"), Contains("four groups"));
    CHECK_THAT(refusal("0.0.0.00000"), Contains("four groups"));
    CHECK_THAT(refusal("0.0.0.-1"), Contains("four groups"));
    CHECK_THAT(refusal("reform-remote-galileo--heart-package-academy"),
               Contains("words"));
    CHECK_THAT(refusal("🚹💂🙌😳💱🏃"), Contains("emoji"));
}

TEST_CASE("jobid: the message cannot write to the terminal", "[jobid]")
{
    CHECK_THAT(refusal("1\x1b[2J\n"), Contains("\\x1b[2J"));
    CHECK(refusal(std::string(100000, '9') + "x").size() < 300);
    CHECK_THAT(refusal(std::string_view("12\0", 3)), Contains("\\x00"));
}

TEST_CASE("jobid: in ASCII where it is asked for", "[jobid]")
{
    setenv("FLUX_F58_FORCE_ASCII", "1", 1);
    CHECK(jobids_need_ascii());
    unsetenv("FLUX_F58_FORCE_ASCII");
    setenv("LC_ALL", "C", 1);
    CHECK(jobids_need_ascii());
    setenv("LC_ALL", "C.UTF-8", 1);
    CHECK_FALSE(jobids_need_ascii());
    unsetenv("LC_ALL");

    auto usual = format_jobid(1000);
    show_jobids_in_ascii(true);
    CHECK(format_jobid(1000) == format_jobid_ascii(1000));
    show_jobids_in_ascii(false);
    CHECK(format_jobid(1000) == usual);
    CHECK(usual != format_jobid_ascii(1000));
}
