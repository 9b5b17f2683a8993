// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The jobs in a DAT, of which a guest can make hundreds of thousands by one command:
// listed, and something done to each, however many there are. RFC 43.
//
// They are listed one message a job. That takes several times as long as one message
// for all (Flux 0.88); but that one has no bound, and what is larger than
// flux::message_size_max ends the connection. (max_entries, and a list page by page,
// were rejected: the order of a list is not one that it could be continued in.)
#pragma once

#include "lib/flux/services.h"

#include <functional>
#include <string>
#include <vector>

namespace fluxdat::dat {

using flux::Json;

// Calls `each` with every job that matches the constraint: its id, and these attributes
// of RFC 43. Errors: job-list does not answer, or the interrupt was raised; then it has
// been called with some.
flux::Task<Result<>> for_each_job(flux::Connection& dat, Json constraint,
                                  Json attributes,
                                  std::function<void(const Json& job)> each,
                                  flux::Interrupt* interrupt = nullptr);

// The ids of those in this state: "pending", "running", "inactive".
flux::Task<Result<std::vector<flux::JobId>>>
jobs_in(flux::Connection& dat, std::string state, flux::Interrupt* interrupt = nullptr);

// Requests that are under way at a time. Each is answered in well under a millisecond,
// and a job manager has other things to do.
constexpr std::size_t jobs_at_once_max = 64;

// Does it to each of them, in their order, jobs_at_once_max at a time. What comes of it
// is for `act` to see. No more of them once the interrupt is raised.
flux::Task<void> to_all(std::vector<flux::JobId> jobs,
                        std::function<flux::Task<Result<>>(flux::JobId)> act,
                        flux::Interrupt* interrupt = nullptr);

} // namespace fluxdat::dat
