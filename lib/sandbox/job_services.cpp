// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/job_services.h"

#include "lib/clock.h"
#include "lib/sandbox/signature.h"

#include <algorithm>
#include <csignal>

namespace fluxdat::sandbox {

namespace {

// RFC 41
constexpr int flag_json_decode = 1; // lookup
constexpr int flag_current = 2;     // else the jobspec is the one that was submitted
constexpr int flag_waitcreate = 1;  // eventlog-watch
// job-ingest: debug, waitable, novalidate
constexpr int submit_flags = 1 | 2 | 4;

// The member of an object, if it has the type.
template <class T>
std::optional<T> get(const Json& object, const char* key)
{
    if (!object.is_object())
        return std::nullopt;
    auto found = object.find(key);
    if (found == object.end())
        return std::nullopt;
    if constexpr (std::is_same_v<T, bool>) {
        if (!found->is_boolean())
            return std::nullopt;
    } else if constexpr (std::is_integral_v<T>) {
        if (!found->is_number_integer())
            return std::nullopt;
        if (std::is_unsigned_v<T> && !found->is_number_unsigned())
            return std::nullopt;
    } else if constexpr (std::is_floating_point_v<T>) {
        if (!found->is_number())
            return std::nullopt;
    } else if constexpr (std::is_same_v<T, std::string>) {
        if (!found->is_string())
            return std::nullopt;
    } else if constexpr (std::is_same_v<T, Json>) {
        return *found;
    }
    return found->get<T>();
}

} // namespace

JobServices::JobServices(Router& router, Jobs& jobs) : router_(router), jobs_(jobs)
{
    using enum Router::Where;
    constexpr auto owner = Router::owner_only;
    constexpr auto all = Router::guests;
    auto method = [&](const char* topic, Router::Where where, unsigned allow,
                      void (JobServices::*member)(const Request&)) {
        router.method(topic, where, allow, [this, member](const Request& request) {
            (this->*member)(request);
        });
    };
    method("job-ingest.submit", everywhere, all, &JobServices::submit);
    method("job-manager.raise", root, all, &JobServices::raise);
    method("job-manager.kill", root, all, &JobServices::kill);
    method("job-manager.urgency", root, all, &JobServices::urgency);
    method("job-manager.memo", root, all, &JobServices::memo);
    method("job-manager.update", root, all, &JobServices::update);
    method("job-exec.critical-ranks", root, all, &JobServices::critical_ranks);
    method("job-manager.queue-list", root, all, &JobServices::queue_list);
    method("job-manager.queue-status", root, all, &JobServices::queue_status);
    method("job-manager.queue-enable", root, owner, &JobServices::queue_enable);
    method("job-manager.queue-start", root, owner, &JobServices::queue_start);
    method("job-manager.stats-get", root, all, &JobServices::stats);
    method("job-list.list", root, all, &JobServices::list);
    method("job-list.list-id", root, all, &JobServices::list_id);
    method("job-list.job-stats", root, all, &JobServices::job_stats);
    method("job-info.eventlog-watch", everywhere, all | Router::streaming_only,
           &JobServices::eventlog_watch);
    method("job-info.eventlog-watch-cancel", everywhere, all,
           &JobServices::eventlog_watch_cancel);
    method("job-info.lookup", everywhere, all, &JobServices::lookup);
    method("job-info.update-watch", everywhere, all | Router::streaming_only,
           &JobServices::update_watch);
    method("job-info.update-watch-cancel", everywhere, all,
           &JobServices::update_watch_cancel);
    router.method("job-list.list-attrs", root, all, [this](const Request& request) {
        auto names = job_attributes();
        names.push_back("all");
        router_.respond(request.message, {{"attrs", names}});
    });
    router.method("job-manager.drain", root, owner, [this](const Request& request) {
        if (jobs_.active() == 0)
            router_.respond(request.message);
        else
            draining_.push_back(request.ticket());
    });
    router.method("job-manager.idle", root, owner, [this](const Request& request) {
        if (jobs_.running() == 0)
            router_.respond(request.message, {{"pending", jobs_.active()}});
        else
            idling_.push_back(request.ticket());
    });
    router.on_departure([this](const Departure& departure) { forget(departure); });
    jobs.on_state = [this](Job& job) { changed(job); };
    jobs.on_R = [this](Job& job) {
        for (const auto& watch : watching_)
            if (watch.id == job.id && watch.key == "R")
                router_.respond(watch.ticket, {{"R", jobs_.R(job)}});
    };
}

void JobServices::submit(const Request& request)
{
    auto J = get<std::string>(request.payload, "J");
    auto urgency = get<int>(request.payload, "urgency");
    auto flags = get<int>(request.payload, "flags");
    auto refuse = [&](int errnum, std::string_view text) {
        router_.fail(request.message, errnum, text);
    };
    if (!J || !urgency || !flags)
        return refuse(EPROTO, "error decoding job request: Protocol error");
    if (*flags & ~submit_flags)
        return refuse(EPROTO, "invalid job flags");
    if (*urgency < 0 || *urgency > urgency_max)
        return refuse(EINVAL, fmt::format("urgency range is [0:{}]", urgency_max));
    auto signed_request = unwrap(*J, request.userid(), router_.owner());
    if (!signed_request)
        return refuse(signed_request.error().errnum, signed_request.error().message);
    auto spec = parse_jobspec(signed_request->payload);
    if (!spec)
        return refuse(spec.error().errnum, spec.error().message);
    auto id =
        jobs_.submit({request.userid(), request.rank, *urgency, *flags, std::move(*J)},
                     std::move(*spec));
    if (!id)
        return refuse(id.error().errnum, id.error().message);
    router_.respond(request.message, {{"id", *id}});
}

// The active job that a request is about, or an answer that there is none. Flux's
// services do not agree on the errnum.
Job* JobServices::active_job(const Request& request, int unknown_errnum)
{
    auto id = get<JobId>(request.payload, "id");
    if (!id) {
        router_.fail(request.message, EPROTO, "Protocol error");
        return nullptr;
    }
    auto* job = jobs_.find(*id);
    if (!job || !job->active()) {
        router_.fail(request.message, unknown_errnum,
                     job ? "job is inactive" : "unknown job id");
        return nullptr;
    }
    return job;
}

void JobServices::raise(const Request& request)
{
    auto type = get<std::string>(request.payload, "type");
    auto severity = get<int>(request.payload, "severity");
    if (!type || !severity)
        return router_.fail(request.message, EPROTO, "Protocol error");
    if (*severity < 0 || *severity > 7)
        return router_.fail(request.message, EINVAL,
                            "invalid exception severity (valid range 0-7)");
    if (type->empty() || std::any_of(type->begin(), type->end(), [](unsigned char c) {
            return std::isspace(c) || c == '=';
        }))
        return router_.fail(request.message, EINVAL, "invalid exception type");
    auto* job = active_job(request, ENOENT);
    if (!job)
        return;
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM,
                            "guests can only raise exceptions on their own jobs");
    jobs_.raise(*job, *type, *severity, request.userid(),
                get<std::string>(request.payload, "note").value_or(""));
    router_.respond(request.message);
}

