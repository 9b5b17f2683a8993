// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Requests and responses between the ranks of one instance: RFC 3 (routing), RFC 6
// (errors), RFC 12 (who may).
//
// All ranks live in one process, so the tree between them is only computed: a request
// for any node climbs from the rank where it came in until a rank has the service. What
// remains of the hops is the route stack, on which each connection is one entry.
#pragma once

#include "lib/flux/connection.h"
#include "lib/flux/message.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace fluxdat::sandbox {

using flux::Json;
using flux::Message;

// A connection to one rank, as the router sees it.
class Peer
{
public:
    virtual ~Peer() = default;
    virtual void send(const Message& message) = 0;
    // The connection's entry in route stacks.
    virtual const std::string& route() const = 0;
    virtual std::uint32_t rank() const = 0;
    virtual std::uint32_t userid() const = 0;
};

// What remains of a request whose answer comes later: everything but its payload.
using Ticket = Message;

// One request at the service that takes it.
struct Request {
    const Message& message;
    std::uint32_t rank;  // of the service
    const Json& payload; // an object, or null

    bool from_owner() const { return message.rolemask & flux::role_owner; }
    std::uint32_t userid() const { return message.userid; }
    Ticket ticket() const;
};

// Who went away: everything it asked for is to be forgotten without an answer.
struct Departure {
    std::string route;
    // The connection itself is gone, and with it those whose requests it passed on; not
    // only the sender with that route, of whom a SERVICE.disconnect tells.
    bool connection = false;
    std::string service; // of a SERVICE.disconnect, else empty

    bool concerns(const Message& request) const;
};

// Whether two requests come from the same sender (RFC 6, "Disconnection").
bool same_sender(const Message& a, const Message& b);

class Router
{
public:
    Router(std::uint32_t size, std::uint32_t owner, std::uint32_t fanout);

    enum class Where { everywhere, root };
    enum Allow : unsigned { owner_only = 0, guests = 1, streaming_only = 2 };
    using Handler = std::function<void(const Request&)>;

    // A service of the engine: "attr.get" makes the service "attr" exist. One that is
    // everywhere may have methods that only the root knows.
    void method(const std::string& topic, Where where, unsigned allow, Handler handler);
    // Whoever keeps requests open forgets those of a departed sender.
    void on_departure(std::function<void(const Departure&)> callback);

    // A service of a connection (service.add). errnum EEXIST, EINVAL.
    Result<> add_service(std::uint32_t rank, const std::string& name, Peer& peer);
    // ENOENT when the peer has no such service there.
    Result<> remove_service(std::uint32_t rank, const std::string& name, Peer& peer);

    void add_peer(Peer& peer);
    void remove_peer(Peer& peer);
    // Null when there is none (any more).
    Peer* find_peer(const std::string& route) const;

    // A message that a peer sent, stamped with its credentials.
    void receive(Peer& from, Message message);

    void respond(const Message& request, const Json& payload = nullptr);
    void fail(const Message& request, int errnum, std::string_view text = {});
    // The regular end of a stream.
    void end(const Message& request) { fail(request, ENODATA); }

    // Subscriptions and events (event.subscribe, event.publish).
    void subscribe(Peer& peer, const std::string& topic);
    void unsubscribe(Peer& peer, const std::string& topic);
    std::uint32_t publish(Message event); // the sequence number

    void set_up(std::uint32_t rank, bool up);
    bool up(std::uint32_t rank) const { return up_[rank]; }
    std::uint32_t size() const { return static_cast<std::uint32_t>(up_.size()); }
    std::uint32_t owner() const { return owner_; }

    // The tree (tbon.topo): 0 is a flat one.
    std::uint32_t parent(std::uint32_t rank) const;
    std::uint32_t level(std::uint32_t rank) const;
    std::vector<std::uint32_t> children(std::uint32_t rank) const;

private:
    struct Method {
        Where where;
        unsigned allow;
        Handler handler;
    };
    struct Connected {
        Peer* peer = nullptr;
        std::map<std::string, int> subscriptions;
        // Services of other connections it has used, for their disconnect messages.
        std::map<std::pair<std::uint32_t, std::string>, Message> used;
    };

    void route(std::uint32_t entered, Message request);
    bool serve(std::uint32_t entered, std::uint32_t rank, Message& request);
    void call(const Method& method, std::uint32_t rank, const Message& request);
    void deliver_response(Message response);

    std::uint32_t owner_;
    std::uint32_t fanout_;
    std::vector<bool> up_;
    std::map<std::string, Where> services_;
    std::unordered_map<std::string, Method> methods_;
    std::map<std::pair<std::uint32_t, std::string>, Peer*> peer_services_;
    std::unordered_map<std::string, Connected> peers_; // by route
    std::vector<std::function<void(const Departure&)>> departures_;
    std::uint32_t event_sequence_ = 0;
};

} // namespace fluxdat::sandbox
