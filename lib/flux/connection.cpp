// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/connection.h"

#include "lib/flux/text.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <sys/un.h>
#include <unordered_map>

namespace fluxdat::flux {

namespace {

constexpr std::size_t read_buffer_size = 64u << 10; // bytes

// What a host and a socket's path may consist of in an ssh URI. ssh gives the path to
// the shell of another host, and perhaps the host to one of this (ProxyCommand); and
// such a URI is what anybody put on a job as a memo. An allow-list instead of quotes,
// since that shell may be any, and no broker's host or socket is called otherwise.
constexpr std::string_view letters_and_digits =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view other_host_characters = "._-@:";
constexpr std::string_view other_path_characters = "/._-+,=@:%~";

bool consists_of(std::string_view text, std::string_view others)
{
    auto allowed = [&](char c) {
        return letters_and_digits.find(c) != letters_and_digits.npos
               || others.find(c) != others.npos;
    };
    return std::all_of(text.begin(), text.end(), allowed);
}

// [USER@]HOST[:PORT]. What begins with a dash would be an option to ssh.
bool is_ssh_host(std::string_view text)
{
    if (!consists_of(text, other_host_characters))
        return false;
    if (auto colon = text.rfind(':'); colon != text.npos) {
        auto port = text.substr(colon + 1);
        if (port.empty() || port.find_first_not_of("0123456789") != port.npos)
            return false;
        text = text.substr(0, colon);
    }
    auto at = text.rfind('@');
    auto host = at == text.npos ? text : text.substr(at + 1);
    return !text.starts_with('-') && at != 0 && !host.empty() && host[0] != '-';
}

// The sockets, pipes and process under a connection. It owns the libuv handles, which
// may only be freed after libuv has closed them: so it outlives the connection's state,
// and frees itself.
struct Transport {
    Connection::State* owner = nullptr; // null once the state is gone
    uv_pipe_t in{};                     // read side
    uv_pipe_t out{};                    // write side; unused for a local socket
    uv_process_t process{};
    bool has_out = false;
    bool has_process = false;
    int open_handles = 0;
    std::array<char, read_buffer_size> buffer{};

    uv_stream_t* reader() { return reinterpret_cast<uv_stream_t*>(&in); }
    uv_stream_t* writer()
    {
        return reinterpret_cast<uv_stream_t*>(has_out ? &out : &in);
    }

    void close()
    {
        owner = nullptr;
        auto closed = [](uv_handle_t* handle) {
            auto* self = static_cast<Transport*>(handle->data);
            if (--self->open_handles == 0)
                delete self;
        };
        auto close_one = [&](void* handle) {
            auto* generic = static_cast<uv_handle_t*>(handle);
            generic->data = this;
            open_handles++;
            uv_close(generic, closed);
        };
        close_one(&in);
        if (has_out)
            close_one(&out);
        if (has_process) {
            uv_process_kill(&process, SIGTERM);
            close_one(&process);
        }
    }
};

std::string display(const Uri& uri)
{
    return uri.scheme == Uri::Scheme::ssh ? "ssh://" + uri.host + uri.path : uri.path;
}

} // namespace

// A request that waits for answers.
struct Stream::Pending {
    std::weak_ptr<Connection::State> connection;
    std::string topic;
    std::string cancel_topic;
    std::uint32_t matchtag = 0;
    std::uint32_t nodeid = nodeid_any;
    bool streaming = false;
    bool ended = false; // no more answers will come
    std::deque<Result<std::optional<Json>>> answers;
    Waiter waiter;

    void deliver(Result<std::optional<Json>> answer, bool last)
    {
        answers.push_back(std::move(answer));
        ended = ended || last;
        waiter.wake();
    }
};

struct Connection::State : std::enable_shared_from_this<Connection::State> {
    State(Loop& event_loop, std::string target)
        : loop(event_loop), uri(std::move(target))
    {
    }
    ~State()
    {
        if (transport)
            transport->close();
    }

    Loop& loop;
    std::string uri;
    std::string peer; // for messages: the socket's path, or the ssh URI
    Transport* transport = nullptr;
    FrameReader frames;
    bool welcomed = false;
    Waiter opened; // woken by the welcome, or by the loss of the connection
    std::uint32_t last_matchtag = matchtag_none;
    std::unordered_map<std::uint32_t, std::shared_ptr<Stream::Pending>> pending;
    std::unordered_map<std::string, Handler> services;
    std::optional<Error> lost;
    std::function<void(const Error&)> lost_callback;

