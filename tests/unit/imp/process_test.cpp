// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/imp/process.h, audit.h
#include "lib/imp/process.h"

#include "lib/imp/audit.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

using namespace fluxdat::imp;

TEST_CASE("process: words for execve", "[process]")
{
    std::vector<std::string> words{"a", "", "b c"};
    auto pointers = c_strings(words);
    REQUIRE(pointers.size() == 4);
    CHECK(std::strcmp(pointers[2], "b c") == 0);
    CHECK(pointers[3] == nullptr);
    CHECK(c_strings({}).size() == 1);
}

TEST_CASE("process: text from outside is one line", "[process]")
{
    CHECK(printable("a\nb\x1b[31m\xff~ ") == "a?b?[31m?~ ");
}

TEST_CASE("process: exit status of what cannot be executed", "[process]")
{
    CHECK(exec_status(ENOENT) == 127);
    CHECK(exec_status(EACCES) == 126);
    CHECK(exec_status(EAGAIN) == 126);
}

TEST_CASE("audit: values cannot end themselves or the line", "[audit]")
{
    CHECK(audit_line("exec", true, {{"owner", audit_user({5, 5, "flux", "/"})}})
          == "exec: accepted owner=\"flux(5)\"");
    CHECK(audit_line("run", false, {{"name", "x\" user=\"root\\\nmore"}})
          == "run: refused name=\"x' user='root'?more\"");
    CHECK(audit_line("run", false, {{"name", std::string(5000, 'x')}}).size() < 300);
}
