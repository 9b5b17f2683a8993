// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/jobs.h"

#include "lib/sandbox/shell.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <sys/wait.h>

namespace fluxdat::sandbox {

namespace {

// RFC 19: 40 bits of milliseconds, 14 of the generator, 10 of a sequence number.
constexpr int id_time_shift = 24, id_generator_shift = 10;
constexpr std::uint64_t id_generator_mask = (1u << 14) - 1;
constexpr std::uint64_t id_sequence_mask = (1u << id_generator_shift) - 1;

constexpr std::int64_t priority_max = 4294967295; // RFC 21; of urgency 31, "expedite"

std::optional<double> parse_begin_time(const std::string& value)
{
    double time;
    auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), time);
    if (error != std::errc() || end != value.data() + value.size() || !(time >= 0))
        return std::nullopt;
    return time;
}

std::string begin_time_description(double time)
{
    return fmt::format("begin-time={:.3f}", time);
}

// RFC 27's rules for annotations, which are also those of memos (RFC 21).
void merge(Json& into, const Json& update)
{
    if (!into.is_object())
        into = Json::object();
    for (const auto& [key, value] : update.items()) {
        if (value.is_null())
            into.erase(key);
        else if (value.is_object() && into.contains(key) && into[key].is_object())
            merge(into[key], value);
        else
            into[key] = value;
    }
}

} // namespace

Job::Job(Router& router, Jobspec jobspec)
    : spec(std::move(jobspec)), eventlog(router), exec_eventlog(router), output(router)
{
}

Job::~Job() = default;

Jobs::Jobs(ExecContext context, Pool pool, Queues queues)
    : context_(std::move(context)), pool_(std::move(pool)), queues_(std::move(queues)),
      epoch_(machine_clock()), schedule_timer_(context_.loop),
      shut_down_timer_(context_.loop)
{
}

Jobs::~Jobs() = default;

JobId Jobs::new_id(std::uint32_t rank)
{
    auto milliseconds = static_cast<std::uint64_t>((machine_clock() - epoch_) * 1000);
    JobId id = milliseconds << id_time_shift
               | (rank & id_generator_mask) << id_generator_shift;
    // One sequence for all ranks, since one process makes all ids.
    if (id >> id_time_shift <= last_id_ >> id_time_shift) {
        auto sequence = (last_id_ & id_sequence_mask) + 1;
        if (sequence > id_sequence_mask)
            id = ((last_id_ >> id_time_shift) + 1) << id_time_shift;
        else
            id = (last_id_ >> id_time_shift) << id_time_shift
                 | (id & id_generator_mask << id_generator_shift) | sequence;
    }
    last_id_ = id;
    return id;
}

void Jobs::post(Job& job, std::string_view name, const Json& context)
{
    post_at(wall_clock(), job, name, context);
}

void Jobs::post_at(double time, Job& job, std::string_view name, const Json& context)
{
    job.eventlog.append(time, name, context);
    if (on_event)
        on_event(job, job.eventlog.lines().back());
}

void Jobs::set_state(Job& job, unsigned state, double time)
{
    job.state = state;
    switch (state) {
    case state_depend:
        job.t_depend = time;
        break;
    case state_priority:
        job.t_priority = time;
        break;
    case state_sched:
        job.t_sched = time;
        break;
    case state_run:
        job.t_run = time;
        break;
    case state_cleanup:
        job.t_cleanup = time;
        break;
    case state_inactive:
        job.t_inactive = time;
        break;
    default:
        break;
    }
    if (on_state)
        on_state(job);
}

Result<> Jobs::check_dependencies(const Jobspec& spec) const
{
    for (const auto& dependency : spec.dependencies) {
        if (dependency.scheme != "begin-time")
            return std::unexpected(
                Error{fmt::format("dependency scheme \"{}\" not supported",
                                  dependency.scheme),
                      EINVAL});
        if (!parse_begin_time(dependency.value))
            return std::unexpected(
                Error{fmt::format("Invalid begin-time={}", dependency.value), EINVAL});
    }
    return {};
}

