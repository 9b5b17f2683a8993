// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/instance.h"

#include "lib/flux/fsd.h"
#include "lib/imp/base64.h"
#include "lib/sandbox/broker.h"
#include "lib/sandbox/job_shell.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

constexpr double kill_timeout_default = 5;   // seconds, flux-config-exec(5)
constexpr std::uint32_t fanout_default = 32; // kary:32
constexpr int attribute_immutable = 1;       // attr.get, "flags"

// "kary:N", the only topologies that are computed; others are taken as the default.
std::uint32_t parse_fanout(const std::string& topo)
{
    unsigned fanout;
    char end;
    if (std::sscanf(topo.c_str(), "kary:%u%c", &fanout, &end) == 1)
        return fanout;
    return fanout_default;
}

std::string topology(const InstanceOptions& options)
{
    if (auto found = options.attributes.find("tbon.topo");
        found != options.attributes.end())
        return found->second;
    const auto& config = options.config;
    if (config.contains("tbon") && config["tbon"].is_object()
        && config["tbon"].contains("topo") && config["tbon"]["topo"].is_string())
        return config["tbon"]["topo"].get<std::string>();
    return fmt::format("kary:{}", fanout_default);
}

Result<bool> boolean(const Json& config, const char* table, const char* key)
{
    if (!config.contains(table))
        return false;
    if (!config[table].is_object())
        return fail("{}: must be a table", table);
    if (!config[table].contains(key))
        return false;
    if (!config[table][key].is_boolean())
        return fail("{}.{}: must be true or false", table, key);
    return config[table][key].get<bool>();
}

// A program of the [exec] table, by its path.
Result<std::string> exec_path(const Json& config, const char* key,
                              const std::string& otherwise)
{
    if (!config.contains("exec") || !config["exec"].is_object()
        || !config["exec"].contains(key))
        return otherwise;
    const auto& value = config["exec"][key];
    if (!value.is_string() || !value.get_ref<const std::string&>().starts_with('/'))
        return fail("exec.{}: must be an absolute path", key);
    return value.get<std::string>();
}

Result<double> kill_timeout(const Json& config)
{
    if (!config.contains("exec") || !config["exec"].contains("kill-timeout"))
        return kill_timeout_default;
    const auto& value = config["exec"]["kill-timeout"];
    if (!value.is_string())
        return fail("exec.kill-timeout: must be a string");
    auto seconds = flux::parse_fsd(value.get_ref<const std::string&>());
    if (!seconds)
        return fail("exec.kill-timeout: {}", seconds.error().message);
    return *seconds;
}

} // namespace

Instance::Instance(flux::Loop& loop, InstanceOptions options, AccessPolicy access,
                   std::uint32_t fanout)
    : loop_(loop), options_(std::move(options)), access_(access),
      router_(static_cast<std::uint32_t>(options_.inventory.nodes.size()), access.owner,
              fanout),
      ranks_(options_.inventory.nodes.size()), starttime_(wall_clock()),
      state_since_(starttime_)
{
    for (std::uint32_t rank = 0; rank < size(); rank++)
        router_.set_up(rank, false);
}

Instance::~Instance()
{
    // Connections first: they talk to everything else.
    for (auto& rank : ranks_)
        rank.listener.reset();
}

Result<std::unique_ptr<Instance>> Instance::create(flux::Loop& loop, Children& children,
                                                   InstanceOptions options)
{
    AccessPolicy access{getuid(), false, false};
    auto guests = boolean(options.config, "access", "allow-guest-user");
    auto root = boolean(options.config, "access", "allow-root-owner");
    if (!guests || !root)
        return std::unexpected((guests ? root : guests).error());
    access.allow_guest_user = *guests;
    access.allow_root_owner = *root;
    auto fanout = parse_fanout(topology(options));
    std::unique_ptr<Instance> instance(
        new Instance(loop, std::move(options), access, fanout));
    if (auto rc = instance->start_services(children); !rc)
        return std::unexpected(std::move(rc.error()));
    return instance;
}

