// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Flux messages: RFC 3. Pure functions over bytes: nothing here does I/O, and nothing
// throws on hostile input. What arrives from a socket goes through FrameReader (stream
// framing), then decode() (message parts); both refuse what exceeds the limits below.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::flux {

// Of a frame larger than this only the header is read. Flux itself knows no limit, and
// others decide what is in an answer to us; the largest that nobody meant to be large
// are job listings and configurations of a few MiB.
constexpr std::size_t message_size_max = 64u << 20; // bytes
// Routes are added one a hop; a tree of brokers and instances is never this deep.
constexpr std::size_t route_count_max = 256;

constexpr std::uint32_t userid_unknown = 0xffffffff; // RFC 12
constexpr std::uint32_t nodeid_any = 0xffffffff;
constexpr std::uint32_t matchtag_none = 0;

// Role bits of RFC 12.
enum Role : std::uint32_t {
    role_owner = 1,
    role_user = 2,
    role_local = 4,
    role_admin = 8,
};

// Header flags of RFC 3.
enum Flag : std::uint8_t {
    flag_topic = 0x01,
    flag_payload = 0x02,
    flag_noresponse = 0x04,
    flag_route = 0x08,
    flag_upstream = 0x10,
    flag_private = 0x20,
    flag_streaming = 0x40,
};

// One message, decoded. The flags topic, payload and route are derived from the
// optional members by encode() and need not be set by the caller.
struct Message {
    enum class Type : std::uint8_t {
        request = 1,
        response = 2,
        event = 4,
        control = 8
    };

    Type type = Type::request;
    std::uint8_t flags = 0;
    std::uint32_t userid = userid_unknown;
    std::uint32_t rolemask = 0;
    // request: nodeid; response: errnum; event: sequence; control: type
    std::uint32_t aux1 = nodeid_any;
    // request and response: matchtag; control: status
    std::uint32_t aux2 = matchtag_none;

    // Source addresses, the most recent hop last (the top of the stack of RFC 3 is the
    // *first* part on the wire; see message.cpp).
    std::vector<std::string> routes;
    bool has_route_delimiter = false; // requests and responses carry one
    std::optional<std::string> topic; // without the NUL
    // Raw bytes. For JSON and string payloads that includes the terminating NUL;
    // payload_text() is the view without it.
    std::optional<std::string> payload;

    std::uint32_t nodeid() const { return aux1; }
    std::uint32_t errnum() const { return aux1; }
    std::uint32_t matchtag() const { return aux2; }
    bool streaming() const { return flags & flag_streaming; }
    bool noresponse() const { return flags & flag_noresponse; }
    std::string_view payload_text() const;
    void set_payload_text(std::string_view text); // appends the NUL
};

// A request as a client sends it: route delimiter, topic, JSON or string payload,
// credentials unset (the broker stamps them).
Message make_request(std::string_view topic, std::string_view payload_text,
                     std::uint32_t nodeid = nodeid_any, std::uint8_t flags = 0);

// The answer to a request: its routes, topic and matchtag, with errnum 0 and a payload,
// or an errno with a text for people (RFC 6).
Message make_response(const Message& request, std::string_view payload_text);
Message make_error_response(const Message& request, int errnum,
                            std::string_view text = {});

// The whole frame as it goes on a UNIX domain socket: magic, length, parts.
std::string encode(const Message& message);

// The parts of one frame (what follows magic and length). errnum EPROTO on anything
// that RFC 3 does not allow.
Result<Message> decode(std::string_view parts);

// What the header at the end of a frame's parts says where decode() refused the rest:
// type, flags, userid and the two numbers. Nothing where there is no header either.
std::optional<Message> header_of(std::string_view parts);

// Cuts a byte stream into frames. Feed it what was read; take frames until it has none.
// After an error the stream is lost: close the connection. A frame of more than
// message_size_max is passed over, and none of its bytes kept but for the header.
class FrameReader
{
public:
    void feed(std::string_view bytes);

    // The parts of the next whole frame, without magic and length; nothing when more
    // bytes are needed. The view is valid until the next call of feed() or next().
    Result<std::optional<std::string_view>> next();

    // The size of the frame that next() gave last, if that was one too large: then what
    // it gave is the frame's end, for header_of(). Else 0.
    std::size_t too_large() const { return too_large_; }

private:
    std::string_view skip(std::string_view bytes);

    std::string buffer_;
    std::size_t consumed_ = 0;
    std::size_t skipped_size_ = 0; // of the frame that is being passed over, or was
    std::size_t to_skip_ = 0;      // bytes of it that are still to come
    std::string skipped_end_;      // its last bytes so far
    std::size_t too_large_ = 0;
};

} // namespace fluxdat::flux