void JobServices::kill(const Request& request)
{
    auto signum = get<int>(request.payload, "signum");
    if (!signum)
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = active_job(request, EINVAL);
    if (!job)
        return;
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM,
                            "guests may only send signals to their own jobs");
    if (*signum <= 0 || *signum >= NSIG)
        return router_.fail(request.message, EINVAL, "Invalid signal number");
    if (auto rc = jobs_.signal(*job, *signum); !rc)
        return router_.fail(request.message, rc.error().errnum, rc.error().message);
    router_.respond(request.message);
}

void JobServices::urgency(const Request& request)
{
    auto urgency = get<int>(request.payload, "urgency");
    if (!urgency)
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = active_job(request, EINVAL);
    if (!job)
        return;
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM,
                            "guests can only reprioritize their own jobs");
    if (*urgency < 0 || *urgency > urgency_max)
        return router_.fail(request.message, EINVAL, "urgency value is out of range");
    if (!request.from_owner() && *urgency > 16)
        return router_.fail(request.message, EPERM,
                            "guests can only adjust urgency <= 16");
    if (!job->pending())
        return router_.fail(request.message, EINVAL,
                            "urgency cannot be changed once resources are allocated");
    int old = job->urgency;
    jobs_.set_urgency(*job, *urgency, request.userid());
    router_.respond(request.message, {{"old_urgency", old}});
}

