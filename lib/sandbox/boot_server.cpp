// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/boot_server.h"

#include "lib/flux/json.h"

#include <array>
#include <sys/socket.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

constexpr std::size_t line_max = 4096; // bytes
constexpr int backlog = 4096;          // boot_socket.cpp has listened already

} // namespace

std::string format_hello(const BootHello& hello)
{
    return flux::dump_json({{"rank", hello.rank},
                            {"pid", hello.pid},
                            {"socket", hello.socket},
                            {"grants", hello.grants}})
           + "\n";
}

Result<BootHello> parse_hello(std::string_view line)
{
    auto json = flux::parse_json(line);
    if (!json || !json->contains("rank") || !(*json)["rank"].is_number_unsigned())
        return fail("a rank introduced itself with something else");
    return BootHello{(*json)["rank"].get<std::uint32_t>(),
                     flux::integer_at<pid_t>(*json, "pid"),
                     flux::text_at(*json, "socket"), flux::text_at(*json, "grants")};
}

class BootServer::Member
{
public:
    explicit Member(BootServer& server) : server_(server), uv_(new uv_pipe_t)
    {
        uv_pipe_init(server.socket_->loop, uv_.get(), 0);
        uv_->data = this;
    }
    uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(uv_.get()); }

    void start()
    {
        uv_read_start(
            stream(),
            [](uv_handle_t*, std::size_t, uv_buf_t* buffer) {
                static std::array<char, line_max> bytes;
                *buffer = uv_buf_init(bytes.data(), line_max);
            },
            [](uv_stream_t* uv, ssize_t size, const uv_buf_t* buffer) {
                auto* self = static_cast<Member*>(uv->data);
                if (!self || size == 0)
                    return;
                if (size < 0)
                    self->leave();
                else
                    self->received({buffer->base, static_cast<std::size_t>(size)});
            });
    }

    void say(std::string line)
    {
        line += '\n';
        uv_buf_t buffer = uv_buf_init(line.data(), static_cast<unsigned>(line.size()));
        // A line always fits in the buffer of a socket whose peer reads.
        uv_try_write(stream(), &buffer, 1);
    }

private:
    void received(std::string_view bytes)
    {
        line_.append(bytes);
        auto newline = line_.find('\n');
        if (newline == line_.npos) {
            if (line_.size() > line_max)
                leave();
            return;
        }
        auto hello = parse_hello(line_.substr(0, newline));
        line_.clear();
        auto joined = hello ? server_.events_.joined(*hello)
                            : Result<>(std::unexpected(hello.error()));
        if (!joined) {
            say(std::string(boot_error) + joined.error().message);
            leave();
            return;
        }
        rank_ = hello->rank;
        joined_ = true;
        say(std::string(boot_ok));
    }

    void leave()
    {
        auto& server = server_;
        bool joined = joined_;
        auto rank = rank_;
        server.members_.erase(this); // destroys this
        if (joined && server.events_.lost)
            server.events_.lost(rank);
    }

    BootServer& server_;
    std::unique_ptr<uv_pipe_t, HandleDeleter<uv_pipe_t>> uv_;
    std::string line_;
    std::uint32_t rank_ = 0;
    bool joined_ = false;
};

BootServer::BootServer(uv_loop_t* loop, int listening_fd, Events events)
    : events_(std::move(events)), socket_(new uv_pipe_t)
{
    uv_pipe_init(loop, socket_.get(), 0);
    uv_pipe_open(socket_.get(), listening_fd);
    socket_->data = this;
    uv_listen(reinterpret_cast<uv_stream_t*>(socket_.get()), backlog,
              [](uv_stream_t* server, int status) {
                  if (status == 0 && server->data)
                      static_cast<BootServer*>(server->data)->accept();
              });
}

BootServer::~BootServer() = default;

void BootServer::accept()
{
    auto member = std::make_unique<Member>(*this);
    if (uv_accept(reinterpret_cast<uv_stream_t*>(socket_.get()), member->stream()) < 0)
        return;
    int fd;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    // The socket is in a directory of mode 0700; root gets there too, but is no rank.
    if (uv_fileno(reinterpret_cast<uv_handle_t*>(member->stream()), &fd) < 0
        || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0
        || peer.uid != getuid())
        return;
    member->start();
    auto* key = member.get();
    members_[key] = std::move(member);
}

void BootServer::dismiss(int status)
{
    for (auto& [key, member] : members_)
        member->say(fmt::format("{}{}", boot_exit, status));
    events_.lost = nullptr;
}

} // namespace fluxdat::sandbox
