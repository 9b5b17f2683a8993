// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/queues.h"

namespace fluxdat::dat {

using flux::Json;

namespace {

// What our reasons begin with, so that they are told from an administrator's.
constexpr std::string_view our_reason = "this DAT is closed";

struct QueueStatus {
    std::string name; // empty: the anonymous one
    bool enabled = true, started = true;
    bool ours_disabled = false, ours_stopped = false;
};

Json about(const std::string& name, Json payload)
{
    payload["all"] = name.empty();
    if (!name.empty())
        payload["name"] = name;
    return payload;
}

flux::Task<Result<QueueStatus>> status(flux::Connection& dat, std::string name)
{
    Json payload = Json::object();
    if (!name.empty())
        payload["name"] = name;
    auto answer = co_await dat.rpc("job-manager.queue-status", std::move(payload));
    if (!answer)
        co_return std::unexpected(answer.error());
    auto is = [&](const char* key) {
        return !answer->contains(key) || (*answer)[key] != false;
    };
    auto ours = [&](const char* key) {
        return flux::text_at(*answer, key).starts_with(our_reason);
    };
    QueueStatus queue;
    queue.name = std::move(name);
    queue.enabled = is("enable");
    queue.started = is("start");
    queue.ours_disabled = ours("disable_reason");
    queue.ours_stopped = ours("stop_reason");
    co_return queue;
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
        auto queue = co_await status(dat, name);
        if (!queue)
            co_return std::unexpected(queue.error());
        queues.push_back(std::move(*queue));
    }
    co_return queues;
}

flux::Task<Result<>> enable(flux::Connection& dat, std::string name, bool enable,
                            std::string why)
{
    Json payload{{"enable", enable}};
    if (!enable)
        payload["reason"] = why;
    payload = about(name, std::move(payload));
    auto done = co_await dat.rpc("job-manager.queue-enable", std::move(payload), 0);
    co_return done ? Result<>{} : std::unexpected(done.error());
}

flux::Task<Result<>> start(flux::Connection& dat, std::string name, bool start,
                           std::string why)
{
    Json payload{{"start", start}, {"nocheckpoint", false}};
    if (!start)
        payload["reason"] = why;
    payload = about(name, std::move(payload));
    auto done = co_await dat.rpc("job-manager.queue-start", std::move(payload), 0);
    co_return done ? Result<>{} : std::unexpected(done.error());
}

} // namespace

flux::Task<Result<>> start_queues(flux::Connection& dat)
{
    auto queues = co_await all_queues(dat);
    if (!queues)
        co_return std::unexpected(queues.error());
    for (auto& queue : *queues) {
        if (queue.name.empty() || queue.started || queue.ours_stopped)
            continue;
        auto started = co_await start(dat, queue.name, true, {});
        if (!started)
            co_return fail("cannot start the queue {}: {}", queue.name,
                           started.error().message);
    }
    co_return Result<>{};
}

flux::Task<Result<>> close_queues(flux::Connection& dat, std::string why)
{
    auto queues = co_await all_queues(dat);
    if (!queues)
        co_return std::unexpected(queues.error());
    why = fmt::format("{}: {}", our_reason, why);
    for (auto& queue : *queues) {
        auto closed = Result<>{};
        if (queue.started)
            closed = co_await start(dat, queue.name, false, why);
        if (closed && queue.enabled)
            closed = co_await enable(dat, queue.name, false, why);
        if (!closed)
            co_return closed;
    }
    co_return Result<>{};
}

flux::Task<Result<>> reopen_queues(flux::Connection& dat)
{
    auto queues = co_await all_queues(dat);
    if (!queues)
        co_return std::unexpected(queues.error());
    for (auto& queue : *queues) {
        auto opened = Result<>{};
        if (queue.ours_stopped)
            opened = co_await start(dat, queue.name, true, {});
        if (opened && queue.ours_disabled)
            opened = co_await enable(dat, queue.name, true, {});
        if (!opened)
            co_return opened;
    }
    co_return Result<>{};
}

} // namespace fluxdat::dat