Result<> Instance::start_services(Children& children)
{
    auto timeout = kill_timeout(options_.config);
    if (!timeout)
        return std::unexpected(std::move(timeout.error()));
    auto imp = exec_path(options_.config, "imp", "");
    auto job_shell = exec_path(options_.config, "job-shell", job_shell_path);
    if (!imp || !job_shell)
        return std::unexpected((imp ? job_shell : imp).error());
    auto queues = Queues::from_config(options_.config, options_.inventory);
    if (!queues)
        return std::unexpected(std::move(queues.error()));
    auto bin = options_.rundir + "/bin";
    if (mkdir(bin.c_str(), 0755) < 0)
        return fail_errno(errno, fmt::format("cannot create {}", bin));
    for (const char* name : {"flux", imp_name}) {
        auto link = fmt::format("{}/{}", bin, name);
        if (symlink(options_.program.c_str(), link.c_str()) < 0)
            return fail_errno(errno, fmt::format("cannot create {}", link));
    }
    auto uri = [this](std::uint32_t rank) { return local_uri(rank); };
    Pool pool(options_.inventory);
    for (std::uint32_t rank = 0; rank < size(); rank++)
        pool.set_up(rank, false);
    jobs_ = std::make_unique<Jobs>(
        ExecContext{loop_.uv(), children, router_, options_.rundir, bin,
                    options_.jobid_path, *timeout, std::move(*imp),
                    std::move(*job_shell), options_.job_environment,
                    [this](std::uint32_t rank) -> const std::string& {
                        return options_.inventory.nodes[rank].host;
                    },
                    uri, [this](std::uint32_t rank) { return ranks_[rank].grants; }},
        std::move(pool), std::move(*queues));
    job_services_ = std::make_unique<JobServices>(router_, *jobs_);
    job_journal_ = std::make_unique<JobJournal>(router_, *jobs_);
    resource_journal_ = std::make_unique<ResourceJournal>(
        router_, options_.inventory, jobs_->pool().all_R(),
        options_.jobid.empty() ? ResourceOrigin::configuration
                               : ResourceOrigin::job_info);
    guest_shells_ = std::make_unique<GuestShells>(router_, *jobs_);
    rexec_ = std::make_unique<Rexec>(
        router_, children,
        Rexec::Options{access_.allow_guest_user, options_.rundir, uri});
    add_broker_services();
    add_resource_services();
    return {};
}

Result<> Instance::open_rank(std::uint32_t rank, const std::string& socket, pid_t pid,
                             const std::string& grants)
{
    auto listener = Listener::open(loop_.uv(), router_, rank, socket, access_);
    if (!listener)
        return std::unexpected(std::move(listener.error()));
    ranks_[rank] = {std::move(*listener), socket, pid, grants, false};
    router_.set_up(rank, true);
    jobs_->rank_back(rank);
    resource_journal_->online(Idset(rank));
    return {};
}

void Instance::lose_rank(std::uint32_t rank)
{
    Idset lost;
    lose_subtree(rank, lost);
    if (!lost.empty())
        resource_journal_->offline(lost);
}

void Instance::lose_subtree(std::uint32_t rank, Idset& lost)
{
    if (!router_.up(rank))
        return;
    for (auto child : router_.children(rank))
        lose_subtree(child, lost);
    router_.set_up(rank, false);
    ranks_[rank].listener.reset();
    ranks_[rank].lost = true;
    rexec_->rank_lost(rank);
    jobs_->rank_lost(rank);
    lost.insert(rank);
    if (on_lost)
        on_lost(rank);
}

void Instance::shut_down(std::function<void()> done)
{
    set_state("cleanup");
    jobs_->shut_down(std::move(done));
}

std::string Instance::local_uri(std::uint32_t rank) const
{
    return "local://" + ranks_[rank].socket;
}

std::uint32_t Instance::online() const
{
    return static_cast<std::uint32_t>(ranks(true).size());
}

void Instance::set_state(std::string state)
{
    state_ = std::move(state);
    state_since_ = wall_clock();
}

