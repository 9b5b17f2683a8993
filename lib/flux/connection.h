// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A connection to one Flux broker: RFC 3 framing on the broker's local socket, RFC 6
// remote procedure calls over it, and requests served to others (service.add).
//
//     local:///run/flux/local          the UNIX domain socket of a broker of this host
//     ssh://HOST/run/flux/local        through "ssh HOST flux relay PATH", which speaks
//                                      the same framing on stdin and stdout; FLUX_SSH
//                                      names another program than ssh
//
// With FLUX_URI_RESOLVE_LOCAL set, an ssh URI is taken as the local one of its path, as
// Flux's own commands do.
#pragma once

#include "lib/flux/json.h"
#include "lib/flux/loop.h"
#include "lib/flux/message.h"

#include <functional>
#include <memory>
#include <string>

namespace fluxdat::flux {

struct Uri {
    enum class Scheme { local, ssh };
    Scheme scheme = Scheme::local;
    std::string host; // ssh only: [USER@]HOST[:PORT] as given
    std::string path; // of the socket
};
// A usage error (exit 2) where the scheme is none of the above, the path is missing, or
// an ssh URI has characters in its host or path that a shell might take for more.
Result<Uri> parse_uri(std::string_view uri);

class Connection;

// The answers to a streaming request, one by one. Destroying it before its end cancels
// the request, where the service has a way to (see Connection::stream).
class Stream
{
public:
    Stream(Stream&&) noexcept = default;
    Stream& operator=(Stream&&) noexcept = default;
    ~Stream();

    // The next answer; nothing at the stream's regular end (ENODATA); an error if the
    // service gave one, the connection was lost, or the interrupt was raised (then the
    // stream goes on, and next() may be called again). It goes on, too, after an answer
    // that cannot be read: EPROTO, or EMSGSIZE if it is larger than message_size_max.
    Task<Result<std::optional<Json>>> next(Interrupt* interrupt = nullptr);

    // The matchtag by which other requests refer to this one (rexec.write).
    std::uint32_t matchtag() const;

    struct Pending;

private:
    friend class Connection;
    explicit Stream(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
    std::shared_ptr<Pending> pending_;
};

class Connection
{
public:
    // Connects and waits for the broker's welcome. `uri` is checked by parse_uri. The
    // messages name the socket and say what to do: no broker there, permission denied
    // (exit 7), refused by the broker (exit 7).
    static Task<Result<std::unique_ptr<Connection>>>
    open(Loop& loop, std::string uri, Interrupt* interrupt = nullptr);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // One request, one answer. A null payload is none; a null Json is an empty answer.
    // The error's message is the service's own text where it sent one, and
    // "TOPIC: strerror" elsewhere; errnum is what the service answered (EPERM also sets
    // exit 7), ECONNRESET when the connection was lost. EPROTO, or EMSGSIZE, is an
    // answer that cannot be read; the connection goes on.
    Task<Result<Json>> rpc(std::string topic, Json payload = nullptr,
                           std::uint32_t nodeid = nodeid_any,
                           Interrupt* interrupt = nullptr);

    // A streaming request. `cancel_topic`, if not empty, is sent with the matchtag when
    // the stream is dropped before its end (RFC 6, "Cancellation").
    Stream stream(std::string topic, Json payload, std::uint32_t nodeid = nodeid_any,
                  std::string cancel_topic = {});

    // A request that wants no answer.
    void send(std::string topic, Json payload, std::uint32_t nodeid = nodeid_any);

    // Takes the requests NAME.* of whoever sends them; the handler must check the
    // userid and rolemask stamped on each. EEXIST when the name is taken.
    using Handler = std::function<void(const Message& request)>;
    Task<Result<>> serve(std::string name, Handler handler);
    void respond(const Message& request, const Json& payload);
    void respond_error(const Message& request, int errnum, std::string_view text = {});

    // Ends the connection: pending calls, and all later ones, end with ECONNRESET; the
    // callback of on_lost() is not called. So does the destructor, after which the
    // coroutines that these calls wake must not touch the object any more.
    void close();

    // Called once when the connection is lost, with the reason. Pending calls get the
    // same error first.
    void on_lost(std::function<void(const Error&)> callback);
    const std::optional<Error>& lost() const;

    const std::string& uri() const;
    Loop& loop() const;

    struct State;

private:
    explicit Connection(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
};

} // namespace fluxdat::flux
