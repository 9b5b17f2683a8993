// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/resource_journal.h"

#include "lib/sandbox/timer.h"

namespace fluxdat::sandbox {

namespace {

Json event(const char* name, Json context)
{
    return {
        {"timestamp", wall_clock()}, {"name", name}, {"context", std::move(context)}};
}

Json answer(Json events)
{
    return {{"events", std::move(events)}};
}

} // namespace

ResourceJournal::ResourceJournal(Router& router, const Inventory& inventory, Json R,
                                 ResourceOrigin origin)
    : router_(router)
{
    Idset all;
    for (std::uint32_t rank = 0; rank < inventory.nodes.size(); rank++)
        all.insert(rank);
    restart_ = answer(Json::array(
        {event("restart", {{"ranks", flux::format_idset(all)},
                           {"online", ""},
                           {"nodelist", flux::format_hostlist(inventory.hosts())}})}));
    define_ = answer(Json::array(
        {event("resource-define",
               {{"method", origin == ResourceOrigin::job_info ? "job-info"
                                                              : "configuration"}})}));
    define_["R"] = std::move(R);
    // The flag for streams is looked at below: this service has words of its own.
    router.method("resource.journal", Router::Where::root, Router::owner_only,
                  [this](const Request& request) { listen(request); });
    router.on_departure([this](const Departure& departure) {
        std::erase_if(listeners_, [&](const Ticket& listener) {
            return departure.concerns(listener);
        });
    });
}

void ResourceJournal::listen(const Request& request)
{
    if (!request.message.streaming())
        return router_.fail(request.message, EPROTO,
                            "journal requires streaming RPC flag");
    auto listener = request.ticket();
    router_.respond(listener, restart_);
    router_.respond(listener, define_);
    if (!events_.empty())
        router_.respond(listener, answer(events_));
    router_.respond(listener, answer(Json::array()));
    listeners_.push_back(std::move(listener));
}

void ResourceJournal::happened(const char* name, const Idset& ranks)
{
    events_.push_back(event(name, {{"idset", flux::format_idset(ranks)}}));
    for (const auto& listener : listeners_)
        router_.respond(listener, answer(Json::array({events_.back()})));
}

} // namespace fluxdat::sandbox
