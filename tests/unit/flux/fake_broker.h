// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A broker that says what a test wants it to say.
#pragma once

#include "lib/flux/json.h"
#include "lib/flux/message.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace fluxdat::test {

// Each client is served by a script in a thread of its own, until the script ends.
class FakeBroker
{
public:
    class Client
    {
    public:
        explicit Client(int fd) : fd_(fd) {}
        void send(std::string_view bytes)
        {
            while (!bytes.empty()) {
                auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
                if (sent <= 0)
                    return;
                bytes.remove_prefix(static_cast<std::size_t>(sent));
            }
        }
        void welcome() { send(std::string_view("\0", 1)); }
        // The next request, or nothing when the client has gone.
        std::optional<flux::Message> receive()
        {
            char buffer[4096];
            while (true) {
                auto frame = frames_.next();
                if (frame && *frame)
                    return *flux::decode(**frame);
                auto size = ::read(fd_, buffer, sizeof(buffer));
                if (size <= 0)
                    return {};
                frames_.feed({buffer, static_cast<std::size_t>(size)});
            }
        }
        void respond(const flux::Message& request, std::string_view payload)
        {
            send(encode(flux::make_response(request, payload)));
        }
        void respond_json(const flux::Message& request, const flux::Json& payload)
        {
            respond(request, payload.dump());
        }
        void respond_error(const flux::Message& request, int errnum,
                           std::string_view text = {})
        {
            send(encode(flux::make_error_response(request, errnum, text)));
        }
        // The head of a message that is larger than any that a client takes.
        void send_too_much() { send({"\x12\x00\xee\xff\x7f\xff\xff\xff", 8}); }

    private:
        int fd_;
        flux::FrameReader frames_;
    };

    explicit FakeBroker(std::function<void(Client&)> script)
    {
        char name[] = "/tmp/flux-dat-test.XXXXXX";
        directory_ = mkdtemp(name);
        socket_ = directory_ + "/local";
        listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::copy(socket_.begin(), socket_.end(), address.sun_path);
        bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
        listen(listener_, 8);
        accepting_ = std::thread([this, script = std::move(script)] {
            while (true) {
                int fd = accept(listener_, nullptr, nullptr);
                if (fd < 0)
                    return;
                serving_.emplace_back([fd, script] {
                    Client client(fd);
                    script(client);
                    close(fd);
                });
            }
        });
    }
    // One that welcomes each client, and has `answer` called with each request.
    static FakeBroker
    answering(std::function<void(Client&, const flux::Message& request)> answer)
    {
        return FakeBroker([answer = std::move(answer)](Client& client) {
            client.welcome();
            while (auto request = client.receive())
                answer(client, *request);
        });
    }
    ~FakeBroker()
    {
        join();
        close(listener_);
        std::filesystem::remove_all(directory_);
    }
    FakeBroker(const FakeBroker&) = delete;
    FakeBroker& operator=(const FakeBroker&) = delete;

    // Until all scripts have ended. Takes no more clients.
    void join()
    {
        shutdown(listener_, SHUT_RDWR);
        if (accepting_.joinable())
            accepting_.join();
        for (auto& thread : serving_)
            if (thread.joinable())
                thread.join();
    }
    std::string uri() const { return "local://" + socket_; }

private:
    std::string directory_, socket_;
    int listener_ = -1;
    std::thread accepting_;
    std::vector<std::thread> serving_;
};

} // namespace fluxdat::test