Idset Instance::ranks(bool up) const
{
    Idset out;
    for (std::uint32_t rank = 0; rank < size(); rank++)
        if (router_.up(rank) == up)
            out.insert(rank);
    return out;
}

// An attribute of one rank's broker, with its flags: flux-broker-attributes(7).
std::optional<std::pair<std::string, int>>
Instance::attribute(std::uint32_t rank, const std::string& name) const
{
    auto fixed = [](auto&& value) {
        return std::pair(fmt::format("{}", value), attribute_immutable);
    };
    const auto& node = options_.inventory.nodes[rank];
    if (name == "rank")
        return fixed(rank);
    if (name == "size")
        return fixed(size());
    if (name == "security.owner")
        return fixed(access_.owner);
    if (name == "hostlist")
        return fixed(flux::format_hostlist(options_.inventory.hosts()));
    if (name == "hostname")
        return fixed(node.host);
    if (name == "local-uri")
        return fixed(local_uri(rank));
    if (name == "rundir")
        return std::pair(options_.rundir, 0);
    if (name == "version")
        return std::pair(std::string(flux_version), 0);
    if (name == "instance-level")
        return fixed(options_.level);
    if (name == "jobid-path")
        return fixed(options_.jobid_path);
    if (name == "jobid" && !options_.jobid.empty())
        return fixed(options_.jobid);
    if (name == "parent-uri" && !options_.parent_uri.empty())
        return std::pair(options_.parent_uri, 0);
    if (name == "broker.starttime")
        return fixed(fmt::format("{:.2f}", starttime_));
    if (name == "broker.pid")
        return fixed(ranks_[rank].pid);
    if (name == "broker.mapping")
        return fixed(fmt::format("[[0,{},1,1]]", size()));
    if (name == clock_attribute && !clock_setting().empty())
        return fixed(clock_setting());
    if (name == "broker.boot-method")
        return fixed("sandbox");
    if (name == "tbon.level")
        return std::pair(std::to_string(router_.level(rank)), 0);
    if (name == "tbon.maxlevel")
        return std::pair(std::to_string(router_.level(size() - 1)), 0);
    if (name == "tbon.topo")
        return std::pair(topology(options_), 0);
    if (auto set = options_.attributes.find(name); set != options_.attributes.end())
        return fixed(set->second);
    if (name == "broker.quorum")
        return fixed(size());
    if (name == "broker.critical-ranks")
        return fixed("0");
    if (name == "log-level")
        return fixed(7);
    return std::nullopt;
}

Peer* Instance::peer_of(const Request& request) const
{
    return request.message.routes.empty()
               ? nullptr
               : router_.find_peer(request.message.routes.back());
}