Result<JobId> Jobs::submit(Submission submission, Jobspec spec)
{
    if (shutting_down_)
        return std::unexpected(Error{"the instance is shutting down", EINVAL});
    std::set<std::string> known;
    for (const auto& node : pool_.inventory().nodes)
        known.insert(node.host);
    for (const auto& host : spec.request.constraint.hosts())
        if (!known.contains(host))
            return std::unexpected(
                Error{fmt::format("invalid jobspec: host constraint contains invalid "
                                  "hosts: host '{}' not found",
                                  host),
                      EPERM});
    auto queue = queues_.admit(spec);
    if (!queue)
        return std::unexpected(std::move(queue.error()));
    if (auto rc = check_dependencies(spec); !rc)
        return std::unexpected(std::move(rc.error()));

    auto owned = std::make_unique<Job>(context_.router, std::move(spec));
    auto& job = *owned;
    job.id = new_id(submission.rank);
    job.userid = submission.userid;
    job.urgency = submission.urgency;
    job.flags = submission.flags;
    job.J = std::move(submission.J);
    job.name = job.spec.name;
    job.cwd = job.spec.cwd;
    job.queue = queues_.named() ? std::optional(job.spec.queue) : std::nullopt;
    job.bank = job.spec.bank;
    job.project = job.spec.project;
    job.duration = job.spec.duration;
    const auto& request = job.spec.request;
    job.nnodes = request.nodes;
    job.ntasks = job.spec.total_tasks.value_or(
        static_cast<std::uint32_t>(request.total_slots()));
    if (job.spec.tasks_per_node && request.nodes > 0)
        job.ntasks =
            static_cast<std::uint64_t>(*job.spec.tasks_per_node) * request.nodes;
    job.ncores = request.total_slots() * request.cores;
    jobs_[job.id] = std::move(owned);
    active_++;

    job.t_submit = wall_clock();
    post_at(job.t_submit, job, "submit",
            {{"userid", job.userid},
             {"urgency", job.urgency},
             {"flags", job.flags},
             {"version", 1}});
    double begin = 0;
    for (const auto& dependency : job.spec.dependencies) {
        double time = *parse_begin_time(dependency.value);
        begin = std::max(begin, time);
        job.dependencies.push_back(begin_time_description(time));
        post(job, "dependency-add", {{"description", job.dependencies.back()}});
    }
    double now = wall_clock();
    post_at(now, job, "validate");
    set_state(job, state_depend, now);
    if (job.dependencies.empty()) {
        depend(job);
    } else {
        job.begin_timer = std::make_unique<Timer>(context_.loop);
        job.begin_timer->start_at(begin, [this, &job] {
            for (const auto& description : std::exchange(job.dependencies, {}))
                post(job, "dependency-remove", {{"description", description}});
            depend(job);
        });
    }
    return job.id;
}

void Jobs::depend(Job& job)
{
    double now = wall_clock();
    post_at(now, job, "depend");
    set_state(job, state_priority, now);
    prioritize(job);
}

void Jobs::prioritize(Job& job)
{
    double now = wall_clock();
    job.priority = job.urgency == urgency_max ? priority_max : job.urgency;
    post_at(now, job, "priority", {{"priority", *job.priority}});
    if (job.state == state_priority)
        set_state(job, state_sched, now);
    schedule_soon();
}

void Jobs::schedule_soon()
{
    schedule_timer_.start_in(0, [this] { schedule(); });
}

void Jobs::schedule()
{
    std::vector<Job*> waiting;
    for (const auto& [id, job] : jobs_)
        if (job->state == state_sched && *job->priority > 0)
            waiting.push_back(job.get());
    // The map is in the order of submission, which stays where priorities are equal.
    std::stable_sort(waiting.begin(), waiting.end(), [](const Job* a, const Job* b) {
        return *a->priority > *b->priority;
    });
    std::set<std::string> blocked; // queues
    for (auto* job : waiting) {
        auto queue = queues_.find(job->queue);
        if (!queue || !(*queue)->started || blocked.contains((*queue)->name))
            continue;
        if (auto rc = pool_.feasible(job->spec.request); !rc) {
            raise(*job, "alloc", 0, context_.router.owner(), rc.error().message);
            continue;
        }
        if (auto allocation = pool_.allocate(job->spec.request))
            start(*job, std::move(*allocation));
        else
            blocked.insert((*queue)->name);
    }
}

