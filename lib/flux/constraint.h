// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What --requires takes, RFC 35 (Constraint Query Syntax), made into what a jobspec
// holds, RFC 31 (Job Constraints):
//
//     a b|-host:fluke[1-5]
//     {"or": [{"properties": ["a", "b"]}, {"not": [{"hostlist": ["fluke[1-5]"]}]}]}
//
// Flux passes on what it does not know, and the job waits for ever or is refused later;
// here operators and their operands are checked, since a DAT is started in advance.
#pragma once

#include "lib/result.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace fluxdat::flux {

// Parentheses and negations in each other. Each makes at most two levels of JSON.
constexpr std::size_t constraint_depth_max = 32;
constexpr std::size_t constraint_bytes_max = 64u << 10;

// Terms joined by "not" (binds tightest), "and" (&, &&, or nothing but white space),
// and "or" (|, ||), with parentheses and quotes ('…' or "…", no escapes) as in RFC 35;
// "-" negates a single term. A term is operand or operator:operand, the operators those
// of flux-alloc(1):
//
//     properties        the default; "a,b" is a and b; "^a" is not a
//     hostlist          also host, hosts; RFC 29
//     ranks             also rank; RFC 22
//
// Properties that are joined by "and" go into one list, as Flux does it. A usage error,
// with the column in characters from 1, otherwise; also for an operand that is no
// hostlist, no idset, or no property name of RFC 20.
Result<nlohmann::json> parse_constraint(std::string_view query);

} // namespace fluxdat::flux
