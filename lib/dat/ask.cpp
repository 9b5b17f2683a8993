// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/ask.h"

namespace fluxdat::dat {

namespace {

// Seconds. A status of a large DAT with slow nodes takes a few.
constexpr double answer_time_max = 30;

} // namespace

flux::Task<Result<Json>> ask_supervisor(flux::Loop& loop, flux::Connection& parent,
                                        const Dat& dat, std::string method,
                                        Json payload, flux::Interrupt* interrupt)
{
    if (dat.record.service_name.empty())
        co_return std::unexpected(Error{"it has not registered its service", ENOSYS});
    flux::Deadline limit(
        loop, answer_time_max,
        Error{fmt::format("no answer within {} s", answer_time_max), ETIMEDOUT},
        interrupt);
    // Not the name that the record gives: whoever wrote the record may have written
    // any, and the question is asked with the caller's rights.
    auto service = service_name(dat.job.userid, dat.job.id);
    co_return co_await parent.rpc(service + "." + method, std::move(payload),
                                  dat.record.service_rank, &limit.interrupt());
}

} // namespace fluxdat::dat
