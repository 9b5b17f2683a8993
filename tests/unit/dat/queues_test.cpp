// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/queues.h"
#include "tests/unit/flux/fake_broker.h"

#include <catch2/catch.hpp>
#include <map>

using namespace fluxdat;
using namespace fluxdat::dat;
using flux::Json;
using fluxdat::test::FakeBroker;

namespace {

// Queues as a job manager has them; one of them takes no change.
class Queues
{
public:
    std::map<std::string, Json> queues;
    std::string broken;

    void answer(FakeBroker::Client& client, const flux::Message& request)
    {
        auto asked = flux::parse_json(request.payload_text()).value_or(Json::object());
        if (*request.topic == "job-manager.queue-list") {
            Json names = Json::array();
            for (auto& [name, status] : queues)
                names.push_back(name);
            return client.respond_json(request, Json{{"queues", names}});
        }
        auto name = flux::text_at(asked, "name");
        auto& queue = queues.at(name);
        if (*request.topic == "job-manager.queue-status")
            return client.respond_json(request, queue);
        if (name == broken)
            return client.respond_error(request, EIO, "no space left");
        bool enable = *request.topic == "job-manager.queue-enable";
        auto* key = enable ? "enable" : "start";
        auto* reason = enable ? "disable_reason" : "stop_reason";
        queue[key] = asked[key];
        queue.erase(reason);
        if (asked[key] == false)
            queue[reason] = asked["reason"];
        client.respond(request, "");
    }
};

Result<> with(Queues& queues,
              std::function<flux::Task<Result<>>(flux::Connection& dat)> run)
{
    auto broker = FakeBroker::answering(
        [&](auto& client, auto& request) { queues.answer(client, request); });
    flux::Loop loop;
    auto flow = [&]() -> flux::Task<Result<>> {
        auto dat = co_await flux::Connection::open(loop, broker.uri());
        REQUIRE(dat);
        co_return co_await run(**dat);
    };
    return loop.run(flow());
}

Result<> close(Queues& queues)
{
    return with(queues, [](auto& dat) { return close_queues(dat, "it ends"); });
}

Json open_queue()
{
    return {{"enable", true}, {"start", true}};
}

} // namespace

TEST_CASE("Queues are closed and opened again, but not those of somebody else")
{
    Queues queues{
        {{"batch", open_queue()},
         {"debug", {{"enable", false}, {"start", true}, {"disable_reason", "broken"}}}},
        {}};
    REQUIRE(close(queues));
    CHECK(queues.queues["batch"]["stop_reason"] == "this DAT is closed: it ends");
    CHECK(queues.queues["batch"]["disable_reason"] == "this DAT is closed: it ends");
    CHECK(queues.queues["debug"]["start"] == false);
    CHECK(queues.queues["debug"]["disable_reason"] == "broken");
    REQUIRE(with(queues, [](auto& dat) { return start_queues(dat); }));
    CHECK(queues.queues["batch"]["start"] == false);
    REQUIRE(with(queues, [](auto& dat) { return reopen_queues(dat); }));
    CHECK(queues.queues["batch"] == open_queue());
    CHECK(queues.queues["debug"]["start"] == true);
    CHECK(queues.queues["debug"]["enable"] == false);
}

TEST_CASE("A queue that cannot be closed does not keep the others open")
{
    Queues queues{{{"a", open_queue()}, {"b", open_queue()}, {"c", open_queue()}}, "b"};
    auto closed = close(queues);
    REQUIRE(!closed);
    CHECK(closed.error().message == "the queue b: no space left");
    CHECK(queues.queues["a"]["start"] == false);
    CHECK(queues.queues["c"]["start"] == false);
    CHECK(queues.queues["c"]["enable"] == false);

    auto opened = with(queues, [](auto& dat) { return reopen_queues(dat); });
    CHECK(opened); // b has nothing of ours
    CHECK(queues.queues["c"] == open_queue());

    queues.broken.clear();
    REQUIRE(close(queues));
    queues.broken = "b";
    opened = with(queues, [](auto& dat) { return reopen_queues(dat); });
    REQUIRE(!opened);
    CHECK(opened.error().message == "the queue b: no space left");
    CHECK(queues.queues["c"] == open_queue());
}

TEST_CASE("A status that lacks something is none")
{
    Queues queues{{{"a", {{"enable", true}}}}, {}};
    auto closed = close(queues);
    REQUIRE(!closed);
    CHECK(closed.error().message
          == "job-manager.queue-status: the answer lacks \"start\"");
}
