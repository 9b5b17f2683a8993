// SPDX-License-Identifier: LGPL-3.0-or-later
//
// One Flux instance: its ranks with their sockets, its attributes, configuration and
// resources, and the services on them. Jobs and subprocesses are in files of their own.
#pragma once

#include "lib/flux/loop.h"
#include "lib/sandbox/guest_shell.h"
#include "lib/sandbox/job_journal.h"
#include "lib/sandbox/job_services.h"
#include "lib/sandbox/listener.h"
#include "lib/sandbox/resource_journal.h"
#include "lib/sandbox/rexec.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fluxdat::sandbox {

// The version whose behaviour the engine has, and says to have: Flux's own commands
// refuse others.
constexpr const char* flux_version = "0.88.0";

struct InstanceOptions {
    Json config = Json::object(); // TOML as JSON
    Inventory inventory;          // one node a rank
    std::string rundir;           // 0711 or 0700, the instance's own
    std::string program;          // flux-dat, which is "flux" in the jobs' PATH
    std::map<std::string, std::string> attributes; // set with -S
    std::uint32_t level = 0;                       // how deep in instances it is
    std::string jobid; // F58, of the job that it is; empty at level 0
    std::string jobid_path = "/";
    std::string parent_uri;
    Environment job_environment; // added to that of every job
};

class Instance
{
public:
    // The messages name the configuration's key.
    static Result<std::unique_ptr<Instance>>
    create(flux::Loop& loop, Children& children, InstanceOptions options);
    ~Instance();
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    // Binds a rank's socket. Ranks are down until then. `grants` is the guest list of
    // the rank's door, FLUX_DAT_GRANTS of its broker; empty where it has none.
    Result<> open_rank(std::uint32_t rank, const std::string& socket, pid_t pid,
                       const std::string& grants = {});
    // The rank has crashed, and with it those below it in the tree.
    void lose_rank(std::uint32_t rank);
    // Told of each rank that was lost.
    std::function<void(std::uint32_t rank)> on_lost;

    // Ends all jobs, then calls back.
    void shut_down(std::function<void()> done);

    // The local-uri of a rank that is up.
    std::string local_uri(std::uint32_t rank) const;
    std::uint32_t size() const { return router_.size(); }
    std::uint32_t online() const;
    Jobs& jobs() { return *jobs_; }
    Router& router() { return router_; }
    const InstanceOptions& options() const { return options_; }
    // "run", and so on (state-machine.get).
    void set_state(std::string state);

private:
    struct RankState {
        std::unique_ptr<Listener> listener;
        std::string socket;
        pid_t pid = 0;
        std::string grants;
        bool lost = false;
    };
    Instance(flux::Loop& loop, InstanceOptions options, AccessPolicy access,
             std::uint32_t fanout);
    Result<> start_services(Children& children);
    void add_broker_services();
    void add_resource_services();
    std::optional<std::pair<std::string, int>> attribute(std::uint32_t rank,
                                                         const std::string& name) const;
    Json overlay_health(std::uint32_t rank) const;
    Json overlay_topology(std::uint32_t rank) const;
    Idset ranks(bool up) const;
    Peer* peer_of(const Request& request) const;
    // Takes down that rank and those below it; adds those that were up.
    void lose_subtree(std::uint32_t rank, Idset& lost);

    flux::Loop& loop_;
    InstanceOptions options_;
    AccessPolicy access_;
    Router router_;
    std::vector<RankState> ranks_;
    std::unique_ptr<Jobs> jobs_;
    std::unique_ptr<JobServices> job_services_;
    std::unique_ptr<JobJournal> job_journal_;
    std::unique_ptr<ResourceJournal> resource_journal_;
    std::unique_ptr<GuestShells> guest_shells_;
    std::unique_ptr<Rexec> rexec_;
    double starttime_;
    std::string state_ = "run";
    double state_since_;
};

} // namespace fluxdat::sandbox
