// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Words for people, on stdout or stderr. fmt::print throws when the stream cannot be
// written; a message that nobody reads (a closed pipe, a full disk) must not end what
// the program was doing. For results on stdout, cli::finish() tells of the failure.
#pragma once

#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace fluxdat {

// The errno of the first write to stdout that failed; 0: none. stdio itself keeps only
// that there was one.
inline int stdout_errnum = 0;

// All of it, and at once: 0, or errno.
inline int put(std::FILE* stream, std::string_view bytes)
{
    if (std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size()
        && std::fflush(stream) == 0)
        return 0;
    int errnum = errno;
    if (stream == stdout && stdout_errnum == 0)
        stdout_errnum = errnum;
    return errnum;
}

template <class... Args>
void say(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args)
{
    std::string text = fmt::format(format, std::forward<Args>(args)...);
    if (std::fwrite(text.data(), 1, text.size(), stream) != text.size()
        && stream == stdout && stdout_errnum == 0)
        stdout_errnum = errno;
}

} // namespace fluxdat
