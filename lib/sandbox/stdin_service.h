// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A job's standard input, from flux-job-attach(1): the service UID-shell-JOBID on the
// job's first node, and I/O objects (RFC 42) with what is for which tasks.
#pragma once

#include "lib/sandbox/process.h"
#include "lib/sandbox/router.h"

#include <functional>
#include <string>

namespace fluxdat::sandbox {

// Bytes that a job takes in all; more is fatal, as with Flux, which keeps them.
constexpr std::size_t job_stdin_max = 10u << 20;

class StdinService : public Peer
{
public:
    // Takes requests of the user and of the instance's owner.
    StdinService(Router& router, std::string name, std::uint32_t rank,
                 std::uint32_t userid, std::function<void(const Json& io)> feed);
    ~StdinService() override;

    const std::string& route() const override { return name_; }
    std::uint32_t rank() const override { return rank_; }
    std::uint32_t userid() const override { return userid_; }
    void send(const Message& request) override;

private:
    Router& router_;
    std::string name_;
    std::uint32_t rank_;
    std::uint32_t userid_;
    std::function<void(const Json& io)> feed_;
    bool registered_;
};

// Of the I/O object's bytes, what is for this task: {"rank": IDSET or "all", ...}.
void write_stdin(Process& task, std::uint32_t task_rank, const Json& io);

} // namespace fluxdat::sandbox