    // What was tried, where it was ssh.
    std::string ssh_hint() const
    {
        auto target = parse_uri(uri);
        if (!target || target->scheme != Uri::Scheme::ssh)
            return "";
        return fmt::format(" (tried: ssh {} flux relay {}): if that is this host, set "
                           "FLUX_URI_RESOLVE_LOCAL=t; else make that ssh work",
                           target->host, target->path);
    }

    Result<> connect_local(const Uri& target);
    Result<> connect_ssh(const Uri& target);
    void start_reading();
    void on_bytes(std::string_view bytes);
    void on_message(Message message);
    void on_response(const Message& response);
    void on_unreadable(std::string_view parts, const Error& why);
    void lose(Error reason);
    void write(std::string frame);
    std::shared_ptr<Stream::Pending> request(std::string topic, const Json& payload,
                                             std::uint32_t nodeid, bool streaming);
};

namespace {

// The owner's fault or the broker's: what connecting failed with, and what to do.
Error connect_error(const std::string& path, int errnum)
{
    if (errnum == ENOENT || errnum == ECONNREFUSED)
        return {fmt::format("no Flux broker at {} ({}); is Flux running on this host, "
                            "and FLUX_URI right? To try without Flux: "
                            "flux-dat sandbox up",
                            path, std::strerror(errnum)),
                errnum};
    if (errnum == EACCES || errnum == EPERM)
        return {fmt::format("permission denied at the socket {}: you may not use this "
                            "Flux instance; if it is a DAT, ask its owner or manager "
                            "for access",
                            path),
                errnum, Exit::not_permitted};
    return {fmt::format("cannot connect to {}: {}", path, std::strerror(errnum)),
            errnum};
}

} // namespace

Result<Uri> parse_uri(std::string_view text)
{
    auto bad = [&](const char* why) {
        return fail(Exit::usage,
                    "bad Flux URI {}: {} (use local:///PATH or ssh://HOST/PATH)",
                    in_quotes(text), why);
    };
    auto colon = text.find("://");
    if (colon == text.npos)
        return bad("no scheme");
    auto scheme = text.substr(0, colon);
    auto rest = text.substr(colon + 3);
    Uri uri;
    if (scheme == "ssh") {
        auto slash = rest.find('/');
        if (slash == rest.npos || slash + 1 == rest.size())
            return bad("no path");
        if (slash == 0)
            return bad("no host");
        if (!is_ssh_host(rest.substr(0, slash)))
            return bad("not the name of a host");
        if (std::getenv("FLUX_URI_RESOLVE_LOCAL") == nullptr) {
            uri.scheme = Uri::Scheme::ssh;
            uri.host = std::string(rest.substr(0, slash));
        }
        uri.path = std::string(rest.substr(slash));
    } else if (scheme == "local") {
        if (rest.empty() || rest[0] != '/')
            return bad("no absolute path");
        uri.path = std::string(rest);
    } else {
        return bad("unknown scheme");
    }
    if (auto query = uri.path.find('?'); query != uri.path.npos)
        uri.path.erase(query);
    if (scheme == "ssh" && !consists_of(uri.path, other_path_characters))
        return bad("a character in the path that no broker's socket has, and that the "
                   "shell of another host might obey");
    return uri;
}

Result<> Connection::State::connect_local(const Uri& target)
{
    if (target.path.size() >= sizeof(sockaddr_un::sun_path))
        return fail(Exit::usage,
                    "the socket path {} has {} bytes; at most {} are possible",
                    target.path, target.path.size(), sizeof(sockaddr_un::sun_path) - 1);
    transport = new Transport;
    transport->owner = this;
    uv_pipe_init(loop.uv(), &transport->in, 0);
    auto* connecting = new uv_connect_t;
    connecting->data = transport;
    transport->in.data = transport;
    uv_pipe_connect(connecting, &transport->in, target.path.c_str(),
                    [](uv_connect_t* done, int status) {
                        auto* io = static_cast<Transport*>(done->handle->data);
                        delete done;
                        if (!io->owner)
                            return;
                        if (status < 0)
                            io->owner->lose(connect_error(io->owner->peer, -status));
                        else
                            io->owner->start_reading();
                    });
    return {};
}

Result<> Connection::State::connect_ssh(const Uri& target)
{
    transport = new Transport;
    transport->owner = this;
    transport->has_out = true;
    uv_pipe_init(loop.uv(), &transport->in, 0);
    uv_pipe_init(loop.uv(), &transport->out, 0);
    transport->in.data = transport;

    const char* program = std::getenv("FLUX_SSH");
    std::vector<std::string> arguments{program ? program : "ssh"};
    std::string host = target.host;
    if (auto colon = host.rfind(':'); colon != host.npos) {
        arguments.push_back("-p");
        arguments.push_back(host.substr(colon + 1));
        host.erase(colon);
    }
    if (!program) // another one need not know it
        arguments.push_back("--");
    arguments.insert(arguments.end(), {host, "flux", "relay", target.path});
    std::vector<char*> argv;
    for (auto& argument : arguments)
        argv.push_back(argument.data());
    argv.push_back(nullptr);

    uv_stdio_container_t stdio[3];
    stdio[0].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_READABLE_PIPE);
    stdio[0].data.stream = reinterpret_cast<uv_stream_t*>(&transport->out);
    stdio[1].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
    stdio[1].data.stream = reinterpret_cast<uv_stream_t*>(&transport->in);
    stdio[2].flags = UV_INHERIT_FD; // ssh's own words reach the person
    stdio[2].data.fd = 2;
    uv_process_options_t options{};
    options.file = argv[0];
    options.args = argv.data();
    options.stdio = stdio;
    options.stdio_count = 3;
    options.exit_cb = [](uv_process_t*, std::int64_t, int) {
        // The pipe's end tells the rest.
    };
    int status = uv_spawn(loop.uv(), &transport->process, &options);
    transport->has_process = true;
    if (status < 0)
        return fail_errno(-status, fmt::format("cannot run {}", arguments[0]));
    start_reading();
    return {};
}

