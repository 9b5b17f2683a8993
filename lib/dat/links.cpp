// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/links.h"

#include "lib/clock.h"
#include "lib/dat/audit.h"

#include <cstdlib>

namespace fluxdat::dat {

flux::Task<Result<>> Links::connect_dat()
{
    const char* uri = std::getenv("FLUX_URI");
    auto opened = co_await flux::Connection::open(loop, uri ? uri : "");
    if (!opened) {
        int errnum = opened.error().errnum;
        no_broker = errnum == ENOENT || errnum == ECONNREFUSED;
        co_return std::unexpected(opened.error());
    }
    dat = std::move(*opened);
    // Of another sandbox, or of none: --env brought the variable along.
    if (auto same = co_await flux::same_clock(*dat); !same) {
        complain(same.error().message);
        (void)set_clock({});
    }
    dat->on_lost([this](const Error& error) {
        // What this process cannot read is no broker that died: it ends, and another
        // one begins.
        lost_dat = error.errnum != EPROTO;
        end.raise(error); // with the broker goes the reason to be
    });
    auto jobid = co_await flux::attribute(*dat, "jobid");
    auto parent_of = co_await flux::attribute(*dat, "parent-uri");
    auto ranks = co_await flux::attribute_number(*dat, "size");
    if (!jobid)
        co_return std::unexpected(jobid.error());
    if (!parent_of)
        co_return std::unexpected(parent_of.error());
    if (!ranks)
        co_return std::unexpected(ranks.error());
    auto parsed = flux::parse_jobid(*jobid);
    if (!parsed)
        co_return std::unexpected(parsed.error());
    id = *parsed;
    parent_uri = std::move(*parent_of);
    size = *ranks;
    co_return Result<>{};
}

} // namespace fluxdat::dat
