// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/trusted.h, with this user in the place of root. Owners are for
// tests/imp/test_config.py.
#include "lib/imp/trusted.h"

#include "tests/unit/imp/place.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

using namespace fluxdat::imp;
using Catch::Matchers::Contains;

namespace {

std::string refusal(const std::string& path)
{
    INFO(path);
    auto opened = open_trusted(path, getuid());
    auto checked = check_trusted(path, getuid());
    REQUIRE_FALSE(opened.has_value());
    REQUIRE_FALSE(checked.has_value());
    CHECK(opened.error().message == checked.error().message);
    return opened.error().message;
}

} // namespace

TEST_CASE("trusted: a file of one's own", "[trusted]")
{
    Place place;
    auto path = place.write("file", "text");
    auto opened = open_trusted(path, getuid());
    REQUIRE(opened.has_value());
    char text[8];
    CHECK(read(opened->get(), text, sizeof(text)) == 4);
    CHECK(check_trusted(place.path("/file"), getuid()).has_value());
}

TEST_CASE("trusted: what is refused of a file", "[trusted]")
{
    Place place;
    auto path = place.write("file", "");
    chmod(path.c_str(), 0646);
    CHECK_THAT(refusal(path),
               Contains("can be written by others than root (mode 0646)"));
    chmod(path.c_str(), 0644);
    REQUIRE(symlink("file", place.path("link").c_str()) == 0);
    CHECK_THAT(refusal(place.path("link")), Contains("is a symbolic link"));
    REQUIRE(mkfifo(place.path("fifo").c_str(), 0600) == 0);
    CHECK_THAT(refusal(place.path("fifo")), Contains("is not a regular file"));
    CHECK_THAT(refusal(place.path()), Contains("is not a regular file"));
    CHECK_THAT(refusal(place.path("none")), Contains("No such file"));
}

TEST_CASE("trusted: what is refused of a directory", "[trusted]")
{
    Place place;
    place.write("file", "");
    mkdir(place.path("inner").c_str(), 0755);
    auto path = place.write("inner/file", "");
    chmod(place.path("inner").c_str(), 0777);
    CHECK_THAT(refusal(path),
               Contains(place.path("inner") + ": can be written by others"));
    chmod(place.path("inner").c_str(), 01777);
    CHECK(open_trusted(path, getuid()).has_value());
    REQUIRE(symlink("inner", place.path("link").c_str()) == 0);
    CHECK_THAT(refusal(place.path("link/file")), Contains("is a symbolic link"));
    CHECK_THAT(refusal(place.path("file/file")), Contains("is not a directory"));
}

TEST_CASE("trusted: paths that are none", "[trusted]")
{
    CHECK_THAT(refusal("file"), Contains("is not an absolute path"));
    CHECK_THAT(refusal(""), Contains("is not an absolute path"));
    CHECK_THAT(refusal("/tmp/../etc/passwd"), Contains("has . or .. in it"));
    CHECK_THAT(refusal("/etc/./passwd"), Contains("has . or .. in it"));
    CHECK_THAT(refusal("/"), Contains("is not a regular file"));
}