void Connection::State::start_reading()
{
    uv_read_start(
        transport->reader(),
        [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
            auto* io = static_cast<Transport*>(handle->data);
            *buffer = uv_buf_init(io->buffer.data(),
                                  static_cast<unsigned>(io->buffer.size()));
        },
        [](uv_stream_t* stream, ssize_t size, const uv_buf_t* buffer) {
            auto* io = static_cast<Transport*>(stream->data);
            if (!io->owner || size == 0)
                return;
            // What is woken below may drop the connection.
            auto self = io->owner->shared_from_this();
            if (size < 0) {
                int errnum = size == UV_EOF ? ECONNRESET : static_cast<int>(-size);
                self->lose({self->welcomed
                                ? fmt::format("lost the connection to the Flux broker "
                                              "at {}: {}",
                                              self->peer, std::strerror(errnum))
                                : fmt::format("the Flux broker at {} closed the "
                                              "connection before its welcome{}",
                                              self->peer, self->ssh_hint()),
                            errnum});
                return;
            }
            self->on_bytes({buffer->base, static_cast<std::size_t>(size)});
        });
}

void Connection::State::on_bytes(std::string_view bytes)
{
    if (!welcomed) {
        int errnum = static_cast<unsigned char>(bytes[0]);
        bytes.remove_prefix(1);
        if (errnum != 0) {
            lose({fmt::format("the Flux broker at {} refused the connection: {}", peer,
                              std::strerror(errnum)),
                  errnum, errnum == EPERM ? Exit::not_permitted : Exit::failed});
            return;
        }
        welcomed = true;
        opened.wake();
    }
    frames.feed(bytes);
    while (!lost) {
        auto frame = frames.next();
        if (!frame) {
            lose({fmt::format("{}: {}", peer, frame.error().message), EPROTO});
            return;
        }
        if (!*frame)
            return;
        auto message = frames.too_large() ? std::unexpected(
                           Error{fmt::format("a message of {} bytes (at most {})",
                                             frames.too_large(), message_size_max),
                                 EMSGSIZE})
                                          : decode(**frame);
        if (message)
            on_message(std::move(*message));
        else
            on_unreadable(**frame, message.error());
    }
}

void Connection::State::on_message(Message message)
{
    if (message.type == Message::Type::response)
        return on_response(message);
    if (message.type != Message::Type::request || !message.topic)
        return; // events and control messages: nothing here subscribes to any
    auto service = services.find(message.topic->substr(0, message.topic->find('.')));
    if (service != services.end()) {
        auto handler = service->second; // it may unregister itself
        handler(message);
    }
}

