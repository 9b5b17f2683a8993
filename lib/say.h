// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Words for people, on stdout or stderr. fmt::print throws when the stream cannot be
// written; a message that nobody reads (a closed pipe, a full disk) must not end what
// the program was doing. For results on stdout, cli::finish() tells of the failure.
#pragma once

#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace fluxdat {

template <class... Args>
void say(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args)
{
    std::string text = fmt::format(format, std::forward<Args>(args)...);
    (void)!std::fwrite(text.data(), 1, text.size(), stream);
}

} // namespace fluxdat
