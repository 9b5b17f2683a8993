// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/listener.h"

#include <array>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

constexpr int listen_backlog = 128;          // connections
constexpr std::size_t read_size = 64u << 10; // bytes
// What a connection may leave unread before it is closed: more than the largest answer
// of an instance that this engine can hold.
constexpr std::size_t unread_max = 32u << 20; // bytes

// An entry of a route stack: a random UUID, as RFC 3 has it. Random, because whoever
// knows it can answer requests of that connection.
std::string new_route()
{
    std::array<unsigned char, 16> bytes;
    if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        std::terminate(); // cannot fail for so few bytes
    bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40); // version 4
    bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out += '-';
        out += fmt::format("{:02x}", bytes[i]);
    }
    return out;
}

} // namespace

std::optional<Credentials> assign_credentials(const AccessPolicy& policy,
                                              std::uint32_t peer, Credentials claimed)
{
    using namespace flux;
    if (peer == policy.owner) {
        // The owner may speak for others, since the owner may do anything anyway.
        bool valid = claimed.userid != userid_unknown
                     && (claimed.rolemask & (role_owner | role_user));
        return valid ? claimed : Credentials{policy.owner, role_owner | role_local};
    }
    if (peer == 0 && policy.allow_root_owner)
        return Credentials{policy.owner, role_owner | role_local};
    if (policy.allow_guest_user)
        return Credentials{peer, role_user | role_local};
    return std::nullopt;
}

// One connection.
class Listener::Client : public Peer
{
public:
    explicit Client(Listener& listener)
        : listener_(listener), route_(new_route()), uv_(new uv_pipe_t)
    {
        uv_pipe_init(listener.socket_->loop, uv_.get(), 0);
        uv_->data = this;
    }

    void send(const Message& message) override
    {
        if (closing_)
            return;
        write(flux::encode(message));
    }
    const std::string& route() const override { return route_; }
    std::uint32_t rank() const override { return listener_.rank_; }
    std::uint32_t userid() const override { return userid_; }

    uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(uv_.get()); }
    // Welcomes the peer, and takes what it sends.
    void start(std::uint32_t userid);
    void write(std::string bytes);

private:
    void received(std::string_view bytes);
    // Ends the connection in the next turn of the loop: whoever called may be in the
    // middle of using it.
    void close_later();

    Listener& listener_;
    std::uint32_t userid_ = flux::userid_unknown;
    std::string route_;
    std::unique_ptr<uv_pipe_t, HandleDeleter<uv_pipe_t>> uv_;
    flux::FrameReader frames_;
    std::unique_ptr<Timer> closing_;
};

void Listener::Client::start(std::uint32_t userid)
{
    userid_ = userid;
    write(std::string(1, '\0'));
    uv_read_start(
        stream(),
        [](uv_handle_t*, std::size_t, uv_buf_t* buffer) {
            // One for all connections: it is used up before the next one is read.
            static std::array<char, read_size> bytes;
            *buffer = uv_buf_init(bytes.data(), read_size);
        },
        [](uv_stream_t* uv, ssize_t size, const uv_buf_t* buffer) {
            auto* self = static_cast<Client*>(uv->data);
            if (!self || self->closing_ || size == 0)
                return;
            if (size < 0)
                self->close_later();
            else
                self->received({buffer->base, static_cast<std::size_t>(size)});
        });
}

void Listener::Client::received(std::string_view bytes)
{
    frames_.feed(bytes);
    while (!closing_) {
        auto frame = frames_.next();
        if (!frame) {
            close_later();
            return;
        }
        if (!*frame)
            return;
        auto message = flux::decode(**frame);
        if (!message) {
            close_later();
            return;
        }
        auto credentials = assign_credentials(listener_.policy_, userid_,
                                              {message->userid, message->rolemask});
        if (!credentials) {
            close_later();
            return;
        }
        message->userid = credentials->userid;
        message->rolemask = credentials->rolemask;
        listener_.router_.receive(*this, std::move(*message));
    }
}