// Its length was right, so that the stream of messages goes on. Whoever may send us
// requests, or put something into answers to us, must not be able to cut us off.
void Connection::State::on_unreadable(std::string_view parts, const Error& why)
{
    auto header = header_of(parts);
    if (!header || header->type != Message::Type::response)
        return; // a request: nobody to answer to can be made out
    auto found = pending.find(header->matchtag());
    if (found == pending.end())
        return;
    auto request = found->second;
    bool last = !request->streaming || header->errnum() != 0;
    if (last)
        pending.erase(found);
    request->deliver(std::unexpected(Error{fmt::format("{}: the answer is {}",
                                                       request->topic, why.message),
                                           why.errnum}),
                     last);
}

void Connection::State::on_response(const Message& response)
{
    auto found = pending.find(response.matchtag());
    if (found == pending.end())
        return; // of a request that nobody waits for any more
    auto request = found->second;
    bool last = !request->streaming || response.errnum() != 0;
    if (last)
        pending.erase(found);
    int errnum = static_cast<int>(response.errnum());
    if (errnum == ENODATA && request->streaming)
        return request->deliver(std::nullopt, true);
    if (errnum != 0) {
        Error error;
        error.errnum = errnum;
        error.message =
            response.payload_text().empty()
                ? fmt::format("{}: {}", request->topic, std::strerror(errnum))
                : std::string(response.payload_text());
        if (errnum == EPERM)
            error.exit = Exit::not_permitted;
        return request->deliver(std::unexpected(std::move(error)), true);
    }
    if (!response.payload)
        return request->deliver(Json(nullptr), last);
    auto json = parse_json(response.payload_text());
    if (!json)
        return request->deliver(
            std::unexpected(Error{fmt::format("{}: the answer is {}", request->topic,
                                              json.error().message),
                                  EPROTO}),
            last);
    request->deliver(std::move(*json), last);
}

void Connection::State::lose(Error reason)
{
    if (lost)
        return;
    auto self = shared_from_this();
    lost = std::move(reason);
    uv_read_stop(transport->reader());
    opened.wake();
    auto waiting = std::move(pending);
    pending.clear();
    for (auto& [matchtag, request] : waiting)
        request->deliver(std::unexpected(*lost), true);
    if (lost_callback)
        std::exchange(lost_callback, {})(*lost);
}

void Connection::State::write(std::string frame)
{
    if (lost)
        return;
    auto buffer = uv_buf_init(frame.data(), static_cast<unsigned>(frame.size()));
    int written = uv_try_write(transport->writer(), &buffer, 1);
    std::size_t done = written > 0 ? static_cast<std::size_t>(written) : 0;
    if (done == frame.size())
        return;
    struct Write {
        uv_write_t uv;
        std::string rest;
    };
    auto* writing = new Write{{}, frame.substr(done)};
    writing->uv.data = writing;
    buffer =
        uv_buf_init(writing->rest.data(), static_cast<unsigned>(writing->rest.size()));
    int status = uv_write(&writing->uv, transport->writer(), &buffer, 1,
                          [](uv_write_t* uv, int) {
                              // A failed write shows as the end of the read side too.
                              delete static_cast<Write*>(uv->data);
                          });
    if (status < 0)
        delete writing;
}

std::shared_ptr<Stream::Pending> Connection::State::request(std::string topic,
                                                            const Json& payload,
                                                            std::uint32_t nodeid,
                                                            bool streaming)
{
    auto waiting = std::make_shared<Stream::Pending>();
    waiting->connection = weak_from_this();
    waiting->topic = std::move(topic);
    waiting->nodeid = nodeid;
    waiting->streaming = streaming;
    if (lost) {
        waiting->deliver(std::unexpected(*lost), true);
        return waiting;
    }
    do {
        last_matchtag++;
    } while (last_matchtag == matchtag_none || pending.contains(last_matchtag));
    waiting->matchtag = last_matchtag;
    auto message =
        make_request(waiting->topic, payload.is_null() ? "" : dump_json(payload),
                     nodeid, streaming ? flag_streaming : 0);
    message.aux2 = waiting->matchtag;
    pending.emplace(waiting->matchtag, waiting);
    write(encode(message));
    return waiting;
}

