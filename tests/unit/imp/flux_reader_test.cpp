// SPDX-License-Identifier: LGPL-3.0-or-later
// The reader `flux`, against a broker that says what a test wants it to say.
#include "lib/imp/reader/flux.h"

#include "lib/flux/json.h"
#include "lib/flux/message.h"
#include "tests/unit/imp/support.h"

#include <algorithm>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

using namespace fluxdat::imp;
using namespace fluxdat::imp::reader;
using namespace fluxdat::imp::test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using fluxdat::flux::Message;
using Json = nlohmann::json;

namespace {

// As Flux 0.88 writes it, with a rank more.
const std::string R = R"({"version": 1, "execution": {"R_lite": [
    {"rank": "0", "children": {"core": "0-1"}},
    {"rank": "2-3,5", "children": {"core": "4-6,9", "gpu": "1"}}],
    "starttime": 0.0, "expiration": 0.0, "nodelist": ["fluke[131,133-134,136]"]}})";

// Answers each request of one client as `answer` says; the errno, or 0 and a payload.
class FakeBroker
{
public:
    using Answer = std::function<std::pair<int, std::string>(const Message&)>;

    explicit FakeBroker(Answer answer)
    {
        listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::string path = directory_ / "local";
        REQUIRE(path.size() < sizeof address.sun_path);
        std::copy(path.begin(), path.end(), address.sun_path);
        REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address)
                == 0);
        REQUIRE(::listen(listener_, 1) == 0);
        thread_ = std::thread([this, answer = std::move(answer)] { serve(answer); });
    }
    ~FakeBroker()
    {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    FakeBroker(const FakeBroker&) = delete;
    FakeBroker& operator=(const FakeBroker&) = delete;
    std::string uri() const { return "local://" + (directory_ / "local"); }

private:
    void serve(const Answer& answer) const
    {
        int client = ::accept(listener_, nullptr, nullptr);
        if (client < 0)
            return;
        auto send = [&](const std::string& bytes) {
            return ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                   == static_cast<ssize_t>(bytes.size());
        };
        fluxdat::flux::FrameReader frames;
        char buffer[4096];
        bool up = send(std::string(1, '\0'));
        while (up) {
            if (auto frame = frames.next(); frame && *frame) {
                auto request = *fluxdat::flux::decode(**frame);
                auto [errnum, payload] = answer(request);
                up = send(fluxdat::flux::encode(
                    errnum ? make_error_response(request, errnum, payload)
                           : make_response(request, payload)));
                continue;
            }
            auto size = ::read(client, buffer, sizeof buffer);
            up = size > 0;
            if (up)
                frames.feed({buffer, static_cast<std::size_t>(size)});
        }
        ::close(client);
    }

    TemporaryDirectory directory_;
    int listener_ = -1;
    std::thread thread_;
};

// A broker of rank 3 that has one job.
std::pair<int, std::string> as_flux(const Message& request)
{
    if (request.topic == "attr.get")
        return {0, R"({"value": "3", "flags": 1})"};
    Json payload = Json::parse(request.payload_text());
    if (payload["id"] != 57428410368u)
        return {ENOENT, ""};
    return {0, Json{{"id", payload["id"]}, {"J", "header.payload.signature"}, {"R", R}}
                   .dump()};
}

std::string refused(FakeBroker::Answer answer)
{
    FakeBroker broker(std::move(answer));
    auto read = read_flux({broker.uri(), 57428410368});
    if (read)
        return "not refused";
    CHECK_THAT(read.error().message,
               StartsWith("job f2VSZAPs at " + broker.uri() + ": ")
                   || StartsWith("job f"));
    auto message = read.error().message;
    return message.substr(message.find(broker.uri()) + broker.uri().size() + 2);
}

// Variables of the environment for one test.
class Environment
{
public:
    Environment(const char* uri, const char* id)
    {
        set("FLUX_URI", uri);
        set("FLUX_JOB_ID", id);
    }
    ~Environment()
    {
        ::unsetenv("FLUX_URI");
        ::unsetenv("FLUX_JOB_ID");
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    static void set(const char* name, const char* value)
    {
        if (value)
            ::setenv(name, value, 1);
        else
            ::unsetenv(name);
    }
};

} // namespace

TEST_CASE("flux reader: which broker and which job", "[flux_reader]")
{
    Environment environment("local:///run/flux/local", "123");
    // The shell's argument, not the variable, which may be the DAT's own job.
    auto job = find_flux_job({"57428410368"});
    REQUIRE(job);
    CHECK(job->uri == "local:///run/flux/local");
    CHECK(job->id == 57428410368u);
    CHECK(find_flux_job({"57428410368", "more"})->id == 57428410368u);
    CHECK(find_flux_job({})->id == 123);
}

