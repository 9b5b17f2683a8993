// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/readable.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <thread>

using namespace fluxdat;

namespace {

struct Pipe {
    Fd in, out;
    Pipe()
    {
        int fds[2];
        REQUIRE(pipe(fds) == 0);
        in = Fd(fds[0]);
        out = Fd(fds[1]);
    }
};

} // namespace

TEST_CASE("all is written, also where somebody made the file non-blocking")
{
    Pipe pipe;
    REQUIRE(fcntl(pipe.out.get(), F_SETFL, O_NONBLOCK) == 0);
    std::string text(1u << 20, 'x'), got; // more than a pipe holds
    std::thread reader([&] {
        std::string bytes(1u << 16, '\0');
        while (true) {
            auto count = read(pipe.in.get(), bytes.data(), bytes.size());
            if (count <= 0)
                break;
            got.append(bytes, 0, static_cast<std::size_t>(count));
        }
    });
    CHECK(write_all(pipe.out.get(), text));
    pipe.out = Fd();
    reader.join();
    CHECK(got == text);
}

TEST_CASE("what cannot be written is told by errno")
{
    Pipe pipe;
    pipe.in = Fd();
    auto before = std::signal(SIGPIPE, SIG_IGN);
    CHECK_FALSE(write_all(pipe.out.get(), "text"));
    CHECK(errno == EPIPE);
    std::signal(SIGPIPE, before);
}

TEST_CASE("a watch is readable when its descriptor is, and leaves its flags alone")
{
    Pipe pipe;
    auto watch = watch_readable(pipe.in.get());
    REQUIRE(watch);
    pollfd look{watch.get(), POLLIN, 0};
    CHECK(poll(&look, 1, 0) == 0);
    CHECK(write_all(pipe.out.get(), "x"));
    CHECK(poll(&look, 1, 0) == 1);
    CHECK((fcntl(pipe.in.get(), F_GETFL) & O_NONBLOCK) == 0);
    Fd null(open("/dev/null", O_RDONLY));
    CHECK_FALSE(watch_readable(null.get()));
}