void Jobs::start(Job& job, Allocation allocation)
{
    job.allocation = std::move(allocation);
    job.starttime = wall_clock();
    job.expiration =
        job.duration > 0 ? job.starttime + job.duration : pool_.inventory().expiration;
    job.ranks = ranks_of(job.allocation);
    job.nnodes = job.ranks.size();
    job.hosts.clear();
    job.ncores = 0;
    for (const auto& [rank, share] : job.allocation) {
        job.hosts.push_back(pool_.inventory().nodes[rank].host);
        job.ncores += share.cores.size();
    }
    merge(job.annotations,
          {{"sched", {{"resource_summary", summarize(job.allocation)}}}});
    double now = wall_clock();
    post_at(now, job, "alloc", {{"annotations", job.annotations}});
    set_state(job, state_run, now);
    arm_limit(job);
    job.shell = std::make_unique<Shell>(
        context_, job,
        Shell::Events{
            [this, &job] {
                post(job, "start");
                job.exec_eventlog.begin();
                job.output.begin();
            },
            [this, &job](const std::string& type, int severity, const std::string& note,
                         std::optional<int> wait_status) {
                raise(job, type, severity, context_.router.owner(), note, wait_status);
            },
            [this, &job](int status) { finished(job, status); }});
    job.shell->start();
}

void Jobs::arm_limit(Job& job)
{
    job.limit_timer.reset();
    if (job.expiration <= 0)
        return;
    job.limit_timer = std::make_unique<Timer>(context_.loop);
    job.limit_timer->start_at(job.expiration, [this, &job] {
        raise(job, "timeout", 0, context_.router.owner(),
              "resource allocation expired");
    });
}

void Jobs::raise(Job& job, const std::string& type, int severity, std::uint32_t userid,
                 const std::string& note, std::optional<int> wait_status)
{
    if (!job.active())
        return;
    Json context = {
        {"type", type}, {"severity", severity}, {"note", note}, {"userid", userid}};
    if (wait_status)
        context["wait_status"] = *wait_status;
    double now = wall_clock();
    post_at(now, job, "exception", context);
    // The first of the worst is what the job is listed with.
    if (!job.exception || severity < job.exception->severity)
        job.exception = {type, severity, note};
    if (severity > 0 || std::exchange(job.fatal, true))
        return;
    if (wait_status)
        job.waitstatus = WIFSIGNALED(*wait_status) ? (128 + WTERMSIG(*wait_status)) << 8
                                                   : *wait_status;
    job.begin_timer.reset();
    job.limit_timer.reset();
    bool was_running = job.state == state_run;
    if (job.state != state_cleanup)
        set_state(job, state_cleanup, now);
    if (was_running && job.shell)
        job.shell->terminate(type == "timeout" ? SIGALRM : SIGTERM);
    else if (!job.shell)
        clean(job);
}

void Jobs::finished(Job& job, int status)
{
    // A task's end that was the reason of the exception counts, not the largest.
    job.waitstatus = job.fatal ? job.waitstatus.value_or(status) : status;
    job.limit_timer.reset();
    job.exec_eventlog.append(wall_clock(), "complete", {{"status", *job.waitstatus}});
    double now = wall_clock();
    post_at(now, job, "finish", {{"status", *job.waitstatus}});
    if (job.state != state_cleanup)
        set_state(job, state_cleanup, now);
    job.shell.reset();
    job.exec_eventlog.append(wall_clock(), "done");
    job.exec_eventlog.finish();
    job.output.finish();
    post(job, "release", {{"ranks", "all"}, {"final", true}});
    pool_.free(job.allocation, ranks_of(job.allocation));
    post(job, "free");
    clean(job);
    schedule_soon();
}