TEST_CASE("flux reader: no broker, no job", "[flux_reader]")
{
    auto refusal = [](const char* uri, const char* id,
                      const std::vector<std::string>& arguments) {
        Environment environment(uri, id);
        auto job = find_flux_job(arguments);
        return job ? "not refused" : job.error().message;
    };
    const char* uri = "local:///run/flux/local";
    for (const char* none : {static_cast<const char*>(nullptr), ""})
        CHECK_THAT(refusal(none, nullptr, {"1"}), StartsWith("FLUX_URI is not set"));
    for (const char* wrong : {"ssh://host/run/local", "tcp://host", "/run/local", "x"})
        CHECK(refusal(wrong, nullptr, {"1"})
              == "FLUX_URI \"" + std::string(wrong)
                     + "\" is not the local:// address of a broker on this host");
    for (const char* none : {static_cast<const char*>(nullptr), ""})
        CHECK(refusal(uri, none, {})
              == "there is no job id: neither an argument after the job shell, nor "
                 "FLUX_JOB_ID");
    CHECK(refusal(uri, "1", {"x!"})
          == "the argument after the job shell \"x!\" is no job id");
    CHECK(refusal(uri, "1", {""})
          == "the argument after the job shell \"\" is no job id");
    CHECK(refusal(uri, "-1", {}) == "the FLUX_JOB_ID \"-1\" is no job id");
}

TEST_CASE("flux reader: J and R_local", "[flux_reader]")
{
    FakeBroker broker(as_flux);
    auto input = read_flux({broker.uri(), 57428410368});
    if (!input)
        FAIL(input.error().message);
    CHECK(*input == Json::parse(R"({"J": "header.payload.signature",
                             "R_local": {"cpu": [4, 5, 6, 9], "gpu": [1]}})"));
}

TEST_CASE("flux reader: answers that are no help", "[flux_reader]")
{
    auto nowhere = read_flux({"local:///nosuch/local", 1});
    REQUIRE_FALSE(nowhere);
    CHECK_THAT(nowhere.error().message,
               Contains("at local:///nosuch/local: ") && !Contains("no such job"));

    CHECK(refused([](const Message& request) {
              return request.topic == "attr.get" ? as_flux(request)
                                                 : std::pair(ENOENT, "");
          })
          == "there is no such job, or it has no J or R yet");
    CHECK_THAT(refused([](const Message& request) {
                   return request.topic == "attr.get"
                              ? as_flux(request)
                              : std::pair(EPERM, "guests may only look at their own");
               }),
               Contains("guests may only look at their own"));
    CHECK_THAT(refused([](const Message& request) {
                   return request.topic == "attr.get"
                              ? std::pair(0, R"({"value": "x"})")
                              : as_flux(request);
               }),
               Contains("attr.get: the broker's rank is \"x\""));
    CHECK(refused([](const Message& request) {
              return request.topic == "attr.get"
                         ? as_flux(request)
                         : std::pair(0, R"({"J": 1, "R": "{}"})");
          })
          == "job-info.lookup gave no J");
    CHECK_THAT(refused([](const Message& request) {
                   return request.topic == "attr.get"
                              ? as_flux(request)
                              : std::pair(0, R"({"J": "a.b.c"})");
               }),
               StartsWith("R: "));
    // R gives this rank nothing.
    CHECK(refused([](const Message& request) {
              return request.topic == "attr.get" ? std::pair(0, R"({"value": "4"})")
                                                 : as_flux(request);
          })
          == "R: rank 4, where this IMP runs, has no part of the job");
}

TEST_CASE("flux reader: R for one rank", "[flux_reader]")
{
    CHECK(*local_resources(R, 0) == Json::parse(R"({"cpu": [0, 1], "gpu": []})"));
    for (unsigned rank : {2u, 3u, 5u})
        CHECK(*local_resources(R, rank)
              == Json::parse(R"({"cpu": [4, 5, 6, 9], "gpu": [1]})"));
    auto refusal = [](std::string_view text) {
        auto local = local_resources(text, 0);
        return local ? "not refused" : local.error().message;
    };
    CHECK_THAT(refusal(""), StartsWith("R: "));
    CHECK_THAT(refusal("[]"), StartsWith("R: "));
    CHECK(refusal("{}") == "R: its version is not 1");
    CHECK(refusal(R"({"version": 2})") == "R: its version is not 1");
    for (const char* text : {R"({"version": 1})", R"({"version": 1, "execution": []})",
                             R"({"version": 1, "execution": {"R_lite": {}}})"})
        CHECK(refusal(text) == "R: execution.R_lite is no array");
    auto lite = [&](const std::string& entry) {
        return refusal(R"({"version": 1, "execution": {"R_lite": [)" + entry + "]}}");
    };
    const std::string nothing =
        "R: rank 0, where this IMP runs, has no part of the job";
    CHECK(lite("") == nothing);
    CHECK(lite("1") == nothing);
    CHECK(lite(R"({"rank": 0})") == nothing);
    CHECK_THAT(lite(R"({"rank": "3-1"})"), StartsWith("R: execution.R_lite: rank: "));
    CHECK_THAT(lite(R"({"rank": "0", "children": {"core": "x"}})"),
               StartsWith("R: execution.R_lite: children.core: "));
    CHECK_THAT(lite(R"({"rank": "0", "children": {"core": "0", "gpu": "0-"}})"),
               StartsWith("R: execution.R_lite: children.gpu: "));
    // No cores at all: R_local.cpu is then refused (contained.h).
    CHECK(
        *local_resources(
            R"({"version": 1, "execution": {"R_lite": [{"rank": "0", "children": 5}]}})",
            0)
        == Json::parse(R"({"cpu": [], "gpu": []})"));
}
