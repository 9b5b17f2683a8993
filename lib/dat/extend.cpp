// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/extend.h"

#include "lib/flux/fsd.h"

#include <cmath>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

constexpr const char* duration_key = "attributes.system.duration"; // RFC 14

// What the parent said, made fit for whoever asked. Flux 0.88 answers EINVAL for both a
// limit and a running job of somebody who is not the instance's owner.
flux::Task<Error> refusal(flux::Connection& parent, const Dat& dat, Error error)
{
    if (parent.lost())
        co_return error;
    auto owner = co_await flux::attribute_number(parent, "security.owner");
    bool instance_owner = owner && *owner == geteuid();
    auto what = fmt::format("cannot extend the DAT \"{}\" ({})", dat.record.name,
                            flux::format_jobid(dat.job.id));
    if (error.errnum == EPERM)
        co_return Error{fmt::format("{}: only its owner (uid {}) or the instance's may",
                                    what, dat.job.userid),
                        EPERM, Exit::not_permitted};
    if (error.errnum == EINVAL && dat.job.running() && !instance_owner)
        co_return Error{
            fmt::format("{}: {}; ask an administrator for flux update {} duration=+FSD",
                        what, error.message, flux::format_jobid(dat.job.id)),
            EPERM, Exit::not_permitted};
    co_return Error{fmt::format("{}: {}", what, error.message), error.errnum};
}

} // namespace

flux::Task<Result<Extended>> extend(flux::Connection& parent, const Dat& dat,
                                    double seconds)
{
    auto named = fmt::format("the DAT \"{}\" ({})", dat.record.name,
                             flux::format_jobid(dat.job.id));
    if (dat.record.stop_at > 0 || dat.job.state == flux::job_state_cleanup)
        co_return fail("{} is ending: {}", named,
                       dat.record.stop_reason.empty() ? "its job is being taken down"
                                                      : dat.record.stop_reason);
    if (dat.job.duration <= 0)
        co_return fail("{} has no time limit: there is nothing to extend", named);
    double duration = dat.job.duration + seconds;
    if (!std::isfinite(duration))
        co_return fail(Exit::usage, "{}: too long", flux::format_fsd(seconds));
    Json payload{{"id", dat.job.id}, {"updates", {{duration_key, duration}}}};
    auto updated = co_await parent.rpc("job-manager.update", std::move(payload), 0);
    if (!updated)
        co_return std::unexpected(
            co_await refusal(parent, dat, std::move(updated.error())));
    double expiration = dat.job.expiration;
    co_return Extended{duration, expiration > 0 ? expiration + seconds : 0};
}

} // namespace fluxdat::dat