void Jobs::clean(Job& job)
{
    double now = wall_clock();
    post_at(now, job, "clean");
    job.success = !job.fatal && job.waitstatus == 0;
    job.result = job.success                                     ? result_completed
                 : job.fatal && job.exception->type == "cancel"  ? result_canceled
                 : job.fatal && job.exception->type == "timeout" ? result_timeout
                                                                 : result_failed;
    active_--;
    inactive_++;
    set_state(job, state_inactive, now);
    job.eventlog.finish();
    if (!job.exec_eventlog.finished())
        job.exec_eventlog.finish();
    if (!job.output.finished())
        job.output.finish();
    // Not needed any more, and the larger part of what a job takes.
    job.spec.environment = {};
    job.spec.files = {};
    // Not from here: the caller may still use the job.
    schedule_soon();
    if (inactive_ > inactive_jobs_max || (active_ == 0 && shut_down_done_))
        shut_down_timer_.start_in(0, [this] {
            purge();
            if (active_ == 0 && shut_down_done_)
                std::exchange(shut_down_done_, nullptr)();
        });
}

void Jobs::purge()
{
    for (auto it = jobs_.begin(); it != jobs_.end() && inactive_ > inactive_jobs_max;) {
        if (it->second->active()) {
            ++it;
        } else {
            it = jobs_.erase(it);
            inactive_--;
        }
    }
}

Job* Jobs::find(JobId id)
{
    auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : found->second.get();
}

void Jobs::set_urgency(Job& job, int urgency, std::uint32_t userid)
{
    job.urgency = urgency;
    post(job, "urgency", {{"userid", userid}, {"urgency", urgency}});
    if (job.state == state_sched)
        prioritize(job);
}

void Jobs::memo(Job& job, const Json& memo)
{
    post(job, "memo", memo);
    if (!job.annotations.is_object())
        job.annotations = Json::object();
    merge(job.annotations["user"], memo);
    if (job.annotations["user"].empty())
        job.annotations.erase("user");
    if (job.annotations.empty())
        job.annotations = nullptr;
}

void Jobs::set_duration(Job& job, double seconds)
{
    post(job, "jobspec-update", {{"attributes.system.duration", seconds}});
    if (!job.spec.submitted_duration)
        job.spec.submitted_duration = job.spec.duration;
    job.duration = seconds;
    job.spec.duration = seconds;
    job.spec.document["attributes"]["system"]["duration"] = seconds;
    if (job.state != state_run)
        return;
    set_expiration(job, seconds > 0 ? job.starttime + seconds : 0);
}

Result<> Jobs::signal(Job& job, int signum)
{
    if (!job.shell)
        return std::unexpected(Error{"job is not running", EINVAL});
    job.shell->signal(signum);
    return {};
}

Json Jobs::R(const Job& job) const
{
    if (job.allocation.empty())
        return nullptr;
    return pool_.job_R(job.allocation, job.starttime, job.expiration);
}

std::size_t Jobs::running() const
{
    return static_cast<std::size_t>(
        std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
            return (entry.second->state & state_running) != 0;
        }));
}

void Jobs::rank_lost(std::uint32_t rank)
{
    pool_.set_up(rank, false);
    for (auto& [id, job] : jobs_)
        if (job->shell && job->ranks.contains(rank))
            job->shell->rank_lost(rank);
}

void Jobs::rank_back(std::uint32_t rank)
{
    pool_.set_up(rank, true);
    schedule_soon();
}

void Jobs::set_expiration(double time)
{
    if (time == pool_.inventory().expiration)
        return;
    pool_.set_expiration(time);
    // Jobs without a time limit of their own last as long as the instance.
    for (auto& [id, job] : jobs_)
        if (job->state == state_run && job->duration <= 0)
            set_expiration(*job, time);
}

void Jobs::set_expiration(Job& job, double time)
{
    job.expiration = time;
    post(job, "resource-update", {{"expiration", time}});
    arm_limit(job);
    if (on_R)
        on_R(job);
}

void Jobs::shut_down(std::function<void()> done)
{
    shutting_down_ = true;
    shut_down_done_ = std::move(done);
    std::vector<Job*> left;
    for (auto& [id, job] : jobs_)
        if (job->active())
            left.push_back(job.get());
    for (auto* job : left)
        raise(*job, "cancel", 0, context_.router.owner(), "instance is shutting down");
    if (active_ == 0)
        shut_down_timer_.start_in(
            0, [this] { std::exchange(shut_down_done_, nullptr)(); });
}

} // namespace fluxdat::sandbox
