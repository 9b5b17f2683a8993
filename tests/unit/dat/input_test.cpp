// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/input.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fcntl.h>

using namespace fluxdat;
using dat::Input;

TEST_CASE("a pipe is read as it comes, to its end")
{
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    Fd in(fds[0]), out(fds[1]);
    flux::Loop loop;
    flux::Interrupt interrupt;
    Input input(loop, in.get());
    for (std::string text : {"one", "two"}) {
        REQUIRE(write(out.get(), text.data(), text.size()) == 3);
        CHECK(loop.run(input.read(interrupt)) == text);
    }
    out = Fd();
    CHECK(loop.run(input.read(interrupt)) == "");
    CHECK((fcntl(in.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a file and /dev/null, which no epoll takes")
{
    flux::Loop loop;
    flux::Interrupt interrupt;
    Fd null(open("/dev/null", O_RDONLY));
    CHECK(loop.run(Input(loop, null.get()).read(interrupt)) == "");
    auto* file = std::tmpfile();
    REQUIRE(file);
    std::fputs("text", file);
    std::rewind(file);
    Input input(loop, fileno(file));
    CHECK(loop.run(input.read(interrupt)) == "text");
    CHECK(loop.run(input.read(interrupt)) == "");
    std::fclose(file);
}

TEST_CASE("a descriptor that is closed is at its end, and a directory an error")
{
    flux::Loop loop;
    flux::Interrupt interrupt;
    CHECK(loop.run(Input(loop, 999).read(interrupt)) == "");
    Fd directory(open("/", O_RDONLY));
    auto read = loop.run(Input(loop, directory.get()).read(interrupt));
    REQUIRE_FALSE(read);
    CHECK(read.error().message == "cannot read standard input: Is a directory");
}

TEST_CASE("an interrupt ends the wait, and loses nothing")
{
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    Fd in(fds[0]), out(fds[1]);
    flux::Loop loop;
    flux::Interrupt interrupt;
    Input input(loop, in.get());
    auto both = [](flux::Loop& in_loop, Input& from,
                   flux::Interrupt& reason) -> flux::Task<Result<std::string>> {
        in_loop.spawn(
            [](flux::Loop& timer, flux::Interrupt& raised) -> flux::Task<void> {
                (void)co_await timer.sleep(0);
                raised.raise({"enough"});
            }(in_loop, reason));
        co_return co_await from.read(reason);
    };
    auto read = loop.run(both(loop, input, interrupt));
    REQUIRE_FALSE(read);
    CHECK(read.error().message == "enough");
    interrupt.clear();
    REQUIRE(write(out.get(), "x", 1) == 1);
    CHECK(loop.run(input.read(interrupt)) == "x");
}