void Instance::add_broker_services()
{
    using enum Router::Where;
    constexpr auto all = Router::guests;
    auto text = [](const Json& payload, const char* key) -> std::optional<std::string> {
        if (!payload.is_object() || !payload.contains(key) || !payload[key].is_string())
            return std::nullopt;
        return payload[key].get<std::string>();
    };
    router_.method("attr.get", everywhere, all, [=, this](const Request& request) {
        auto name = text(request.payload, "name");
        if (!name)
            return router_.fail(request.message, EPROTO);
        auto found = attribute(request.rank, *name);
        if (!found)
            return router_.fail(request.message, ENOENT);
        router_.respond(request.message,
                        {{"value", found->first}, {"flags", found->second}});
    });
    router_.method("attr.list", everywhere, all, [=, this](const Request& request) {
        Json names = Json::array();
        for (const char* name : {"rank",
                                 "size",
                                 "security.owner",
                                 "hostlist",
                                 "hostname",
                                 "local-uri",
                                 "rundir",
                                 "version",
                                 "instance-level",
                                 "jobid-path",
                                 "jobid",
                                 "parent-uri",
                                 "broker.starttime",
                                 "broker.pid",
                                 "broker.mapping",
                                 "broker.boot-method",
                                 "tbon.level",
                                 "tbon.maxlevel",
                                 "tbon.topo",
                                 "broker.quorum",
                                 "broker.critical-ranks",
                                 "log-level"})
            if (attribute(request.rank, name))
                names.push_back(name);
        for (const auto& [name, value] : options_.attributes)
            if (std::find(names.begin(), names.end(), name) == names.end())
                names.push_back(name);
        router_.respond(request.message, {{"names", names}});
    });
    router_.method(
        "attr.set", everywhere, Router::owner_only, [=, this](const Request& request) {
            auto name = text(request.payload, "name");
            if (!name)
                return router_.fail(request.message, EPROTO);
            if (!attribute(request.rank, *name))
                return router_.fail(request.message, ENOENT, "unknown attribute");
            router_.fail(request.message, EINVAL, "attribute may not be updated");
        });
    router_.method("config.get", everywhere, all, [this](const Request& request) {
        router_.respond(request.message, options_.config);
    });
    router_.method("service.add", everywhere, all, [=, this](const Request& request) {
        auto name = text(request.payload, "service");
        auto* peer = peer_of(request);
        if (!name || !peer)
            return router_.fail(request.message, EPROTO);
        auto own = fmt::format("{}-", request.userid());
        if (!request.from_owner() && !name->starts_with(own))
            return router_.fail(request.message, EPERM);
        if (auto rc = router_.add_service(request.rank, *name, *peer); !rc)
            return router_.fail(request.message, rc.error().errnum);
        router_.respond(request.message);
    });
    router_.method(
        "service.remove", everywhere, all, [=, this](const Request& request) {
            auto name = text(request.payload, "service");
            auto* peer = peer_of(request);
            if (!name || !peer)
                return router_.fail(request.message, EPROTO);
            if (auto rc = router_.remove_service(request.rank, *name, *peer); !rc)
                return router_.fail(request.message, rc.error().errnum);
            router_.respond(request.message);
        });
    router_.method("event.subscribe", everywhere, all,
                   [=, this](const Request& request) {
                       auto topic = text(request.payload, "topic");
                       auto* peer = peer_of(request);
                       if (!topic || !peer)
                           return router_.fail(request.message, EPROTO);
                       router_.subscribe(*peer, *topic);
                       router_.respond(request.message);
                   });
    router_.method("event.unsubscribe", everywhere, all,
                   [=, this](const Request& request) {
                       auto topic = text(request.payload, "topic");
                       auto* peer = peer_of(request);
                       if (!topic || !peer)
                           return router_.fail(request.message, EPROTO);
                       router_.unsubscribe(*peer, *topic);
                       router_.respond(request.message);
                   });
    router_.method("event.publish", everywhere, all, [=, this](const Request& request) {
        auto topic = text(request.payload, "topic");
        auto payload = text(request.payload, "payload");
        auto bytes = imp::base64_decode(payload.value_or(""));
        if (!topic || !bytes)
            return router_.fail(request.message, EPROTO);
        Message event;
        event.type = Message::Type::event;
        event.topic = *topic;
        if (payload)
            event.payload = std::move(*bytes);
        event.userid = request.message.userid;
        event.rolemask = request.message.rolemask;
        auto flags = request.payload.value("flags", Json(0));
        if (flags.is_number_unsigned())
            event.flags =
                static_cast<std::uint8_t>(flags.get<unsigned>() & flux::flag_private);
        router_.respond(request.message, {{"seq", router_.publish(std::move(event))}});
    });
    router_.method("broker.ping", everywhere, all, [this](const Request& request) {
        Json answer =
            request.payload.is_object() ? request.payload : Json(Json::object());
        answer["route"] = fmt::format("{}", fmt::join(request.message.routes, "!"));
        answer["userid"] = request.userid();
        answer["rolemask"] = request.message.rolemask;
        answer["rank"] = request.rank;
        router_.respond(request.message, answer);
    });
    router_.method("state-machine.get", everywhere, all,
                   [this](const Request& request) {
                       router_.respond(request.message,
                                       {{"state", state_},
                                        {"duration", wall_clock() - state_since_}});
                   });
    router_.method("groups.get", everywhere, all, [=, this](const Request& request) {
        auto name = text(request.payload, "name");
        if (request.rank != 0)
            return router_.fail(request.message, EPROTO,
                                "this RPC is only available on rank 0");
        if (!name)
            return router_.fail(request.message, EPROTO);
        router_.respond(
            request.message,
            {{"members", *name == "broker.online" ? flux::format_idset(ranks(true))
                                                  : std::string()}});
    });
    router_.method("overlay.health", everywhere, all, [this](const Request& request) {
        router_.respond(request.message, overlay_health(request.rank));
    });
    router_.method("overlay.topology", everywhere, all, [this](const Request& request) {
        router_.respond(request.message, overlay_topology(request.rank));
    });
    // flux-overlay(1), "disconnect": the way to crash a node that is no process.
    router_.method("overlay.disconnect-subtree", everywhere, Router::owner_only,
                   [this](const Request& request) {
                       auto rank = request.payload.is_object()
                                       ? request.payload.value("rank", Json())
                                       : Json();
                       if (!rank.is_number_unsigned())
                           return router_.fail(request.message, EPROTO);
                       auto which = rank.get<std::uint32_t>();
                       if (which == 0 || which >= size() || !router_.up(which))
                           return router_.fail(request.message, ENOENT);
                       router_.respond(request.message);
                       lose_rank(which);
                   });
}

