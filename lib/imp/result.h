// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How failure travels in lib/imp: as a value, up to the one place that may end the
// program. This is not lib/result.h, on purpose: what runs with privileges links no
// formatting library, no JSON and no event loop.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace fluxdat::imp {

// What was refused and which rule refused it, in one line for a person, without a
// trailing period or newline. Text that came from outside is in it only as in_quotes().
struct Error {
    std::string message;
    int errnum = 0; // errno(3) where it says more than the message, else 0
};

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(std::string message, int errnum = 0)
{
    return std::unexpected(Error{std::move(message), errnum});
}

// Bytes of text that in_quotes() repeats.
constexpr std::size_t quoted_bytes_max = 64;

// Text from outside, fit for a terminal and a log: in double quotes, printable ASCII as
// it is, every other byte as \xNN, cut after quoted_bytes_max bytes.
std::string in_quotes(std::string_view text);

} // namespace fluxdat::imp
