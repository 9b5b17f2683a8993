// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/in_time.h"

#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <poll.h>

using namespace fluxdat;

TEST_CASE("calls that do not return leave so many threads, and no more")
{
    auto answer_now = [] { return in_time(std::chrono::hours(1), [] { return 1; }); };
    CHECK(answer_now() == 1);
    std::promise<void> end;
    // One that is not called lets go of it at once.
    auto held = std::make_shared<std::shared_future<void>>(end.get_future());
    for (int i = 0; i < 2 * calls_in_time_max; i++)
        CHECK_FALSE(in_time(std::chrono::seconds(0), [held] {
            held->wait();
            return 1;
        }));
    CHECK(held.use_count() <= 1 + calls_in_time_max);
    CHECK_FALSE(answer_now());
    end.set_value();
    while (held.use_count() > 1)
        ::poll(nullptr, 0, 1);
    CHECK(answer_now() == 1);
}