void JobServices::memo(const Request& request)
{
    auto memo = get<Json>(request.payload, "memo");
    if (!memo || !memo->is_object())
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = active_job(request, ENOENT);
    if (!job)
        return;
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM,
                            "guests can only add a memo to their own jobs");
    jobs_.memo(*job, *memo);
    router_.respond(request.message);
}

void JobServices::update(const Request& request)
{
    auto updates = get<Json>(request.payload, "updates");
    if (!updates || !updates->is_object())
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto id = get<JobId>(request.payload, "id");
    if (!id)
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = jobs_.find(*id);
    if (!job)
        return router_.fail(request.message, ENOENT, "unknown job id");
    if (!job->active())
        return router_.fail(request.message, EINVAL, "job is inactive");
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM,
                            "guests may only update their own jobs");
    for (const auto& [key, value] : updates->items()) {
        if (key != "attributes.system.duration")
            return router_.fail(request.message, EINVAL,
                                fmt::format("update of {} not supported", key));
        if (auto good = check_duration(request, *job, value); !good)
            return router_.fail(request.message, EINVAL, good.error().message);
    }
    for (const auto& [key, value] : updates->items())
        jobs_.set_duration(*job, value.get<double>());
    router_.respond(request.message);
}

// The limits are for guests; the instance's owner may go beyond them.
Result<> JobServices::check_duration(const Request& request, const Job& job,
                                     const Json& value)
{
    if (!value.is_number())
        return fail("plugin args unpack failed");
    double duration = value.get<double>();
    if (duration < 0)
        return fail("duration must not be negative");
    bool running = !job.pending();
    if (running && !request.from_owner())
        return fail(
            "duration update of running job requires instance owner privileges");
    if (running && duration > 0 && job.starttime + duration < wall_clock())
        return fail("requested duration places job expiration in the past");
    if (request.from_owner())
        return {};
    auto queue = jobs_.queues().find(job.queue);
    return queue ? jobs_.queues().allows(**queue, duration)
                 : std::unexpected(queue.error());
}

void JobServices::critical_ranks(const Request& request)
{
    auto id = get<JobId>(request.payload, "id");
    auto text = get<std::string>(request.payload, "ranks");
    auto ranks = text ? flux::parse_idset(*text) : Result<Idset>{};
    if (!id || !text || !ranks)
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = jobs_.find(*id);
    if (!job || !job->active())
        return router_.fail(request.message, ENOENT);
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM);
    job->critical_ranks = std::move(*ranks);
    router_.respond(request.message);
}

void JobServices::queue_list(const Request& request)
{
    Json names = Json::array();
    for (const auto& [name, queue] : jobs_.queues().all())
        if (!name.empty())
            names.push_back(name);
    router_.respond(request.message, {{"queues", names}});
}

void JobServices::queue_status(const Request& request)
{
    if (!request.payload.is_object())
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto queue = jobs_.queues().find(get<std::string>(request.payload, "name"));
    if (!queue)
        return router_.fail(request.message, queue.error().errnum,
                            queue.error().message);
    Json out = {{"enable", (*queue)->enabled}, {"start", (*queue)->started}};
    if (!(*queue)->enabled)
        out["disable_reason"] = (*queue)->disable_reason;
    if (!(*queue)->started && !(*queue)->stop_reason.empty())
        out["stop_reason"] = (*queue)->stop_reason;
    router_.respond(request.message, out);
}

// The queues that queue-enable and queue-start are about.
std::optional<std::vector<Queue*>> JobServices::queues_of(const Request& request)
{
    auto name = get<std::string>(request.payload, "name");
    auto& queues = jobs_.queues();
    std::vector<Queue*> out;
    if (!name) {
        if (queues.named() && !get<bool>(request.payload, "all").value_or(false)) {
            router_.fail(request.message, EINVAL,
                         "Use --all to apply this command to all queues");
            return std::nullopt;
        }
        for (auto& [other, queue] : queues.all())
            out.push_back(&queue);
        return out;
    }
    auto queue = queues.find(name);
    if (!queue) {
        router_.fail(request.message, queue.error().errnum, queue.error().message);
        return std::nullopt;
    }
    out.push_back(*queue);
    return out;
}

