// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Job ids: RFC 19 (FLUID). A job id is 64 bits; people meet it as F58, base 58 behind
// an "ƒ", or behind a plain "f" where only ASCII will do (file and service names).
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fluxdat::flux {

using JobId = std::uint64_t;

// Takes decimal, F58 ("ƒ…" or "f…"), hexadecimal ("0x…") and dotted hexadecimal
// ("0017.e9fb.8df1.6c2e"), told apart as RFC 19 says, white space around it ignored.
// All of the text must be the id. A usage error otherwise; also for more than 64 bits,
// where Flux 0.88 takes F58 modulo 2^64, and for the words and emoji forms, whose
// tables are not worth having here.
Result<JobId> parse_jobid(std::string_view text);

// "ƒuZZybuNNy", in UTF-8; "fuZZybuNNy" where show_jobids_in_ascii() said so.
std::string format_jobid(JobId id);

// Whether this process writes where ƒ would be garbled: in a locale without UTF-8, as
// cron's, or with FLUX_F58_FORCE_ASCII (flux-environment(7)).
bool jobids_need_ascii();
void show_jobids_in_ascii(bool ascii);

// "fuZZybuNNy".
std::string format_jobid_ascii(JobId id);

} // namespace fluxdat::flux
