// SPDX-License-Identifier: LGPL-3.0-or-later
// lib/flux/message.h: RFC 3 as it was seen on the socket of Flux 0.88.
#include "lib/flux/message.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <random>

using namespace fluxdat;
using namespace fluxdat::flux;
using Catch::Matchers::Contains;
using namespace std::string_literals;

namespace {

constexpr std::size_t head_size = 8; // magic and length of a frame

Message decoded(std::string_view parts)
{
    auto message = decode(parts);
    if (!message)
        FAIL(message.error().message);
    return *message;
}

Message round_trip(const Message& message)
{
    return decoded(std::string_view(encode(message)).substr(head_size));
}

std::string refusal(std::string_view parts)
{
    auto message = decode(parts);
    REQUIRE_FALSE(message.has_value());
    CHECK(message.error().errnum == EPROTO);
    CHECK(message.error().message.starts_with("malformed message: "));
    return message.error().message;
}

void check_equal(const Message& a, const Message& b)
{
    CHECK(a.type == b.type);
    CHECK(a.userid == b.userid);
    CHECK(a.rolemask == b.rolemask);
    CHECK(a.aux1 == b.aux1);
    CHECK(a.aux2 == b.aux2);
    CHECK(a.routes == b.routes);
    CHECK(a.has_route_delimiter == b.has_route_delimiter);
    CHECK(a.topic == b.topic);
    CHECK(a.payload == b.payload);
}

// A header part with its length: type, flags, and four times the same four bytes.
std::string header(char type, int flags)
{
    return "\x14\x8e\x01"s + type + static_cast<char>(flags) + std::string(16, '\1');
}

const std::string request_header = header(1, flag_topic | flag_route);
const std::string topic_part = "\x02"
                               "a\0"s;

} // namespace

TEST_CASE("message: a request, byte for byte", "[message]")
{
    auto request = make_request("attr.get", "{\"name\":\"size\"}");
    request.aux2 = 1;
    auto frame = encode(request);
    CHECK(frame
          == "\x12\x00\xee\xff"s // 0xffee0012 in host order
             "\x00\x00\x00\x31"s // 49 bytes follow
             "\x00"s             // route delimiter
             "\x09"s
             "attr.get\0"s //
             "\x10"s
             "{\"name\":\"size\"}\0"s
             "\x14"s               //
             "\x8e\x01\x01\x0b"s   // magic, version, request, topic|payload|route
             "\xff\xff\xff\xff"s   // userid
             "\x00\x00\x00\x00"s   // rolemask
             "\xff\xff\xff\xff"s   // nodeid
             "\x00\x00\x00\x01"s); // matchtag
    check_equal(round_trip(request), request);
    CHECK(decoded(frame.substr(head_size)).payload_text() == "{\"name\":\"size\"}");
}

TEST_CASE("message: flags and numbers of a request", "[message]")
{
    auto request = make_request("rexec.exec", "", 7, flag_streaming | flag_upstream);
    request.aux2 = 0x01020304;
    auto back = round_trip(request);
    CHECK(back.nodeid() == 7);
    CHECK(back.matchtag() == 0x01020304);
    CHECK(back.streaming());
    CHECK_FALSE(back.noresponse());
    CHECK(back.flags == (flag_streaming | flag_upstream | flag_topic | flag_route));
    CHECK_FALSE(back.payload.has_value());
    CHECK(back.payload_text().empty());
    CHECK(round_trip(make_request("x", "", nodeid_any, flag_noresponse)).noresponse());
}

TEST_CASE("message: a response answers its request", "[message]")
{
    auto request = make_request("attr.get", "{}", 3, flag_streaming);
    request.aux2 = 42;
    request.routes = {"client", "broker"};
    request.userid = 1001;
    request.rolemask = role_user | role_local;

    auto response = round_trip(make_response(request, "{\"value\":\"4\"}"));
    CHECK(response.type == Message::Type::response);
    CHECK(response.topic == "attr.get");
    CHECK(response.matchtag() == 42);
    CHECK(response.errnum() == 0);
    CHECK(response.streaming());
    CHECK(response.routes == request.routes);
    CHECK(response.payload_text() == "{\"value\":\"4\"}");

    auto error = round_trip(make_error_response(request, ENOSYS, "No such service"));
    CHECK(error.errnum() == ENOSYS);
    CHECK(error.payload_text() == "No such service");
    CHECK_FALSE(round_trip(make_error_response(request, EPERM)).payload.has_value());
}

