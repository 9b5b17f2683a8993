// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Directories on the way to a socket, one below the other: opened so that nobody can
// exchange one meanwhile, and files of ours in them. For passage.h and ways.h.
#pragma once

#include "lib/perms/fd.h"
#include "lib/result.h"

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace fluxdat::perms {

// Opens an absolute path (O_PATH), level by level, without symbolic links; each level
// is shown to `see`, and checked: nobody but root and this user can exchange what is in
// it, and guests can pass it, or this user can open it to them. `to_socket`: the last
// one is a socket's directory, and must be this user's. Errors: one that is not so.
using See =
    std::function<void(int level, const struct stat& status, const std::string& path)>;
Result<Fd> walk(const std::string& path, bool to_socket, const See& see);

// A level of this user's, to be read and changed (O_RDONLY); the way to it is walked.
Result<Fd> open_level(const std::string& path);

// A whole file of this user's that nobody else can write; nothing where there is none.
// `path` is what messages call the directory, here and below.
Result<std::optional<std::string>> read_own(int directory, const std::string& path,
                                            const char* name);

// Holds the lock on a file of that name, which it makes, until the descriptor is
// closed. Who removes the file holds it. Not the directory itself: guests may open
// that, where it was readable before, and hold a lock on it.
Result<Fd> lock_in(int directory, const std::string& path, const char* name);

// Text up to the next occurrence of `end`, which goes too; nothing if there is none.
std::optional<std::string_view> take_until(std::string_view& text, char end);

template <class Number>
bool parse_number(std::string_view text, Number& number, int base)
{
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

} // namespace fluxdat::perms
