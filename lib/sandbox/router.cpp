// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/router.h"

#include <algorithm>

namespace fluxdat::sandbox {

namespace {

std::string_view service_of(std::string_view topic)
{
    return topic.substr(0, topic.find('.'));
}

} // namespace

Ticket Request::ticket() const
{
    Ticket ticket = message;
    ticket.payload.reset();
    return ticket;
}

bool Departure::concerns(const Message& request) const
{
    if (!service.empty() && service_of(*request.topic) != service)
        return false;
    const auto& routes = request.routes;
    if (connection)
        return std::find(routes.begin(), routes.end(), route) != routes.end();
    return !routes.empty() && routes.front() == route;
}

bool same_sender(const Message& a, const Message& b)
{
    return !a.routes.empty() && !b.routes.empty()
           && a.routes.front() == b.routes.front();
}

Router::Router(std::uint32_t size, std::uint32_t owner, std::uint32_t fanout)
    : owner_(owner), fanout_(fanout), up_(size, true)
{
}

void Router::method(const std::string& topic, Where where, unsigned allow,
                    Handler handler)
{
    auto [service, added] = services_.emplace(std::string(service_of(topic)), where);
    if (!added && where == Where::everywhere)
        service->second = where;
    methods_[topic] = Method{where, allow, std::move(handler)};
}

void Router::on_departure(std::function<void(const Departure&)> callback)
{
    departures_.push_back(std::move(callback));
}

Result<> Router::add_service(std::uint32_t rank, const std::string& name, Peer& peer)
{
    if (name.find('.') != name.npos)
        return std::unexpected(Error{"", EINVAL});
    if (services_.contains(name)
        || !peer_services_.emplace(std::pair(rank, name), &peer).second)
        return std::unexpected(Error{"", EEXIST});
    return {};
}

Result<> Router::remove_service(std::uint32_t rank, const std::string& name, Peer& peer)
{
    auto found = peer_services_.find({rank, name});
    if (found == peer_services_.end() || found->second != &peer)
        return std::unexpected(Error{"", ENOENT});
    peer_services_.erase(found);
    return {};
}

void Router::add_peer(Peer& peer)
{
    peers_[peer.route()].peer = &peer;
}

void Router::remove_peer(Peer& peer)
{
    auto node = peers_.extract(peer.route());
    if (node.empty())
        return;
    std::erase_if(peer_services_, [&](auto& entry) { return entry.second == &peer; });
    Departure departure{peer.route(), true, {}};
    for (auto& callback : departures_)
        callback(departure);
    for (auto& [place, last] : node.mapped().used) {
        Message disconnect = flux::make_request(place.second + ".disconnect", {},
                                                place.first, flux::flag_noresponse);
        disconnect.userid = last.userid;
        disconnect.rolemask = last.rolemask;
        disconnect.routes = {peer.route()};
        route(place.first, std::move(disconnect));
    }
}

Peer* Router::find_peer(const std::string& route) const
{
    auto found = peers_.find(route);
    return found == peers_.end() ? nullptr : found->second.peer;
}

void Router::receive(Peer& from, Message message)
{
    switch (message.type) {
    case Message::Type::request:
        if (!message.topic)
            return;
        message.has_route_delimiter = true;
        message.routes.push_back(from.route());
        route(from.rank(), std::move(message));
        return;
    case Message::Type::response:
        deliver_response(std::move(message));
        return;
    case Message::Type::event:
        if (message.topic)
            publish(std::move(message));
        return;
    case Message::Type::control:
        return; // between brokers only
    }
}

void Router::route(std::uint32_t entered, Message request)
{
    bool any = request.nodeid() == flux::nodeid_any;
    bool upstream = request.flags & flux::flag_upstream;
    if (any || upstream) {
        auto rank = entered;
        if (!any) {
            rank = request.nodeid() < size() ? request.nodeid() : 0;
            if (rank == 0) {
                // Nothing is upstream of the root; Flux 0.88 serves it there.
                if (!serve(entered, 0, request))
                    fail(request, ENOSYS,
                         fmt::format("No service matching {} is registered",
                                     *request.topic));
                return;
            }
            rank = parent(rank);
        }
        while (true) {
            if (serve(entered, rank, request))
                return;
            if (rank == 0)
                break;
            rank = parent(rank);
        }
    } else {
        auto rank = request.nodeid();
        if (rank >= size() || !up_[rank]) {
            fail(request, EHOSTUNREACH);
            return;
        }
        if (serve(entered, rank, request))
            return;
    }
    fail(request, ENOSYS,
         fmt::format("No service matching {} is registered", *request.topic));
}

// Gives the request to the rank's service. False when it has none of that name.
bool Router::serve(std::uint32_t entered, std::uint32_t rank, Message& request)
{
    std::string service(service_of(*request.topic));
    bool local = entered == rank;
    if (auto found = services_.find(service); found != services_.end()) {
        if (found->second == Where::root && rank != 0)
            return false;
        if (!local)
            request.rolemask &= ~flux::role_local;
        if (*request.topic == service + ".disconnect") {
            if (request.routes.empty())
                return true;
            Departure departure{request.routes.front(), false, service};
            for (auto& callback : departures_)
                callback(departure);
            return true;
        }
        auto method = methods_.find(*request.topic);
        if (method == methods_.end()
            || (method->second.where == Where::root && rank != 0))
            fail(request, ENOSYS,
                 fmt::format("Unknown service method '{}'", *request.topic));
        else
            call(method->second, rank, request);
        return true;
    }
    auto found = peer_services_.find({rank, service});
    if (found == peer_services_.end())
        return false;
    if (!local)
        request.rolemask &= ~flux::role_local;
    if (!request.routes.empty() && *request.topic != service + ".disconnect")
        if (auto peer = peers_.find(request.routes.back()); peer != peers_.end()) {
            auto& last = peer->second.used[{rank, service}];
            last.userid = request.userid;
            last.rolemask = request.rolemask;
        }
    found->second->send(request);
    return true;
}

void Router::call(const Method& method, std::uint32_t rank, const Message& request)
{
    if (!(method.allow & guests) && !(request.rolemask & flux::role_owner)) {
        fail(request, EPERM, "Request requires owner credentials");
        return;
    }
    if ((method.allow & streaming_only) && !request.streaming()) {
        auto name = request.topic->substr(request.topic->find('.') + 1);
        fail(request, EPROTO,
             fmt::format("{} request rejected without streaming RPC flag", name));
        return;
    }
    Json payload;
    if (!request.payload_text().empty()) {
        auto parsed = flux::parse_json(request.payload_text(), flux::json_depth_flux);
        if (!parsed) {
            fail(request, EPROTO, "Protocol error");
            return;
        }
        payload = std::move(*parsed);
    }
    method.handler(Request{request, rank, payload});
}

void Router::deliver_response(Message response)
{
    if (response.routes.empty())
        return;
    auto found = peers_.find(response.routes.back());
    if (found == peers_.end())
        return; // it left before its answer came
    response.routes.pop_back();
    found->second.peer->send(response);
}

void Router::respond(const Message& request, const Json& payload)
{
    if (request.noresponse())
        return;
    std::string text;
    if (!payload.is_null())
        text = payload.dump(-1, ' ', false, Json::error_handler_t::replace);
    auto response = flux::make_response(request, text);
    response.userid = owner_;
    response.rolemask = flux::role_owner | (request.rolemask & flux::role_local);
    deliver_response(std::move(response));
}

void Router::fail(const Message& request, int errnum, std::string_view text)
{
    if (request.noresponse())
        return;
    auto response = flux::make_error_response(request, errnum, text);
    response.userid = owner_;
    response.rolemask = flux::role_owner | (request.rolemask & flux::role_local);
    deliver_response(std::move(response));
}

void Router::subscribe(Peer& peer, const std::string& topic)
{
    if (auto found = peers_.find(peer.route()); found != peers_.end())
        found->second.subscriptions[topic]++;
}

void Router::unsubscribe(Peer& peer, const std::string& topic)
{
    auto found = peers_.find(peer.route());
    if (found == peers_.end())
        return;
    auto& subscriptions = found->second.subscriptions;
    if (auto entry = subscriptions.find(topic);
        entry != subscriptions.end() && --entry->second == 0)
        subscriptions.erase(entry);
}

std::uint32_t Router::publish(Message event)
{
    event.aux1 = ++event_sequence_;
    event.aux2 = 0;
    event.routes.clear();
    event.has_route_delimiter = false;
    for (auto& [route, connected] : peers_) {
        bool wanted = std::any_of(
            connected.subscriptions.begin(), connected.subscriptions.end(),
            [&](const auto& entry) { return event.topic->starts_with(entry.first); });
        auto userid = connected.peer->userid();
        if ((event.flags & flux::flag_private) && userid != owner_
            && userid != event.userid)
            continue;
        if (wanted)
            connected.peer->send(event);
    }
    return event_sequence_;
}

void Router::set_up(std::uint32_t rank, bool up)
{
    up_[rank] = up;
    if (!up)
        std::erase_if(peer_services_,
                      [&](auto& entry) { return entry.first.first == rank; });
}

std::uint32_t Router::parent(std::uint32_t rank) const
{
    if (rank == 0 || fanout_ == 0)
        return 0;
    return (rank - 1) / fanout_;
}

std::uint32_t Router::level(std::uint32_t rank) const
{
    std::uint32_t level = 0;
    for (; rank > 0; rank = parent(rank))
        level++;
    return level;
}

std::vector<std::uint32_t> Router::children(std::uint32_t rank) const
{
    std::vector<std::uint32_t> out;
    for (std::uint32_t other = 1; other < size(); other++)
        if (parent(other) == rank)
            out.push_back(other);
    return out;
}

} // namespace fluxdat::sandbox