TEST_CASE("message: events and control messages", "[message]")
{
    Message event;
    event.type = Message::Type::event;
    event.topic = "heartbeat.pulse";
    event.aux1 = 12; // sequence
    check_equal(round_trip(event), event);

    Message control;
    control.type = Message::Type::control;
    control.aux1 = 1;
    control.aux2 = 2;
    check_equal(round_trip(control), control);
}

TEST_CASE("message: the newest hop comes first on the wire", "[message]")
{
    auto request = make_request("a", "");
    request.routes = {"client", "broker"};
    auto parts = encode(request).substr(head_size);
    CHECK(parts.starts_with("\x07"
                            "broker\0\x07"
                            "client\0\0\x02"
                            "a\0"s));
    CHECK(decoded(parts).routes == request.routes);
}

TEST_CASE("message: parts around the border of the short length", "[message]")
{
    for (std::size_t size : {0u, 1u, 252u, 253u, 254u, 255u, 256u, 65536u, 300000u}) {
        auto request = make_request("a", "");
        request.payload = std::string(size, 'x');
        auto frame = encode(request);
        CHECK(frame.size() == head_size + 1 + 3 + size + (size < 255 ? 1 : 5) + 21);
        check_equal(round_trip(request), request);
    }
}

TEST_CASE("message: a payload is any bytes", "[message]")
{
    auto request = make_request("a", "");
    request.payload = "x\0y"s;
    CHECK(round_trip(request).payload == "x\0y"s);
    CHECK(round_trip(request).payload_text() == "x\0y"s); // there is no NUL to take off
    request.payload = "";
    auto back = round_trip(request);
    CHECK(back.payload == "");
    CHECK(back.payload_text().empty());
}

TEST_CASE("message: cut off at every byte", "[message]")
{
    auto request = make_request("attr.get", std::string(300, 'x'));
    request.routes = {"client"};
    auto parts = encode(request).substr(head_size);
    decoded(parts);
    for (std::size_t size = 0; size < parts.size(); size++)
        refusal(std::string_view(parts).substr(0, size));
}

TEST_CASE("message: what RFC 3 does not allow is refused", "[message]")
{
    auto delimiter = "\0"s;
    decoded(delimiter + topic_part + request_header);

    CHECK_THAT(refusal(""), Contains("no header"));
    CHECK_THAT(refusal("\0"s), Contains("no header"));
    CHECK_THAT(refusal("\x13"s + request_header.substr(1, 19)), Contains("no header"));

    auto bad = request_header;
    bad[1] = '\x8f';
    CHECK_THAT(refusal(delimiter + topic_part + bad), Contains("magic or version"));
    bad = request_header;
    bad[2] = 2;
    CHECK_THAT(refusal(delimiter + topic_part + bad), Contains("magic or version"));
    for (char type : {'\0', '\3', '\5', '\x10', '\x80'})
        CHECK_THAT(
            refusal(delimiter + topic_part + header(type, flag_topic | flag_route)),
            Contains("unknown type"));

    CHECK_THAT(refusal(topic_part + request_header), Contains("no route delimiter"));
    CHECK_THAT(refusal(request_header), Contains("no route delimiter"));
    CHECK_THAT(refusal(delimiter + request_header), Contains("no topic"));
    CHECK_THAT(refusal(delimiter + topic_part
                       + header(1, flag_topic | flag_route | flag_payload)),
               Contains("no payload"));
    CHECK_THAT(refusal(delimiter + topic_part + topic_part + request_header),
               Contains("parts that no flag announces"));
    CHECK_THAT(refusal(delimiter + topic_part + header(1, flag_route)),
               Contains("parts that no flag announces"));
    // What follows the header is no header.
    CHECK_THAT(refusal(delimiter + topic_part + request_header + "\0"s),
               Contains("no header"));

    CHECK_THAT(refusal(delimiter + "\0"s + request_header),
               Contains("the topic is no string"));
    CHECK_THAT(refusal(delimiter + "\x01\0"s + request_header), Contains("no string"));
    CHECK_THAT(refusal(delimiter + "\x03" + "a\0\0"s + request_header),
               Contains("no string"));
    CHECK_THAT(refusal("\x03"
                       "r\0r"s
                       + delimiter + topic_part + request_header),
               Contains("the route is no string"));
    // Against RFC 3, but Flux 0.88 sends it.
    CHECK(decoded(delimiter + "\x01" + "a" + request_header).topic == "a");
}

