// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The reader `flux`: the input of exec, fetched from the Flux instance whose broker
// started the IMP. J and R of the job are one job-info.lookup, this broker's rank one
// attr.get, both at once; R_local is what R (RFC 20) gives to this rank. It runs as the
// instance's owner, who alone may look up J and R of other people's jobs.
//
// Which broker and which job: as Flux 0.88 calls an IMP, with a job shell as
//
//     FLUX_URI=local:///.../local-1  flux-imp exec /usr/libexec/flux/flux-shell JOBID
//
// FLUX_URI is the broker of the rank on which the IMP runs, and the job id the first
// argument after the shell. FLUX_JOB_ID is not looked at when there is that argument:
// in a DAT, the brokers' environment, which the IMP inherits, may have it of the DAT's
// own job in the parent. (Flux sets it for `run`, not for `exec`.)
//
// Nothing in this is believed because it came from the broker: J is verified and
// R_local checked by the privileged half, like the input of any reader.
#pragma once

#include "lib/imp/result.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::imp::reader {

// Seconds that a broker may take to answer. A job's start waits for this.
constexpr double flux_answer_seconds_max = 30;

struct FluxJob {
    std::string uri;      // of the broker: local://PATH
    std::uint64_t id = 0; // of the job
};

// `arguments` are those that the shell will get, without the shell itself; environment
// variables as getenv(3) has them. Fails where FLUX_URI or the job id is missing, or
// neither local nor a job id.
Result<FluxJob> find_flux_job(const std::vector<std::string>& arguments);

// {"J": "...", "R_local": {"cpu": [...], "gpu": [...]}}: an input as it would come from
// stdin. Errors name the broker's socket or the job, and what to do.
Result<nlohmann::json> read_flux(const FluxJob& job);

// R_local for one rank: `R` as text, RFC 20 version 1. `cpu` are the rank's cores,
// `gpu` its GPUs, [] where R gives it none: then it must use none. Fails where R is not
// such, or has nothing for the rank.
Result<nlohmann::json> local_resources(std::string_view R, std::uint32_t rank);

} // namespace fluxdat::imp::reader