void Listener::Client::write(std::string bytes)
{
    std::string_view rest = bytes;
    if (uv_stream_get_write_queue_size(stream()) == 0) {
        uv_buf_t buffer =
            uv_buf_init(bytes.data(), static_cast<unsigned>(bytes.size()));
        int written = uv_try_write(stream(), &buffer, 1);
        if (written > 0)
            rest.remove_prefix(static_cast<std::size_t>(written));
        if (rest.empty())
            return;
        if (written < 0 && written != UV_EAGAIN) {
            close_later();
            return;
        }
    }
    if (uv_stream_get_write_queue_size(stream()) + rest.size() > unread_max) {
        close_later();
        return;
    }
    struct Write {
        uv_write_t uv;
        std::string bytes;
    };
    auto* write = new Write{{}, std::string(rest)};
    write->uv.data = write;
    uv_buf_t buffer =
        uv_buf_init(write->bytes.data(), static_cast<unsigned>(write->bytes.size()));
    auto done = [](uv_write_t* request, int) {
        delete static_cast<Write*>(request->data);
    };
    if (uv_write(&write->uv, stream(), &buffer, 1, done) < 0) {
        delete write;
        close_later();
    }
}

void Listener::Client::close_later()
{
    if (closing_)
        return;
    uv_read_stop(stream());
    closing_ = std::make_unique<Timer>(uv_->loop);
    closing_->start_in(0, [this] { listener_.remove(this); });
}

Listener::Listener(Router& router, std::uint32_t rank, std::string path,
                   const AccessPolicy& policy)
    : router_(router), rank_(rank), path_(std::move(path)), policy_(policy)
{
}

Listener::~Listener()
{
    while (!clients_.empty())
        remove(clients_.begin()->first);
    if (socket_)
        unlink(path_.c_str());
}

Result<std::unique_ptr<Listener>> Listener::open(uv_loop_t* loop, Router& router,
                                                 std::uint32_t rank,
                                                 const std::string& path,
                                                 const AccessPolicy& policy)
{
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
        return fail_errno(ENAMETOOLONG, fmt::format("cannot bind to {}", path));
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_errno(errno, "cannot open a socket");
    if (::bind(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) < 0
        || chmod(path.c_str(), 0777) < 0) {
        int errnum = errno;
        ::close(fd);
        return fail_errno(errnum, fmt::format("cannot bind to {}", path));
    }
    std::unique_ptr<Listener> listener(new Listener(router, rank, path, policy));
    listener->socket_.reset(new uv_pipe_t);
    auto* socket = listener->socket_.get();
    uv_pipe_init(loop, socket, 0);
    uv_pipe_open(socket, fd);
    socket->data = listener.get();
    int rc = uv_listen(reinterpret_cast<uv_stream_t*>(socket), listen_backlog,
                       [](uv_stream_t* server, int status) {
                           if (status == 0 && server->data)
                               static_cast<Listener*>(server->data)->accept();
                       });
    if (rc < 0)
        return fail_errno(-rc, fmt::format("cannot listen at {}", path));
    return listener;
}

void Listener::accept()
{
    auto client = std::make_unique<Client>(*this);
    if (uv_accept(reinterpret_cast<uv_stream_t*>(socket_.get()), client->stream()) < 0)
        return;
    int fd;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (uv_fileno(reinterpret_cast<uv_handle_t*>(client->stream()), &fd) < 0
        || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return;
    if (!assign_credentials(policy_, peer.uid, {flux::userid_unknown, 0})) {
        client->write(std::string(1, static_cast<char>(EPERM)));
        return;
    }
    client->start(peer.uid);
    router_.add_peer(*client);
    auto* key = client.get();
    clients_[key] = std::move(client);
}

void Listener::remove(Client* client)
{
    auto node = clients_.extract(client);
    if (!node.empty())
        router_.remove_peer(*client);
}

} // namespace fluxdat::sandbox
