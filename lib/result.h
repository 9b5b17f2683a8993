// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How failure travels: as a value, from where it is noticed up to the command, which
// prints it once and exits with its status. Nothing below cli/ prints an error or
// throws one. lib/imp does not use this file: it is privileged code with rules of its
// own.
#pragma once

#include <cerrno>
#include <cstring>
#include <expected>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace fluxdat {

// Exit statuses of flux-dat(1). Scripts rely on these numbers.
enum class Exit : int {
    ok = 0,
    failed = 1,
    usage = 2,
    no_such_dat = 3,
    several_match = 4,
    not_ready = 5, // --timeout passed
    partial = 6,   // done on some ranks only
    not_permitted = 7,
};

// A failure as the person at the terminal will read it: what failed, where, and what
// to do about it, in one line without a trailing period or newline.
struct Error {
    std::string message;
    int errnum = 0; // errno(3) value where the cause has one, else 0
    Exit exit = Exit::failed;
};

template <class T = void>
using Result = std::expected<T, Error>;

// return fail("cannot open {}: {}", path, strerror(errno));
template <class... Args>
std::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args)
{
    return std::unexpected(Error{fmt::format(format, std::forward<Args>(args)...)});
}

// The same with an exit status other than 1.
template <class... Args>
std::unexpected<Error> fail(Exit exit, fmt::format_string<Args...> format,
                            Args&&... args)
{
    return std::unexpected(
        Error{fmt::format(format, std::forward<Args>(args)...), 0, exit});
}

// A failed system call: "WHAT: strerror(errnum)", with the errno kept.
inline std::unexpected<Error> fail_errno(int errnum, std::string what)
{
    return std::unexpected(
        Error{fmt::format("{}: {}", std::move(what), std::strerror(errnum)), errnum});
}

} // namespace fluxdat
