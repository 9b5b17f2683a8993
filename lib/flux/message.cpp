// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/message.h"

#include <arpa/inet.h>
#include <utility>

namespace fluxdat::flux {

namespace {

constexpr std::uint32_t frame_magic = 0xffee0012; // in host byte order on the wire
// Magic and length. The length is that of what follows: RFC 3 says that it includes
// the head, Flux (0.88) does not count it, and Flux is right.
constexpr std::size_t frame_head_size = 8;
constexpr std::uint8_t header_magic = 0x8e;
constexpr std::uint8_t header_version = 1;
constexpr std::size_t header_size = 20;
constexpr std::size_t header_part_size = 1 + header_size; // with its length
constexpr std::size_t short_part_max = 254; // longer parts have a 4-byte length
// What a FrameReader keeps of its buffer when there is nothing in it, in bytes: one
// large message must not be remembered as memory for the life of a supervisor.
constexpr std::size_t buffer_kept_max = 256u << 10;

std::unexpected<Error> protocol_error(std::string what)
{
    return std::unexpected(Error{"malformed message: " + std::move(what), EPROTO});
}

void append_u32(std::string& out, std::uint32_t value)
{
    std::uint32_t big_endian = htonl(value);
    out.append(reinterpret_cast<const char*>(&big_endian), sizeof(big_endian));
}

std::uint32_t read_u32(std::string_view bytes)
{
    std::uint32_t big_endian;
    std::memcpy(&big_endian, bytes.data(), sizeof(big_endian));
    return ntohl(big_endian);
}

void append_part(std::string& out, std::string_view part)
{
    if (part.size() <= short_part_max) {
        out.push_back(static_cast<char>(part.size()));
    } else {
        out.push_back('\xff');
        append_u32(out, static_cast<std::uint32_t>(part.size()));
    }
    out.append(part);
}

void append_string_part(std::string& out, const std::string& text)
{
    append_part(out, std::string_view(text.c_str(), text.size() + 1));
}

// Takes one part off the front of bytes.
Result<std::string_view> take_part(std::string_view& bytes)
{
    auto size = static_cast<std::size_t>(static_cast<std::uint8_t>(bytes[0]));
    bytes.remove_prefix(1);
    if (size == 0xff) {
        if (bytes.size() < 4)
            return protocol_error("a part's length is cut off");
        size = read_u32(bytes);
        bytes.remove_prefix(4);
    }
    if (size > bytes.size())
        return protocol_error(fmt::format("a part claims {} bytes where {} are left",
                                          size, bytes.size()));
    auto part = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return part;
}

// A topic or route. RFC 3 ends them with a NUL; Flux 0.88 sends them without one and
// takes both.
Result<std::string> string_part(std::string_view part, const char* what)
{
    auto text = part.ends_with('\0') ? part.substr(0, part.size() - 1) : part;
    if (text.empty() || text.find('\0') != text.npos)
        return protocol_error(fmt::format("the {} is no string", what));
    return std::string(text);
}

Result<Message> read_header(std::string_view header)
{
    if (static_cast<std::uint8_t>(header[0]) != header_magic
        || static_cast<std::uint8_t>(header[1]) != header_version)
        return protocol_error("unknown magic or version");
    Message message;
    switch (static_cast<std::uint8_t>(header[2])) {
    case 1:
    case 2:
    case 4:
    case 8:
        message.type = static_cast<Message::Type>(header[2]);
        break;
    default:
        return protocol_error("unknown type");
    }
    message.flags = static_cast<std::uint8_t>(header[3]);
    message.userid = read_u32(header.substr(4));
    message.rolemask = read_u32(header.substr(8));
    message.aux1 = read_u32(header.substr(12));
    message.aux2 = read_u32(header.substr(16));
    return message;
}

// What RFC 3 requires of each type of message.
const char* broken_rule(const Message& message)
{
    switch (message.type) {
    case Message::Type::request:
    case Message::Type::response:
        if (!message.has_route_delimiter)
            return "no route delimiter";
        if (!message.topic)
            return "no topic";
        return nullptr;
    case Message::Type::event:
        if (message.has_route_delimiter)
            return "an event with routes";
        if (!message.topic)
            return "no topic";
        return nullptr;
    case Message::Type::control:
        if (message.has_route_delimiter || message.topic || message.payload)
            return "a control message with routes, topic or payload";
        return nullptr;
    }
    return "unknown type";
}

} // namespace

std::string_view Message::payload_text() const
{
    if (!payload)
        return {};
    std::string_view text = *payload;
    return text.ends_with('\0') ? text.substr(0, text.size() - 1) : text;
}

void Message::set_payload_text(std::string_view text)
{
    payload.emplace(text);
    payload->push_back('\0');
}

Message make_request(std::string_view topic, std::string_view payload_text,
                     std::uint32_t nodeid, std::uint8_t flags)
{
    Message message;
    message.type = Message::Type::request;
    message.flags = flags;
    message.has_route_delimiter = true;
    message.topic = std::string(topic);
    message.aux1 = nodeid;
    if (!payload_text.empty())
        message.set_payload_text(payload_text);
    return message;
}

Message make_response(const Message& request, std::string_view payload_text)
{
    Message message;
    message.type = Message::Type::response;
    message.flags = static_cast<std::uint8_t>(request.flags & flag_streaming);
    message.routes = request.routes;
    message.has_route_delimiter = true;
    message.topic = request.topic;
    message.aux1 = 0;
    message.aux2 = request.matchtag();
    if (!payload_text.empty())
        message.set_payload_text(payload_text);
    return message;
}

Message make_error_response(const Message& request, int errnum, std::string_view text)
{
    auto message = make_response(request, text);
    message.aux1 = static_cast<std::uint32_t>(errnum);
    return message;
}

std::string encode(const Message& message)
{
    std::string out(frame_head_size, '\0');
    std::uint8_t flags = static_cast<std::uint8_t>(
        message.flags & ~(flag_topic | flag_payload | flag_route));
    if (message.has_route_delimiter || !message.routes.empty()) {
        flags |= flag_route;
        // The top of the route stack, the newest hop, goes first.
        for (auto route = message.routes.rbegin(); route != message.routes.rend();
             ++route)
            append_string_part(out, *route);
        append_part(out, {});
    }
    if (message.topic) {
        flags |= flag_topic;
        append_string_part(out, *message.topic);
    }
    if (message.payload) {
        flags |= flag_payload;
        append_part(out, *message.payload);
    }
    std::string header;
    header.push_back(static_cast<char>(header_magic));
    header.push_back(static_cast<char>(header_version));
    header.push_back(static_cast<char>(message.type));
    header.push_back(static_cast<char>(flags));
    append_u32(header, message.userid);
    append_u32(header, message.rolemask);
    append_u32(header, message.aux1);
    append_u32(header, message.aux2);
    append_part(out, header);

    std::uint32_t size =
        htonl(static_cast<std::uint32_t>(out.size() - frame_head_size));
    std::memcpy(out.data(), &frame_magic, sizeof(frame_magic));
    std::memcpy(out.data() + sizeof(frame_magic), &size, sizeof(size));
    return out;
}

Result<Message> decode(std::string_view bytes)
{
    std::vector<std::string_view> parts;
    while (!bytes.empty()) {
        if (parts.size() > route_count_max + 4)
            return protocol_error("more parts than a message can have");
        auto part = take_part(bytes);
        if (!part)
            return std::unexpected(std::move(part.error()));
        parts.push_back(*part);
    }
    if (parts.empty() || parts.back().size() != header_size)
        return protocol_error("no header");
    auto read = read_header(parts.back());
    if (!read)
        return read;
    auto message = std::move(*read);
    parts.pop_back();

    auto part = parts.begin();
    if (message.flags & flag_route) {
        while (part != parts.end() && !part->empty()) {
            auto route = string_part(*part++, "route");
            if (!route)
                return std::unexpected(std::move(route.error()));
            message.routes.insert(message.routes.begin(), std::move(*route));
        }
        if (part == parts.end())
            return protocol_error("no route delimiter");
        ++part;
        message.has_route_delimiter = true;
    }
    if (message.flags & flag_topic) {
        if (part == parts.end())
            return protocol_error("no topic");
        auto topic = string_part(*part++, "topic");
        if (!topic)
            return std::unexpected(std::move(topic.error()));
        message.topic = std::move(*topic);
    }
    if (message.flags & flag_payload) {
        if (part == parts.end())
            return protocol_error("no payload");
        message.payload = std::string(*part++);
    }
    if (part != parts.end())
        return protocol_error("parts that no flag announces");
    if (auto broken = broken_rule(message))
        return protocol_error(broken);
    return message;
}

std::optional<Message> header_of(std::string_view parts)
{
    if (parts.size() < header_part_size)
        return {};
    auto part = parts.substr(parts.size() - header_part_size);
    if (static_cast<std::uint8_t>(part[0]) != header_size)
        return {};
    auto message = read_header(part.substr(1));
    return message ? std::optional(std::move(*message)) : std::nullopt;
}

void FrameReader::feed(std::string_view bytes)
{
    buffer_.erase(0, consumed_);
    consumed_ = 0;
    buffer_.append(skip(bytes));
}

// Takes off the front what belongs to a frame that is passed over.
std::string_view FrameReader::skip(std::string_view bytes)
{
    auto part = bytes.substr(0, to_skip_);
    to_skip_ -= part.size();
    bytes.remove_prefix(part.size());
    if (part.size() > header_part_size)
        part.remove_prefix(part.size() - header_part_size);
    skipped_end_.append(part);
    if (skipped_end_.size() > header_part_size)
        skipped_end_.erase(0, skipped_end_.size() - header_part_size);
    return bytes;
}

Result<std::optional<std::string_view>> FrameReader::next()
{
    too_large_ = 0;
    if (to_skip_ > 0)
        return std::nullopt;
    if (skipped_size_ > 0) {
        too_large_ = std::exchange(skipped_size_, 0);
        return skipped_end_;
    }
    std::string_view rest = std::string_view(buffer_).substr(consumed_);
    if (rest.empty() && buffer_.capacity() > buffer_kept_max) {
        buffer_ = std::string();
        consumed_ = 0;
        return std::nullopt;
    }
    if (rest.size() < frame_head_size)
        return std::nullopt;
    std::uint32_t magic;
    std::memcpy(&magic, rest.data(), sizeof(magic));
    if (magic != frame_magic)
        return protocol_error("the peer does not speak the Flux protocol (bad magic)");
    std::size_t size = read_u32(rest.substr(4));
    rest.remove_prefix(frame_head_size);
    if (size > message_size_max) {
        skipped_size_ = to_skip_ = size;
        skipped_end_.clear();
        consumed_ = buffer_.size() - skip(rest).size();
        return next();
    }
    if (rest.size() < size)
        return std::nullopt;
    consumed_ += frame_head_size + size;
    return rest.substr(0, size);
}

} // namespace fluxdat::flux
