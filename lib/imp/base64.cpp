// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/base64.h"

#include <array>
#include <cstdint>

namespace fluxdat::imp {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 0xff;

constexpr std::array<std::uint8_t, 256> digit_table = [] {
    std::array<std::uint8_t, 256> table{};
    table.fill(no_digit);
    for (std::size_t i = 0; i < alphabet.size(); i++)
        table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
    return table;
}();

std::uint32_t byte_at(std::string_view bytes, std::size_t i)
{
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u;
}

} // namespace

std::string base64_encode(std::string_view bytes)
{
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8
                              | byte_at(bytes, i + 2);
        text.push_back(alphabet[group >> 18]);
        text.push_back(alphabet[group >> 12 & 63]);
        text.push_back(i + 1 < bytes.size() ? alphabet[group >> 6 & 63] : '=');
        text.push_back(i + 2 < bytes.size() ? alphabet[group & 63] : '=');
    }
    return text;
}

Result<std::string> base64_decode(std::string_view text)
{
    if (text.size() % 4 != 0)
        return fail("base64: the length is not a multiple of four");
    std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    text.remove_suffix(padding);

    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 2);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); i++) {
        auto digit = digit_table[static_cast<unsigned char>(text[i])];
        if (digit == no_digit)
            return fail("base64: byte " + std::to_string(i)
                        + " is not of the alphabet: " + in_quotes(text.substr(i, 1)));
        group = group << 6 | digit;
        if (i % 4 == 3) {
            bytes.push_back(static_cast<char>(group >> 16));
            bytes.push_back(static_cast<char>(group >> 8));
            bytes.push_back(static_cast<char>(group));
            group = 0;
        }
    }
    // The last group: 12 bits for one byte, or 18 for two; those left over are zero.
    if (padding == 2) {
        if (group & 0x0f)
            return fail("base64: bits behind the end are set");
        bytes.push_back(static_cast<char>(group >> 4));
    } else if (padding == 1) {
        if (group & 0x03)
            return fail("base64: bits behind the end are set");
        bytes.push_back(static_cast<char>(group >> 10));
        bytes.push_back(static_cast<char>(group >> 2));
    }
    return bytes;
}

} // namespace fluxdat::imp