Stream::~Stream()
{
    if (!pending_ || pending_->ended)
        return;
    auto connection = pending_->connection.lock();
    if (!connection)
        return;
    connection->pending.erase(pending_->matchtag);
    if (pending_->cancel_topic.empty())
        return;
    auto message = make_request(pending_->cancel_topic,
                                Json{{"matchtag", pending_->matchtag}}.dump(),
                                pending_->nodeid, flag_noresponse);
    connection->write(encode(message));
}

std::uint32_t Stream::matchtag() const
{
    return pending_->matchtag;
}

Task<Result<std::optional<Json>>> Stream::next(Interrupt* interrupt)
{
    auto pending = pending_;
    InterruptScope scope(interrupt, [pending] { pending->waiter.wake(); });
    while (pending->answers.empty() && !pending->ended) {
        if (interrupt && interrupt->reason())
            co_return std::unexpected(*interrupt->reason());
        co_await pending->waiter;
    }
    if (pending->answers.empty())
        co_return std::optional<Json>{};
    auto answer = std::move(pending->answers.front());
    pending->answers.pop_front();
    co_return answer;
}

Task<Result<std::unique_ptr<Connection>>> Connection::open(Loop& loop, std::string uri,
                                                           Interrupt* interrupt)
{
    auto target = parse_uri(uri);
    if (!target)
        co_return std::unexpected(target.error());
    std::signal(SIGPIPE, SIG_IGN); // a lost broker is an error value, not a death
    auto state = std::make_shared<State>(loop, std::move(uri));
    state->peer = display(*target);
    auto started = target->scheme == Uri::Scheme::ssh ? state->connect_ssh(*target)
                                                      : state->connect_local(*target);
    if (!started)
        co_return std::unexpected(started.error());
    InterruptScope scope(interrupt, [&state] { state->opened.wake(); });
    while (!state->welcomed && !state->lost) {
        if (interrupt && interrupt->reason())
            co_return std::unexpected(*interrupt->reason());
        co_await state->opened;
    }
    if (state->lost)
        co_return std::unexpected(*state->lost);
    co_return std::unique_ptr<Connection>(new Connection(std::move(state)));
}

Connection::~Connection()
{
    close();
}

void Connection::close()
{
    // Streams may outlive the connection; they must not wait for ever.
    state_->lost_callback = {};
    state_->lose({"the connection was closed", ECONNRESET});
}

Task<Result<Json>> Connection::rpc(std::string topic, Json payload,
                                   std::uint32_t nodeid, Interrupt* interrupt)
{
    Stream answers(state_->request(std::move(topic), payload, nodeid, false));
    auto answer = co_await answers.next(interrupt);
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    co_return std::move(**answer);
}

Stream Connection::stream(std::string topic, Json payload, std::uint32_t nodeid,
                          std::string cancel_topic)
{
    auto pending = state_->request(std::move(topic), payload, nodeid, true);
    pending->cancel_topic = std::move(cancel_topic);
    return Stream(std::move(pending));
}

void Connection::send(std::string topic, Json payload, std::uint32_t nodeid)
{
    state_->write(encode(make_request(
        topic, payload.is_null() ? "" : dump_json(payload), nodeid, flag_noresponse)));
}

Task<Result<>> Connection::serve(std::string name, Handler handler)
{
    auto state = state_;
    state->services.emplace(name, std::move(handler));
    Json payload{{"service", name}};
    auto added = co_await rpc("service.add", std::move(payload));
    if (!added) {
        state->services.erase(name);
        co_return std::unexpected(std::move(added.error()));
    }
    co_return Result<>{};
}

void Connection::respond(const Message& request, const Json& payload)
{
    if (!request.noresponse())
        state_->write(encode(
            make_response(request, payload.is_null() ? "" : dump_json(payload))));
}

void Connection::respond_error(const Message& request, int errnum,
                               std::string_view text)
{
    if (!request.noresponse())
        state_->write(encode(make_error_response(request, errnum, text)));
}

void Connection::on_lost(std::function<void(const Error&)> callback)
{
    state_->lost_callback = std::move(callback);
}

const std::optional<Error>& Connection::lost() const
{
    return state_->lost;
}

Loop& Connection::loop() const
{
    return state_->loop;
}

const std::string& Connection::uri() const
{
    return state_->uri;
}

} // namespace fluxdat::flux
