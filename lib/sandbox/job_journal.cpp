// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/job_journal.h"

namespace fluxdat::sandbox {

namespace {

// The keys of {"submit": 1, ...}. Nothing if it is no object.
std::optional<std::set<std::string>> names_in(const Json& object)
{
    if (!object.is_object())
        return std::nullopt;
    std::set<std::string> names;
    for (auto& [name, value] : object.items())
        names.insert(name);
    return names;
}

} // namespace

JobJournal::JobJournal(Router& router, Jobs& jobs) : router_(router), jobs_(jobs)
{
    router.method("job-manager.events-journal", Router::Where::root,
                  Router::owner_only | Router::streaming_only,
                  [this](const Request& request) { listen(request); });
    router.on_departure([this](const Departure& departure) {
        std::erase_if(listeners_, [&](const Listener& listener) {
            return departure.concerns(listener.ticket);
        });
    });
    jobs.on_event = [this](const Job& job, const std::string& line) {
        happened(job, line);
    };
}

void JobJournal::listen(const Request& request)
{
    Listener listener{request.ticket(), std::nullopt, {}};
    bool full = false;
    if (request.payload.is_object()) {
        if (auto found = request.payload.find("full"); found != request.payload.end()) {
            if (!found->is_boolean())
                return router_.fail(request.message, EPROTO);
            full = found->get<bool>();
        }
        if (auto found = request.payload.find("allow");
            found != request.payload.end()) {
            listener.allow = names_in(*found);
            if (!listener.allow)
                return router_.fail(request.message, EPROTO,
                                    "job-manager.events-journal allow should be an "
                                    "object");
        }
        if (auto found = request.payload.find("deny"); found != request.payload.end()) {
            auto deny = names_in(*found);
            if (!deny)
                return router_.fail(request.message, EPROTO,
                                    "job-manager.events-journal deny should be an "
                                    "object");
            listener.deny = std::move(*deny);
        }
    }
    for (const auto& [id, job] : jobs_.all())
        if (full || job->active())
            replay(listener, *job);
    router_.respond(listener.ticket, {{"id", -1}, {"events", Json::array()}});
    listeners_.push_back(std::move(listener));
}

void JobJournal::replay(const Listener& listener, const Job& job)
{
    Json events = Json::array();
    for (const auto& line : job.eventlog.lines()) {
        auto event = Json::parse(line);
        if (listener.wants(event["name"].get_ref<const std::string&>()))
            events.push_back(std::move(event));
    }
    if (!events.empty())
        send(listener, job, std::move(events), true, true);
}

void JobJournal::send(const Listener& listener, const Job& job, Json events,
                      bool with_jobspec, bool with_R)
{
    Json answer{{"id", job.id}, {"events", std::move(events)}};
    if (with_jobspec)
        answer["jobspec"] = job.spec.document;
    if (auto R = with_R ? jobs_.R(job) : Json(); !R.is_null())
        answer["R"] = std::move(R);
    router_.respond(listener.ticket, answer);
}

void JobJournal::happened(const Job& job, const std::string& line)
{
    if (listeners_.empty())
        return;
    auto event = Json::parse(line);
    auto name = event["name"].get<std::string>();
    for (const auto& listener : listeners_)
        if (listener.wants(name))
            send(listener, job, Json::array({event}), name == "submit",
                 name == "alloc");
}

} // namespace fluxdat::sandbox
