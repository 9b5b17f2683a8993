// SPDX-License-Identifier: LGPL-3.0-or-later
// The reader `json`: RFC 15, "Input to the IMP", from stdin.
#include "lib/imp/reader/contained.h"
#include "lib/imp/reader/reader.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace fluxdat::imp::reader {

namespace {

// Where a text stops being JSON: nlohmann-json tells it by exceptions only.
Result<nlohmann::json> parse(std::string_view text, const std::string& source)
{
    if (text.find_first_not_of(" \t\r\n") == text.npos)
        return fail("invalid json input: " + source + " is empty", EINVAL);
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
        return fail("invalid json input: " + source + " is not JSON at byte "
                        + std::to_string(error.byte),
                    EINVAL);
    } catch (const nlohmann::json::exception& error) {
        return fail("invalid json input: " + source + ": " + error.what(), EINVAL);
    }
}

} // namespace

Result<Kv> from_json(std::string_view text, const std::string& source)
{
    auto input = parse(text, source);
    if (!input)
        return std::unexpected(std::move(input.error()));
    return from_object(*input, source);
}

Result<Kv> from_object(const nlohmann::json& input, const std::string& source)
{
    if (!input.is_object())
        return fail("invalid json input: " + source + " is not an object", EINVAL);
    auto J = input.find("J");
    if (J == input.end())
        return fail("invalid json input: " + source + " has no J", EINVAL);
    const auto* signed_job = J->get_ptr<const std::string*>();
    if (!signed_job)
        return fail("invalid json input: J in " + source + " is not a string", EINVAL);
    Kv kv;
    if (auto put = kv.put_string("J", *signed_job); !put)
        return fail("invalid json input: J: " + put.error().message, EINVAL);
    if (auto put = put_contained(input, kv); !put)
        return fail("invalid json input: " + put.error().message, EINVAL);
    return kv;
}

Result<std::string> read_all(int fd, const std::string& source)
{
    std::string bytes;
    std::size_t length = 0;
    for (;;) {
        if (bytes.size() - length < 65536)
            bytes.resize(std::max<std::size_t>(bytes.size() * 2, 131072));
        auto got = read(fd, bytes.data() + length, bytes.size() - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail("cannot read " + source + ": " + std::strerror(errno), errno);
        if (got == 0)
            break;
        length += static_cast<std::size_t>(got);
        if (length > input_bytes_max)
            return fail(source + " has more than " + std::to_string(input_bytes_max)
                            + " bytes",
                        E2BIG);
    }
    bytes.resize(length);
    return bytes;
}

Result<Kv> read_json(const Arguments&)
{
    auto text = read_all(STDIN_FILENO, "stdin");
    if (!text)
        return std::unexpected(std::move(text.error()));
    return from_json(*text, "stdin");
}

} // namespace fluxdat::imp::reader
