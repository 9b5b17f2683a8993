// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/stdin_service.h"

#include "lib/flux/idset.h"
#include "lib/sandbox/output.h"

namespace fluxdat::sandbox {

StdinService::StdinService(Router& router, std::string name, std::uint32_t rank,
                           std::uint32_t userid,
                           std::function<void(const Json& io)> feed)
    : router_(router), name_(std::move(name)), rank_(rank), userid_(userid),
      feed_(std::move(feed)),
      registered_(router.add_service(rank, name_, *this).has_value())
{
}

StdinService::~StdinService()
{
    if (registered_)
        (void)router_.remove_service(rank_, name_, *this);
}

void StdinService::send(const Message& request)
{
    auto method = request.topic->substr(name_.size());
    if (method == ".disconnect")
        return;
    if (method != ".stdin")
        return router_.fail(request, ENOSYS,
                            fmt::format("Unknown service method '{}'", *request.topic));
    if (!(request.rolemask & flux::role_owner) && request.userid != userid_)
        return router_.fail(request, EPERM);
    auto io = flux::parse_json(request.payload_text());
    if (!io)
        return router_.fail(request, EPROTO);
    feed_(*io);
    router_.respond(request);
}

void write_stdin(Process& task, std::uint32_t task_rank, const Json& io)
{
    auto ranks = flux::text_at(io, "rank", "all");
    if (ranks != "all") {
        auto some = flux::parse_idset(ranks);
        if (!some || !some->contains(task_rank))
            return;
    }
    if (auto data = get_data(io); !data.empty())
        task.write(data, {}, job_stdin_max);
    if (io.is_object() && io.value("eof", Json()) == true)
        task.close_stdin();
}

} // namespace fluxdat::sandbox