void JobServices::queue_enable(const Request& request)
{
    auto enable = get<bool>(request.payload, "enable");
    auto reason = get<std::string>(request.payload, "reason");
    if (!enable)
        return router_.fail(request.message, EPROTO, "Protocol error");
    if (!*enable && !reason)
        return router_.fail(request.message, EINVAL, "reason is required for disable");
    auto queues = queues_of(request);
    if (!queues)
        return;
    for (auto* queue : *queues) {
        queue->enabled = *enable;
        queue->disable_reason = *enable ? "" : *reason;
    }
    router_.respond(request.message);
}

void JobServices::queue_start(const Request& request)
{
    auto start = get<bool>(request.payload, "start");
    if (!start)
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto queues = queues_of(request);
    if (!queues)
        return;
    for (auto* queue : *queues) {
        queue->started = *start;
        queue->stop_reason =
            *start ? "" : get<std::string>(request.payload, "reason").value_or("");
    }
    jobs_.schedule_soon();
    router_.respond(request.message);
}

void JobServices::stats(const Request& request)
{
    JobId last = jobs_.all().empty() ? 0 : jobs_.all().rbegin()->first;
    router_.respond(request.message,
                    {{"journal", {{"listeners", 0}, {"events", 0}}},
                     {"active_jobs", jobs_.active()},
                     {"inactive_jobs", jobs_.all().size() - jobs_.active()},
                     {"max_jobid", last},
                     {"housekeeping",
                      {{"running", Json::object()},
                       {"config", {{"release-after", -1.0}, {"command", ""}}}}}});
}

namespace {

Result<std::set<std::string>> parse_attributes(const Json& payload)
{
    static const std::set<std::string> known = [] {
        std::set<std::string> names(job_attributes().begin(), job_attributes().end());
        names.insert("all");
        return names;
    }();
    auto list = get<Json>(payload, "attrs");
    if (!list)
        return std::unexpected(
            Error{"invalid payload: Object item not found: attrs", EPROTO});
    if (!list->is_array())
        return std::unexpected(
            Error{"invalid payload: attrs must be an array", EPROTO});
    std::set<std::string> out;
    for (const auto& name : *list) {
        if (!name.is_string())
            return std::unexpected(
                Error{"invalid payload: attr has no string value", EPROTO});
        if (!known.contains(name.get_ref<const std::string&>()))
            return std::unexpected(
                Error{fmt::format("{} is not a valid attribute",
                                  name.get_ref<const std::string&>()),
                      EINVAL});
        out.insert(name.get<std::string>());
    }
    return out;
}

// RFC 43, "List": pending jobs by priority, running ones by start, the others by end.
std::vector<const Job*> in_listing_order(const Jobs& jobs)
{
    std::vector<const Job*> out;
    for (const auto& [id, job] : jobs.all())
        out.push_back(job.get());
    auto group = [](const Job* job) {
        return job->pending() || job->state == state_new ? 0 : job->active() ? 1 : 2;
    };
    std::sort(out.begin(), out.end(), [&](const Job* a, const Job* b) {
        if (group(a) != group(b))
            return group(a) < group(b);
        switch (group(a)) {
        case 0:
            if (a->priority != b->priority)
                return a->priority.value_or(0) > b->priority.value_or(0);
            return a->id < b->id;
        case 1:
            return std::pair(a->t_run, a->id) > std::pair(b->t_run, b->id);
        default:
            return std::pair(a->t_inactive, a->id) > std::pair(b->t_inactive, b->id);
        }
    });
    return out;
}

} // namespace

void JobServices::list(const Request& request)
{
    auto refuse = [&](int errnum, std::string_view text) {
        router_.fail(request.message, errnum, text);
    };
    if (request.payload.is_null())
        return refuse(EPROTO,
                      "invalid payload: message does not have a string payload");
    auto max_entries = get<int>(request.payload, "max_entries");
    if (!max_entries)
        return refuse(EPROTO, "invalid payload: Object item not found: max_entries");
    if (*max_entries < 0)
        return refuse(EPROTO, "invalid payload: max_entries < 0 not allowed");
    auto attributes = parse_attributes(request.payload);
    if (!attributes)
        return refuse(attributes.error().errnum, attributes.error().message);
    double since = get<double>(request.payload, "since").value_or(0);
    JobFilter filter;
    if (auto constraint = get<Json>(request.payload, "constraint");
        constraint && !constraint->is_null()) {
        auto parsed = JobFilter::parse(*constraint);
        if (!parsed)
            return refuse(EPROTO, "invalid payload: constraint object invalid: "
                                      + parsed.error().message);
        filter = std::move(*parsed);
    }
    Json found = Json::array();
    bool streaming = request.message.streaming();
    std::size_t count = 0;
    for (const auto* job : in_listing_order(jobs_)) {
        if (*max_entries > 0 && count == static_cast<std::size_t>(*max_entries))
            break;
        if (job->state == state_inactive && job->t_inactive <= since)
            continue;
        if (!filter.matches(*job))
            continue;
        count++;
        auto description = describe(*job, *attributes);
        if (!streaming) {
            found.push_back(std::move(description));
            continue;
        }
        Json answer = {{"jobs", Json::array({std::move(description)})}};
        if (count == 1)
            answer["version"] = 1;
        router_.respond(request.message, answer);
    }
    if (streaming)
        router_.end(request.message);
    else
        router_.respond(request.message, {{"jobs", std::move(found)}});
}

