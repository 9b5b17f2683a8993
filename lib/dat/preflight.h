// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The flow of `flux-dat check`: asks the parent instance, this node, and the nodes that
// a DAT may get, and gives all verdicts. Nothing is submitted and nothing is changed.
//
// The nodes are asked by the parent's subprocess service (RFC 42), which is for the
// instance's owner only; all of them at once, up to a bound. For anybody else this node
// stands for them.
#pragma once

#include "lib/dat/check.h"
#include "lib/dat/start.h"
#include "lib/flux/services.h"

namespace fluxdat::dat {

struct PreflightOptions {
    StartOptions start; // the one that is checked
    // Of a begin time that is over: what to say of it.
    std::optional<std::string> begin_has_passed;
    // Seconds that the nodes may take, of those that are asked at the same time;
    // finite.
    double node_answer_time = 15;
};

// How many nodes are asked at the same time: each has a stream of its own at the
// broker.
constexpr std::size_t nodes_at_once_max = 1024;

// An error only where it was interrupted; whatever else goes wrong is a verdict.
flux::Task<Result<std::vector<Verdict>>> preflight(flux::Loop& loop,
                                                   flux::Connection& parent,
                                                   PreflightOptions options,
                                                   flux::Interrupt& interrupt);

// The verdicts where there is no parent to ask, for the reason given.
std::vector<Verdict> preflight_without_parent(const Error& why);

} // namespace fluxdat::dat
