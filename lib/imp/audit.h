// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The audit trail (RFC 15, "IMP post-verification execution"): one line to syslog(3),
// facility authpriv, for everything that exec and run did or refused. Nobody else can
// write such a line for the IMP, and nothing that came from outside can make a line of
// its own: text is printable, bounded, and in quotes.
//
//     exec: accepted owner="flux(999)" user="bob(1002)" job="fAbC" shell="/usr/..."
//     exec: refused owner="flux(999)" reason="..."
#pragma once

#include "lib/imp/user.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fluxdat::imp {

// Bytes of one value in it.
constexpr std::size_t audit_value_bytes_max = 256;

// "name(uid)".
std::string audit_user(const User& user);

// The line, all values in quotes.
std::string audit_line(std::string_view command, bool accepted,
                       const std::vector<std::pair<std::string, std::string>>& fields);

// Writes it, as info where accepted, else as a warning.
void audit(std::string_view command, bool accepted,
           const std::vector<std::pair<std::string, std::string>>& fields);

} // namespace fluxdat::imp