void JobServices::list_id(const Request& request)
{
    auto id = get<JobId>(request.payload, "id");
    if (!id)
        return router_.fail(request.message, EPROTO,
                            "invalid payload: Object item not found: id");
    auto attributes = parse_attributes(request.payload);
    if (!attributes)
        return router_.fail(request.message, attributes.error().errnum,
                            attributes.error().message);
    auto* job = jobs_.find(*id);
    if (!job)
        return router_.fail(request.message, ENOENT);
    auto state = get<unsigned>(request.payload, "state").value_or(0);
    if (state > job->state) {
        waiting_.push_back({request.ticket(), *id, state, std::move(*attributes)});
        return;
    }
    router_.respond(request.message, {{"job", describe(*job, *attributes)}});
}

void JobServices::job_stats(const Request& request)
{
    auto count = [&](const std::optional<std::string>& queue) {
        static constexpr std::pair<const char*, unsigned> states[] = {
            {"depend", state_depend},   {"priority", state_priority},
            {"sched", state_sched},     {"run", state_run},
            {"cleanup", state_cleanup}, {"inactive", state_inactive},
        };
        Json by_state;
        for (const auto& [name, bit] : states)
            by_state[name] = 0;
        Json out = {{"successful", 0},
                    {"failed", 0},
                    {"canceled", 0},
                    {"timeout", 0},
                    {"inactive_purged", 0}};
        int total = 0;
        for (const auto& [id, job] : jobs_.all()) {
            if (queue && job->queue != queue)
                continue;
            total++;
            for (const auto& [name, bit] : states)
                if (job->state == bit)
                    by_state[name] = by_state[name].get<int>() + 1;
            const char* end = job->result == result_completed  ? "successful"
                              : job->result == result_canceled ? "canceled"
                              : job->result == result_timeout  ? "timeout"
                                                               : "failed";
            if (job->state == state_inactive)
                out[end] = out[end].get<int>() + 1;
        }
        by_state["total"] = total;
        out["job_states"] = std::move(by_state);
        return out;
    };
    auto out = count(std::nullopt);
    out["queues"] = Json::array();
    for (const auto& [name, queue] : jobs_.queues().all())
        if (!name.empty()) {
            auto one = count(name);
            one["name"] = name;
            out["queues"].push_back(std::move(one));
        }
    router_.respond(request.message, out);
    // As a stream (flux-top(1)) it would go on; one answer is what it shows first.
}

void JobServices::eventlog_watch(const Request& request)
{
    auto id = get<JobId>(request.payload, "id");
    auto path = get<std::string>(request.payload, "path");
    auto flags = get<int>(request.payload, "flags");
    if (!id || !path || !flags)
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = jobs_.find(*id);
    auto* log = !job                             ? nullptr
                : *path == "eventlog"            ? &job->eventlog
                : *path == "guest.exec.eventlog" ? &job->exec_eventlog
                : *path == "guest.output"        ? &job->output
                                                 : nullptr;
    if (job && !request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM);
    if (!log)
        return router_.fail(request.message, ENOENT);
    log->watch(request.ticket(), *flags & flag_waitcreate);
}

void JobServices::eventlog_watch_cancel(const Request& request)
{
    auto matchtag = get<std::uint32_t>(request.payload, "matchtag");
    if (!matchtag)
        return;
    for (const auto& [id, job] : jobs_.all())
        for (auto* log : {&job->eventlog, &job->exec_eventlog, &job->output})
            if (log->cancel(request.message, *matchtag))
                return;
}

