// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A DAT of no ranks and its parent, as far as a supervisor sees them, that a test can
// let go wrong.
#pragma once

#include "lib/dat/book.h"
#include "tests/unit/flux/fake_broker.h"

#include <atomic>
#include <map>
#include <mutex>

namespace fluxdat::test {

using flux::Json;

class FakeDat
{
public:
    using Answer = std::function<void(FakeBroker::Client&, const flux::Message&)>;

    // What is not in these is refused with ENOSYS; "job-manager.idle" is never
    // answered. Called in other threads than the test's.
    std::map<std::string, Answer> dat, parent;

    FakeDat()
        : dat_([this](auto& client) { serve(client, dat); }),
          parent_([this](auto& client) { serve(client, parent); })
    {
        parent["job-info.lookup"] = [](auto& client, auto& request) {
            client.respond(request, R"({"eventlog":""})");
        };
        dat["job-manager.idle"] = [](auto&, auto&) {};
        dat["job-list.list"] = [](auto& client, auto& request) {
            client.respond_error(request, ENODATA);
        };
    }

    // Connects a supervisor's links to both.
    flux::Task<bool> connect(dat::Links& links) const
    {
        auto inside = co_await flux::Connection::open(links.loop, dat_.uri());
        auto outside = co_await flux::Connection::open(links.loop, parent_.uri());
        if (!inside || !outside)
            co_return false;
        links.id = 1;
        links.dat = std::move(*inside);
        links.parent = std::move(*outside);
        co_return true;
    }

    // The responses that the parent got, of requests that a test made up.
    std::vector<flux::Message> responses() const
    {
        std::lock_guard lock(mutex_);
        return responses_;
    }

private:
    void serve(FakeBroker::Client& client, const std::map<std::string, Answer>& answers)
    {
        client.welcome();
        while (auto message = client.receive()) {
            if (message->type == flux::Message::Type::response) {
                std::lock_guard lock(mutex_);
                responses_.push_back(std::move(*message));
                continue;
            }
            auto answer = answers.find(*message->topic);
            if (answer == answers.end())
                client.respond_error(*message, ENOSYS);
            else
                answer->second(client, *message);
        }
    }

    mutable std::mutex mutex_;
    std::vector<flux::Message> responses_;
    FakeBroker dat_, parent_;
};

// Waits until that is so, without blocking the loop; false where it does not come.
inline flux::Task<bool> comes_true(flux::Loop& loop, std::function<bool()> condition)
{
    for (int look = 0; look < 30000; look++) {
        if (condition())
            co_return true;
        (void)co_await loop.sleep(0.002);
    }
    co_return false;
}

} // namespace fluxdat::test