TEST_CASE("message: each type has the parts that RFC 3 gives it", "[message]")
{
    auto delimiter = "\0"s;
    for (char type : {'\1', '\2'}) {
        CHECK_THAT(refusal(topic_part + header(type, flag_topic)),
                   Contains("no route delimiter"));
        CHECK_THAT(refusal(delimiter + header(type, flag_route)), Contains("no topic"));
    }
    CHECK_THAT(refusal(header(4, 0)), Contains("no topic"));
    CHECK_THAT(refusal(delimiter + topic_part + header(4, flag_topic | flag_route)),
               Contains("an event with routes"));
    CHECK_THAT(refusal(topic_part + header(8, flag_topic)),
               Contains("a control message"));
    CHECK_THAT(refusal(topic_part + header(8, flag_payload)),
               Contains("a control message"));
    CHECK_THAT(refusal(delimiter + header(8, flag_route)),
               Contains("a control message"));
}

TEST_CASE("message: lengths that lie", "[message]")
{
    CHECK_THAT(refusal("\xff\xff\xff\xff\xff"s + request_header),
               Contains("a part claims 4294967295 bytes where 21 are left"));
    CHECK_THAT(refusal("\xff\x00\x00\x01"s), Contains("length is cut off"));
    CHECK_THAT(refusal("\xff"s), Contains("length is cut off"));
    CHECK_THAT(refusal("\x05"
                       "a\0"s),
               Contains("claims 5 bytes where 2 are left"));
    // A long length where the short one would do is wasteful, but no lie.
    CHECK(decoded("\xff\0\0\0\0"s + topic_part + request_header).topic == "a");
}

TEST_CASE("message: routes are bounded", "[message]")
{
    auto request = make_request("a", "");
    request.routes.assign(route_count_max, "r");
    CHECK(round_trip(request).routes.size() == route_count_max);
    request.routes.assign(100000, "r");
    CHECK_THAT(refusal(encode(request).substr(head_size)), Contains("more parts than"));
}

TEST_CASE("message: what was mutated is refused or holds", "[message]")
{
    auto request = make_request("attr.get", "{\"name\":\"size\"}");
    request.routes = {"client", "broker"};
    const auto seed = encode(request).substr(head_size);
    std::mt19937 random(3);
    int accepted = 0;
    for (int i = 0; i < 100000; i++) {
        auto parts = seed;
        for (auto n = 1 + random() % 4; n > 0; n--) {
            auto at = random() % parts.size();
            switch (random() % 4) {
            case 0:
                parts[at] = static_cast<char>(random());
                break;
            case 1:
                parts.erase(at, 1 + random() % 8);
                break;
            case 2:
                parts.insert(at, 1 + random() % 3, "\0\xff\x14"[random() % 3]);
                break;
            default:
                parts[at] = static_cast<char>(parts[at] ^ (1 << random() % 8));
            }
            if (parts.empty())
                parts = "\0"s;
        }
        auto message = decode(parts);
        if (!message) {
            REQUIRE(message.error().errnum == EPROTO);
            continue;
        }
        // What was understood is understood again in the same way.
        accepted++;
        auto again = decode(std::string_view(encode(*message)).substr(head_size));
        REQUIRE(again.has_value());
        REQUIRE(again->topic == message->topic);
        REQUIRE(again->payload == message->payload);
        REQUIRE(again->routes == message->routes);
        REQUIRE(again->aux2 == message->aux2);
    }
    CHECK(accepted > 1000); // the mutations were not all of the crudest kind
}

TEST_CASE("message: frames that come byte by byte", "[frame]")
{
    auto first = encode(make_request("first", "{}"));
    auto second = encode(make_request("second", std::string(1000, 'x')));
    FrameReader reader;
    std::vector<std::string> topics;
    for (char c : first + second) {
        reader.feed(std::string_view(&c, 1));
        auto frame = reader.next();
        REQUIRE(frame.has_value());
        if (*frame)
            topics.push_back(*decoded(**frame).topic);
    }
    CHECK(topics == std::vector<std::string>{"first", "second"});
    CHECK_FALSE(reader.next()->has_value());
}

