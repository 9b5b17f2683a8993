// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/privsep.h, with shell scripts for readers. Who the reader is as a process is
// in tests/imp.
#include "lib/imp/privsep.h"

#include "tests/unit/imp/place.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <unistd.h>

using namespace fluxdat::imp;
using Catch::Matchers::Contains;

namespace {

Result<Kv> read(const Place& place, const std::string& script, int seconds = 30)
{
    auto program = place.write("reader", "#!/bin/sh\n" + script + "\n", 0755);
    return read_input({program, getuid(), {"name", "a b"}, seconds}, getuid(),
                      getgid());
}

std::string refusal(const std::string& script, int seconds = 30)
{
    Place place;
    auto kv = read(place, script, seconds);
    REQUIRE_FALSE(kv.has_value());
    return kv.error().message;
}

} // namespace

TEST_CASE("privsep: a reader's answer", "[privsep]")
{
    Place place;
    auto kv = read(place, "printf 'J\\000s%s,%s\\000' \"$1\" \"$2\" >&3");
    REQUIRE(kv.has_value());
    CHECK(*kv->get_string("J") == "name,a b");
}

TEST_CASE("privsep: a reader has no descriptors but the pipe", "[privsep]")
{
    Place place;
    int other = fcntl(STDERR_FILENO, F_DUPFD, 20);
    REQUIRE(other >= 20);
    auto kv = read(place, "x=no; [ -e /proc/$$/fd/" + std::to_string(other)
                              + " ] && x=yes; printf \"there\\000s$x\\000\" >&3");
    close(other);
    REQUIRE(kv.has_value());
    CHECK(*kv->get_string("there") == "no");
}

TEST_CASE("privsep: what is refused", "[privsep]")
{
    CHECK_THAT(refusal("printf 'error\\000sno\\nway\\000' >&3; exit 1"),
               Contains("no?way"));
    CHECK_THAT(refusal("printf 'error\\000i5\\000' >&3"), Contains("is no text"));
    CHECK_THAT(refusal("exit 3"), Contains("ended with status 3 and gave no answer"));
    CHECK_THAT(refusal("printf 'J\\000sx\\000' >&3; exit 3"), Contains("status 3"));
    CHECK_THAT(refusal("kill -9 $$"), Contains("was killed by signal 9"));
    CHECK_THAT(refusal("echo garbage >&3"), Contains("the reader's answer: kv"));
    CHECK_THAT(refusal("exec cat /dev/zero >&3"), Contains("wrote more than"));
    CHECK_THAT(refusal("exec sleep 1000", 0),
               Contains("did not come to an end within"));
}

TEST_CASE("privsep: a reader that cannot be executed", "[privsep]")
{
    Place place;
    auto program = place.write("reader", "text", 0644);
    auto kv = read_input({program, getuid(), {}}, getuid(), getgid());
    REQUIRE_FALSE(kv.has_value());
    CHECK_THAT(kv.error().message, Contains("cannot be executed"));
    kv = read_input({place.path("none"), getuid(), {}}, getuid(), getgid());
    REQUIRE_FALSE(kv.has_value());
    CHECK_THAT(kv.error().message, Contains("none: No such file"));
}
