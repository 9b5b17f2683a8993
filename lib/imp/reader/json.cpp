// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The reader `json`: RFC 15, "Input to the IMP", from stdin. The text is gone through
// once, without making a tree of it: J is all that most inputs have, and it is large.
#include "lib/imp/reader/reader.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

namespace fluxdat::imp::reader {

namespace {

// What is asked of an input: the members of the outermost object.
class Members
{
public:
    bool is_object = false;
    bool has_J = false;
    std::optional<std::string>
        J;                  // where it is a string; the last, if there are several
    bool contained = false; // there are options or R_local
    std::optional<std::size_t> bad_byte;

    bool null() { return value(); }
    bool boolean(bool) { return value(); }
    bool number_integer(nlohmann::json::number_integer_t) { return value(); }
    bool number_unsigned(nlohmann::json::number_unsigned_t) { return value(); }
    bool number_float(nlohmann::json::number_float_t, const std::string&)
    {
        return value();
    }
    bool binary(nlohmann::json::binary_t&) { return value(); }
    bool string(std::string& text)
    {
        value();
        if (depth_ == 1 && key_is_J_)
            J = std::move(text);
        return true;
    }
    bool start_object(std::size_t)
    {
        value();
        is_object = is_object || depth_ == 0;
        depth_++;
        return true;
    }
    bool start_array(std::size_t)
    {
        value();
        depth_++;
        return true;
    }
    bool end_object() { return depth_--, true; }
    bool end_array() { return depth_--, true; }
    bool key(std::string& name)
    {
        if (depth_ == 1) {
            key_is_J_ = name == "J";
            has_J = has_J || key_is_J_;
            contained = contained || name == "options" || name == "R_local";
        }
        return true;
    }
    bool parse_error(std::size_t at, const std::string&,
                     const nlohmann::json::exception&)
    {
        bad_byte = at;
        return false;
    }

private:
    // Of every value: a J that is none yet, or not any more.
    bool value()
    {
        if (depth_ == 1 && key_is_J_)
            J.reset();
        return true;
    }

    std::size_t depth_ = 0;
    bool key_is_J_ = false;
};

} // namespace

Result<Kv> from_json(std::string_view text, const std::string& source)
{
    if (text.find_first_not_of(" \t\r\n") == text.npos)
        return fail("invalid json input: " + source + " is empty", EINVAL);
    Members members;
    nlohmann::json::sax_parse(text, &members);
    if (members.bad_byte)
        return fail("invalid json input: " + source + " is not JSON at byte "
                        + std::to_string(*members.bad_byte),
                    EINVAL);
    if (!members.is_object)
        return fail("invalid json input: " + source + " is not an object", EINVAL);
    if (!members.has_J)
        return fail("invalid json input: " + source + " has no J", EINVAL);
    if (!members.J)
        return fail("invalid json input: J in " + source + " is not a string", EINVAL);
    Kv kv;
    if (auto put = kv.put_string("J", std::move(*members.J)); !put)
        return fail("invalid json input: J: " + put.error().message, EINVAL);
    if (members.contained)
        if (auto contained = contain(text, kv); !contained)
            return fail("invalid json input: " + contained.error().message, EINVAL);
    return kv;
}

Result<Bytes> read_all(int fd, const std::string& source)
{
    Bytes bytes;
    for (;;) {
        auto room = bytes.room();
        auto got = read(fd, room.data(), room.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail("cannot read " + source + ": " + std::strerror(errno), errno);
        if (got == 0)
            return bytes;
        bytes.filled(static_cast<std::size_t>(got));
        if (bytes.size() > input_bytes_max)
            return fail(source + " has more than " + std::to_string(input_bytes_max)
                            + " bytes",
                        E2BIG);
    }
}

Result<Kv> read_json(const Arguments&)
{
    auto text = read_all(STDIN_FILENO, "stdin");
    if (!text)
        return std::unexpected(std::move(text.error()));
    return from_json(text->view(), "stdin");
}

} // namespace fluxdat::imp::reader