void Instance::add_resource_services()
{
    using enum Router::Where;
    auto on_root = [this](auto handler) {
        return [this, handler](const Request& request) {
            if (request.rank != 0)
                router_.fail(request.message, EPROTO, "this RPC only works on rank 0");
            else
                handler(request);
        };
    };
    auto sched_status = [this](const Request& request) {
        const auto& pool = jobs_->pool();
        router_.respond(request.message, {{"all", pool.all_R()},
                                          {"down", pool.down_R()},
                                          {"allocated", pool.allocated_R()}});
    };
    router_.method("resource.sched-status", everywhere, Router::guests,
                   on_root(sched_status));
    router_.method("sched.resource-status", root, Router::guests, sched_status);
    router_.method("resource.status", everywhere, Router::guests,
                   on_root([this](const Request& request) {
                       router_.respond(request.message,
                                       {{"R", jobs_->pool().all_R()},
                                        {"drain", Json::object()},
                                        {"online", flux::format_idset(ranks(true))},
                                        {"offline", flux::format_idset(ranks(false))},
                                        {"exclude", ""},
                                        {"torpid", ""}});
                   }));
    router_.method(
        "feasibility.check", root, Router::owner_only, [this](const Request& request) {
            auto document = request.payload.is_object()
                                ? request.payload.value("jobspec", Json())
                                : Json();
            auto spec = parse_jobspec(document.dump());
            if (!spec)
                return router_.fail(request.message, EPROTO, spec.error().message);
            if (auto rc = jobs_->pool().feasible(spec->request); !rc)
                return router_.fail(request.message, EOVERFLOW, rc.error().message);
            router_.respond(request.message);
        });
}

Json Instance::overlay_health(std::uint32_t rank) const
{
    Json out = {{"rank", rank}, {"duration", wall_clock() - starttime_}};
    Json children = Json::array();
    bool complete = true;
    for (auto child : router_.children(rank)) {
        children.push_back(overlay_health(child));
        complete = complete && children.back()["status"] == "full";
    }
    out["status"] = !router_.up(rank) ? (ranks_[rank].lost ? "lost" : "offline")
                    : complete        ? "full"
                                      : "degraded";
    out["children"] = std::move(children);
    return out;
}

Json Instance::overlay_topology(std::uint32_t rank) const
{
    Json children = Json::array();
    std::uint32_t size = 1;
    for (auto child : router_.children(rank)) {
        children.push_back(overlay_topology(child));
        size += children.back()["size"].get<std::uint32_t>();
    }
    return {{"rank", rank}, {"size", size}, {"children", std::move(children)}};
}

} // namespace fluxdat::sandbox