TEST_CASE("message: several frames and a half in one read", "[frame]")
{
    auto frames = encode(make_request("a", "")) + encode(make_request("b", ""));
    auto third = encode(make_request("c", "{}"));
    FrameReader reader;
    CHECK_FALSE(reader.next()->has_value());
    reader.feed(frames + third.substr(0, 20));
    CHECK(decoded(**reader.next()).topic == "a");
    CHECK(decoded(**reader.next()).topic == "b");
    CHECK_FALSE(reader.next()->has_value());
    CHECK_FALSE(reader.next()->has_value());
    reader.feed(third.substr(20));
    CHECK(decoded(**reader.next()).topic == "c");
    reader.feed("");
    CHECK_FALSE(reader.next()->has_value());
}

TEST_CASE("message: after a large frame the reader goes on", "[frame]")
{
    FrameReader reader;
    for (int round = 0; round < 3; round++) {
        reader.feed(encode(make_request("large", std::string(1 << 20, 'x'))));
        CHECK(decoded(**reader.next()).payload_text().size() == 1 << 20);
        CHECK_FALSE(reader.next()->has_value());
        CHECK_FALSE(reader.next()->has_value());
        reader.feed(encode(make_request("small", "")));
        CHECK(decoded(**reader.next()).topic == "small");
    }
}

TEST_CASE("message: a stream that is no Flux protocol", "[frame]")
{
    FrameReader reader;
    reader.feed("HTTP/1.");
    CHECK_FALSE(reader.next()->has_value()); // one byte short of a head
    reader.feed("1 400 Bad Request\r\n");
    auto frame = reader.next();
    REQUIRE_FALSE(frame.has_value());
    CHECK(frame.error().errnum == EPROTO);
    CHECK_THAT(frame.error().message, Contains("does not speak the Flux protocol"));
}

TEST_CASE("message: a frame too large is passed over, but for its header", "[frame]")
{
    auto response = make_response(make_request("a", "", 0, flag_streaming), "");
    response.aux2 = 17;
    response.payload = std::string(message_size_max, 'x');
    auto large = encode(response), small = encode(make_request("b", ""));
    // Cut anywhere, also in the header at its end.
    for (std::size_t cut :
         {std::size_t{4}, std::size_t{8}, std::size_t{20}, large.size() - 21,
          large.size() - 20, large.size() - 1, large.size()}) {
        INFO(cut);
        FrameReader reader;
        reader.feed(small + large.substr(0, cut));
        CHECK(decoded(**reader.next()).topic == "b");
        if (cut < large.size())
            CHECK_FALSE(reader.next()->has_value());
        reader.feed(large.substr(cut) + small);
        auto frame = reader.next();
        REQUIRE(frame.has_value());
        REQUIRE(frame->has_value());
        CHECK(reader.too_large() == large.size() - head_size);
        CHECK((*frame)->size() == 21);
        auto header = header_of(**frame);
        REQUIRE(header);
        CHECK(header->type == Message::Type::response);
        CHECK(header->matchtag() == 17);
        CHECK(header->streaming());
        CHECK_FALSE(decode(**frame).has_value());
        CHECK(decoded(**reader.next()).topic == "b");
        CHECK(reader.too_large() == 0);
        CHECK_FALSE(reader.next()->has_value());
    }
}

TEST_CASE("message: what has no header", "[message]")
{
    CHECK_FALSE(header_of(""));
    CHECK_FALSE(header_of(std::string(20, 'x')));
    CHECK_FALSE(header_of(std::string(100, 'x')));
    CHECK_FALSE(header_of("\x14" + std::string(20, 'x')));
}

TEST_CASE("message: sizes up to the limit", "[frame]")
{
    auto head = [](std::uint32_t size) {
        std::string text = encode(make_request("a", "")).substr(0, 4);
        for (int shift : {24, 16, 8, 0})
            text.push_back(static_cast<char>(size >> shift));
        return text;
    };
    FrameReader reader;
    reader.feed(head(std::uint32_t{message_size_max}));
    CHECK_FALSE(reader.next()->has_value()); // allowed, and not all there yet
    FrameReader empty;
    empty.feed(head(0));
    CHECK_THAT(refusal(**empty.next()), Contains("no header"));
}
