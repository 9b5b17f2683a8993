// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Lists of hosts: RFC 29. "fluke[131-134],login1" stands for five hosts, in that order,
// and a host may be in it more than once.
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::flux {

using Hostlist = std::vector<std::string>;

// A text that stands for more than this is refused: "x[0-99999999999]" is short.
constexpr std::size_t hostlist_hosts_max = 1u << 20;
constexpr std::size_t hostlist_bytes_max = 32u << 20; // all names together
constexpr std::size_t hostlist_host_max = 255;        // bytes; a name of DNS has 253

// Takes hostlist expressions, each a prefix, an optional list of numbers in brackets,
// and a suffix, separated by commas; empty ones count for nothing. A number with
// leading zeros sets the width of its range, as in Flux 0.88; RFC 29 has the width of
// the first number of a bracket hold for the others too, which would misread the
// "[005,4]" that Flux writes for the hosts 005 and 4.
// A usage error with the column otherwise: also for white space and characters that are
// not ASCII, and for more than one bracket in an expression.
Result<Hostlist> parse_hostlist(std::string_view text);

// The shortest text with neighbours in sequence folded, as Flux does it: only numbers
// at the end of the names. Numbers of different width go in different brackets, so that
// RFC 29 and Flux both read it as it was meant.
std::string format_hostlist(const Hostlist& hosts);

} // namespace fluxdat::flux
