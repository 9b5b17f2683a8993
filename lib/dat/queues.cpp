// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/queues.h"

namespace fluxdat::dat {

using flux::Json;

namespace {

// What our reasons begin with, so that they are told from an administrator's.
constexpr std::string_view our_reason = "this DAT is closed";

bool is_ours(const std::string& reason)
{
    return reason.starts_with(our_reason);
}

// Calls what enables or starts a queue, or the contrary; then there is a reason.
flux::Task<Result<>> set_queue(flux::Connection& dat, const QueueStatus& queue,
                               std::string topic, Json payload)
{
    payload["all"] = queue.name.empty();
    if (!queue.name.empty())
        payload["name"] = queue.name;
    auto done = co_await dat.rpc(std::move(topic), std::move(payload), 0);
    if (done)
        co_return Result<>{};
    auto name = queue.name.empty() ? "the queue" : "the queue " + queue.name;
    co_return std::unexpected(
        Error{fmt::format("{}: {}", name, done.error().message), done.error().errnum});
}

flux::Task<Result<>> enable(flux::Connection& dat, const QueueStatus& queue)
{
    return set_queue(dat, queue, "job-manager.queue-enable", {{"enable", true}});
}

flux::Task<Result<>> disable(flux::Connection& dat, const QueueStatus& queue,
                             const std::string& why)
{
    return set_queue(dat, queue, "job-manager.queue-enable",
                     {{"enable", false}, {"reason", why}});
}

flux::Task<Result<>> start(flux::Connection& dat, const QueueStatus& queue)
{
    return set_queue(dat, queue, "job-manager.queue-start",
                     {{"start", true}, {"nocheckpoint", false}});
}

flux::Task<Result<>> stop(flux::Connection& dat, const QueueStatus& queue,
                          const std::string& why)
{
    return set_queue(dat, queue, "job-manager.queue-start",
                     {{"start", false}, {"nocheckpoint", false}, {"reason", why}});
}

flux::Task<Result<std::vector<QueueStatus>>> all_queues(flux::Connection& dat)
{
    auto list = co_await dat.rpc("job-manager.queue-list");
    if (!list)
        co_return std::unexpected(list.error());
    std::vector<std::string> names;
    if (list->contains("queues") && (*list)["queues"].is_array())
        for (auto& name : (*list)["queues"])
            if (name.is_string())
                names.push_back(name.get<std::string>());
    if (names.empty())
        names.emplace_back();
    std::vector<QueueStatus> queues;
    for (auto& name : names) {
        auto queue = co_await queue_status(dat, name);
        if (!queue)
            co_return std::unexpected(queue.error());
        queues.push_back(std::move(*queue));
    }
    co_return queues;
}

} // namespace

flux::Task<Result<QueueStatus>> queue_status(flux::Connection& flux, std::string name)
{
    constexpr const char* topic = "job-manager.queue-status";
    Json payload = Json::object();
    if (!name.empty())
        payload["name"] = name;
    auto answer = co_await flux.rpc(topic, std::move(payload));
    if (!answer)
        co_return std::unexpected(answer.error());
    QueueStatus queue;
    for (auto [key, value] :
         {std::pair("enable", &queue.enabled), std::pair("start", &queue.started)}) {
        if (!answer->is_object() || !answer->contains(key)
            || !(*answer)[key].is_boolean())
            co_return std::unexpected(
                Error{fmt::format("{}: the answer lacks \"{}\"", topic, key), EPROTO});
        *value = (*answer)[key].get<bool>();
    }
    queue.name = std::move(name);
    queue.disable_reason = flux::text_at(*answer, "disable_reason");
    queue.stop_reason = flux::text_at(*answer, "stop_reason");
    co_return queue;
}

flux::Task<Result<>> start_queues(flux::Connection& dat)
{
    auto queues = co_await all_queues(dat);
    if (!queues)
        co_return std::unexpected(queues.error());
    for (auto& queue : *queues) {
        if (queue.name.empty() || queue.started || is_ours(queue.stop_reason))
            continue;
        auto started = co_await start(dat, queue);
        if (!started)
            co_return fail("cannot start {}", started.error().message);
    }
    co_return Result<>{};
}

flux::Task<Result<>> close_queues(flux::Connection& dat, std::string why)
{
    auto queues = co_await all_queues(dat);
    if (!queues)
        co_return std::unexpected(queues.error());
    why = fmt::format("{}: {}", our_reason, why);
    Result<> all;
    for (auto& queue : *queues) {
        auto closed = Result<>{};
        if (queue.started)
            closed = co_await stop(dat, queue, why);
        if (closed && queue.enabled)
            closed = co_await disable(dat, queue, why);
        if (all && !closed)
            all = closed;
    }
    co_return all;
}

flux::Task<Result<>> reopen_queues(flux::Connection& dat)
{
    auto queues = co_await all_queues(dat);
    if (!queues)
        co_return std::unexpected(queues.error());
    Result<> all;
    for (auto& queue : *queues) {
        auto opened = Result<>{};
        if (is_ours(queue.stop_reason))
            opened = co_await start(dat, queue);
        if (opened && is_ours(queue.disable_reason))
            opened = co_await enable(dat, queue);
        if (all && !opened)
            all = opened;
    }
    co_return all;
}

} // namespace fluxdat::dat
