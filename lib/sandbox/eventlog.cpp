// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/eventlog.h"

#include <algorithm>

namespace fluxdat::sandbox {

std::string format_event(double timestamp, std::string_view name, const Json& context)
{
    // In the order of RFC 18's examples, which Json would sort.
    std::string line = fmt::format("{{\"timestamp\":{:.6f},\"name\":{}", timestamp,
                                   Json(std::string(name)).dump());
    if (!context.is_null())
        line += ",\"context\":"
                + context.dump(-1, ' ', false, Json::error_handler_t::replace);
    return line + "}\n";
}

void Eventlog::append(double timestamp, std::string_view name, const Json& context)
{
    if (finished_)
        return;
    lines_.push_back(format_event(timestamp, name, context));
    bytes_ += lines_.back().size();
    for (const auto& watcher : watchers_)
        send(watcher.ticket, lines_.back());
}

void Eventlog::finish()
{
    finished_ = true;
    for (const auto& watcher : watchers_)
        router_.fail(watcher.ticket, missing() ? ENOENT : ENODATA);
    watchers_.clear();
}

std::string Eventlog::text() const
{
    std::string out;
    out.reserve(bytes_);
    for (const auto& line : lines_)
        out += line;
    return out;
}

void Eventlog::begin()
{
    begun_ = true;
    if (!missing())
        return;
    std::erase_if(watchers_, [&](const Watcher& watcher) {
        if (!watcher.patient)
            router_.fail(watcher.ticket, ENOENT);
        return !watcher.patient;
    });
}

void Eventlog::watch(Ticket request, bool patient)
{
    if (missing() && (finished_ || !patient))
        return router_.fail(request, ENOENT);
    for (const auto& line : lines_)
        send(request, line);
    if (finished_)
        router_.end(request);
    else
        watchers_.push_back({std::move(request), patient});
}

void Eventlog::forget(const Departure& departure)
{
    std::erase_if(watchers_, [&](const Watcher& watcher) {
        return departure.concerns(watcher.ticket);
    });
}

bool Eventlog::cancel(const Message& canceler, std::uint32_t matchtag)
{
    auto found =
        std::find_if(watchers_.begin(), watchers_.end(), [&](const Watcher& watcher) {
            return watcher.ticket.matchtag() == matchtag
                   && same_sender(watcher.ticket, canceler);
        });
    if (found == watchers_.end())
        return false;
    router_.end(found->ticket);
    watchers_.erase(found);
    return true;
}

void Eventlog::send(const Ticket& watcher, const std::string& line)
{
    router_.respond(watcher, {{"event", line}});
}

} // namespace fluxdat::sandbox