void JobServices::lookup(const Request& request)
{
    auto id = get<JobId>(request.payload, "id");
    auto keys = get<Json>(request.payload, "keys");
    auto flags = get<int>(request.payload, "flags");
    if (!id || !keys || !keys->is_array() || !flags)
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = jobs_.find(*id);
    if (!job)
        return router_.fail(request.message, ENOENT, "invalid job id");
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM,
                            "access is restricted to job/instance owner");
    Json out = {{"id", *id}};
    for (const auto& entry : *keys) {
        if (!entry.is_string())
            return router_.fail(request.message, EPROTO, "Protocol error");
        const auto& key = entry.get_ref<const std::string&>();
        auto missing = [&] {
            router_.fail(request.message, ENOENT,
                         fmt::format("{}: key not found", key));
        };
        if (key == "R" || key == "jobspec") {
            auto value = key == "R" ? jobs_.R(*job) : job->spec.document;
            if (value.is_null())
                return missing();
            if (auto was = job->spec.submitted_duration;
                key == "jobspec" && was && !(*flags & flag_current))
                value["attributes"]["system"]["duration"] = *was;
            out[key] = *flags & flag_json_decode ? value : Json(value.dump());
        } else if (key == "J") {
            out[key] = job->J;
        } else {
            auto* log = key == "eventlog"              ? &job->eventlog
                        : key == "guest.exec.eventlog" ? &job->exec_eventlog
                        : key == "guest.output"        ? &job->output
                                                       : nullptr;
            if (!log || log->empty())
                return missing();
            out[key] = log->text();
        }
    }
    router_.respond(request.message, out);
}

void JobServices::update_watch(const Request& request)
{
    auto id = get<JobId>(request.payload, "id");
    auto key = get<std::string>(request.payload, "key");
    if (!id || !key || !get<int>(request.payload, "flags"))
        return router_.fail(request.message, EPROTO, "Protocol error");
    auto* job = jobs_.find(*id);
    if (!job)
        return router_.fail(request.message, ENOENT);
    if (!request.from_owner() && request.userid() != job->userid)
        return router_.fail(request.message, EPERM);
    auto value = *key == "R"         ? jobs_.R(*job)
                 : *key == "jobspec" ? job->spec.document
                                     : Json();
    if (value.is_null())
        return router_.fail(request.message, ENOENT);
    router_.respond(request.message, {{*key, value}});
    if (job->active())
        watching_.push_back({request.ticket(), *id, *key});
    else
        router_.end(request.message);
}

void JobServices::update_watch_cancel(const Request& request)
{
    auto matchtag = get<std::uint32_t>(request.payload, "matchtag");
    if (!matchtag)
        return;
    std::erase_if(watching_, [&](const Watching& watch) {
        if (watch.ticket.matchtag() != *matchtag
            || !same_sender(watch.ticket, request.message))
            return false;
        router_.end(watch.ticket);
        return true;
    });
}

void JobServices::changed(Job& job)
{
    std::erase_if(waiting_, [&](const Waiting& waiting) {
        if (waiting.id != job.id || job.state < waiting.state)
            return false;
        router_.respond(waiting.ticket, {{"job", describe(job, waiting.attributes)}});
        return true;
    });
    if (job.state != state_inactive)
        return;
    std::erase_if(watching_, [&](const Watching& watch) {
        if (watch.id != job.id)
            return false;
        router_.end(watch.ticket);
        return true;
    });
    if (jobs_.active() == 0)
        for (const auto& ticket : std::exchange(draining_, {}))
            router_.respond(ticket);
    if (jobs_.running() == 0)
        for (const auto& ticket : std::exchange(idling_, {}))
            router_.respond(ticket, {{"pending", jobs_.active()}});
}

void JobServices::forget(const Departure& departure)
{
    for (const auto& [id, job] : jobs_.all())
        for (auto* log : {&job->eventlog, &job->exec_eventlog, &job->output})
            log->forget(departure);
    auto gone = [&](const auto& entry) { return departure.concerns(entry.ticket); };
    std::erase_if(waiting_, gone);
    std::erase_if(watching_, gone);
    auto gone_ticket = [&](const Ticket& ticket) { return departure.concerns(ticket); };
    std::erase_if(draining_, gone_ticket);
    std::erase_if(idling_, gone_ticket);
}

} // namespace fluxdat::sandbox
