// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Replacing a file as a whole: written beside itself and renamed, so that who reads it
// sees the old content or the new one.
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>

namespace fluxdat::perms {

// Replaces `name` in the directory that is open as `directory`, mode 0600 whatever the
// umask is; `temporary` is its name before, `path` what messages call the directory.
// One writer at a time. Errors: what unlinkat(2), openat(2), fchmod(2), write(2),
// close(2), renameat(2) say; the old file is then still there, and no temporary one.
Result<> replace_file(int directory, const std::string& path, const char* name,
                      const char* temporary, std::string_view text);

} // namespace fluxdat::perms
