// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The local socket of one rank: who may connect, and with which credentials. RFC 3
// ("Message Framing and Security"), RFC 12 ("Credential Assignment"),
// flux-config-access(5).
#pragma once

#include "lib/sandbox/router.h"
#include "lib/sandbox/timer.h"

#include <map>
#include <memory>
#include <string>

namespace fluxdat::sandbox {

// flux-config-access(5)
struct AccessPolicy {
    std::uint32_t owner = 0; // userid
    bool allow_guest_user = false;
    bool allow_root_owner = false;
};

// The credentials of a message that a peer with this userid sent over a local socket;
// nothing when the peer may not connect.
struct Credentials {
    std::uint32_t userid;
    std::uint32_t rolemask;
};
std::optional<Credentials> assign_credentials(const AccessPolicy& policy,
                                              std::uint32_t peer, Credentials claimed);

class Listener
{
public:
    // Binds to `path`, mode 0777: the directories above say who reaches it. The policy
    // is looked at as each connection comes.
    static Result<std::unique_ptr<Listener>> open(uv_loop_t* loop, Router& router,
                                                  std::uint32_t rank,
                                                  const std::string& path,
                                                  const AccessPolicy& policy);
    // Closes all connections, and removes the socket.
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    const std::string& path() const { return path_; }

private:
    class Client;
    Listener(Router& router, std::uint32_t rank, std::string path,
             const AccessPolicy& policy);
    void accept();
    void remove(Client* client);

    Router& router_;
    std::uint32_t rank_;
    std::string path_;
    const AccessPolicy& policy_;
    std::unique_ptr<uv_pipe_t, HandleDeleter<uv_pipe_t>> socket_;
    std::map<Client*, std::unique_ptr<Client>> clients_;
};

} // namespace fluxdat::sandbox
