// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/shell.h"

#include "lib/flux/fsd.h"
#include "lib/sandbox/boot_socket.h"
#include "lib/sandbox/task_place.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

constexpr int level_fatal = 0, level_error = 3, level_warning = 4; // RFC 24, log
constexpr int node_failure_severity = 2; // not the job's end: as Flux

// As a shell shows it: 128 + signal.
int exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

std::string describe_end(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return strsignal(WTERMSIG(wait_status));
    return fmt::format("Exit {}", WEXITSTATUS(wait_status));
}

} // namespace

struct Shell::Task {
    std::uint32_t rank = 0;           // of the job
    std::uint32_t local_id = 0;       // on its node
    std::uint32_t shell_rank = 0;     // its node
    std::shared_ptr<Process> process; // null where a job shell has it
    pid_t pid = 0;
    std::optional<int> status;
    bool eof[2] = {};
    LineBuffer lines[2];

    bool done() const { return status && eof[0] && eof[1]; }
    bool& at_eof(Stream stream) { return eof[stream == Stream::out ? 0 : 1]; }
};

Shell::Shell(const ExecContext& context, Job& job, Events events)
    : context_(context), job_(job), events_(std::move(events)),
      id_(flux::format_jobid(job.id)),
      service_name_(
          fmt::format("{}-shell-{}", job.userid, flux::format_jobid_ascii(job.id))),
      exit_timer_(context.loop), kill_timer_(context.loop), done_timer_(context.loop)
{
    for (const auto& [rank, share] : job.allocation)
        ranks_.push_back(rank);
    plan();
}

Shell::~Shell()
{
    for (auto& task : tasks_)
        if (task->process)
            task->process->kill(SIGKILL);
    for (const auto& directory : directories_) {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }
}

std::uint32_t Shell::shell_size() const
{
    return static_cast<std::uint32_t>(ranks_.size());
}

// Which task runs where: block-wise, as flux-shell(1) does without a taskmap.
void Shell::plan()
{
    std::vector<std::uint32_t> counts;
    for (auto rank : ranks_)
        counts.push_back(
            job_.spec.tasks_per_node.value_or(job_.allocation[rank].slots));
    if (auto total = job_.spec.total_tasks; total && !job_.spec.tasks_per_node) {
        // As even as the slots of the nodes allow.
        std::vector<std::uint32_t> room = counts;
        std::fill(counts.begin(), counts.end(), 0u);
        for (std::uint32_t left = *total, i = 0; left > 0; i = (i + 1) % shell_size())
            if (counts[i] < room[i]) {
                counts[i]++;
                left--;
            }
    }
    std::uint32_t task_rank = 0;
    for (std::uint32_t i = 0; i < shell_size(); i++)
        for (std::uint32_t local = 0; local < counts[i]; local++) {
            auto task = std::make_unique<Task>();
            task->rank = task_rank++;
            task->local_id = local;
            task->shell_rank = i;
            tasks_.push_back(std::move(task));
        }
    job_.ntasks = tasks_.size();
}

void Shell::start()
{
    job_.exec_eventlog.append(wall_clock(), "init");
    job_.exec_eventlog.append(wall_clock(), "starting");
    events_.started();
    if (job_.userid == context_.router.owner())
        start_own();
    else
        start_guests();
}

void Shell::announce()
{
    job_.output.append(
        wall_clock(), "header",
        {{"version", 1},
         {"encoding", {{"stdout", "UTF-8"}, {"stderr", "UTF-8"}}},
         {"count", {{"stdout", tasks_.size()}, {"stderr", tasks_.size()}}},
         {"options", Json::object()}});
    service_ = std::make_unique<StdinService>(context_.router, service_name_,
                                              ranks_.front(), job_.userid,
                                              [this](const Json& io) { feed(io); });
    job_.exec_eventlog.append(wall_clock(), "shell.init",
                              {{"service", service_name_},
                               {"leader-rank", ranks_.front()},
                               {"size", ranks_.size()}});
}

void Shell::start_own()
{
    announce();
    auto ready = make_directories();
    auto boot =
        ready ? open_boot_socket() : Result<int>(std::unexpected(ready.error()));
    if (!boot) {
        log(0, level_fatal, boot.error().message);
        return fail_all(boot.error().message);
    }
    for (auto& task : tasks_)
        start_task(*task, *boot);
    ::close(*boot);
    if (any_failed_)
        signal(SIGTERM); // also those that started after the first failure
    else
        job_.exec_eventlog.append(wall_clock(), "shell.start",
                                  {{"taskmap", {{"version", 1}, {"map", taskmap()}}}});
    // A job none of whose tasks has started is over, but not before this returns.
    done_timer_.start_in(0, [this] { check_finished(); });
}

void Shell::start_guests()
{
    if (context_.imp.empty())
        return fail_all("exec.imp is not set in the instance's configuration: the job "
                        "of a guest needs an IMP to run it");
    std::vector<ShellPlan> plans(ranks_.size());
    for (std::uint32_t i = 0; i < shell_size(); i++) {
        auto place = place_of(i);
        plans[i] = {place.nnodes,     place.ntasks, i, place.host,
                    place.jobid_path, place.cores,  {}};
    }
    for (const auto& task : tasks_)
        plans[task->shell_rank].tasks.push_back({task->rank, task->local_id});
    GuestShell::Events events;
    events.ready = [this] { announce(); };
    events.started = [this] {
        if (!any_failed_)
            job_.exec_eventlog.append(
                wall_clock(), "shell.start",
                {{"taskmap", {{"version", 1}, {"map", taskmap()}}}});
    };
    events.failed = [this](std::uint32_t task, int errnum, const std::string& why) {
        task_failed(*tasks_[task], errnum, why);
        check_done(*tasks_[task]);
    };
    events.output = [this](std::uint32_t task, Stream stream, std::string_view data) {
        if (!tasks_[task]->at_eof(stream))
            task_output(*tasks_[task], stream, data);
    };
    events.exited = [this](std::uint32_t task, pid_t pid, int status) {
        if (!tasks_[task]->status)
            task_exited(*tasks_[task], pid, status);
    };
    events.log = [this](std::uint32_t shell_rank, int level,
                        const std::string& message) {
        log(shell_rank, level, message);
    };
    events.imp = [this](std::uint32_t shell_rank, Stream stream,
                        std::string_view line) {
        Json context = {
            {"component", std::filesystem::path(context_.imp).filename().string()},
            {"stream", stream_name(stream)},
            {"rank", std::to_string(ranks_[shell_rank])}};
        set_data(context, line);
        job_.exec_eventlog.append(wall_clock(), "log", context);
    };
    events.ended = [this](std::uint32_t shell_rank, int status) {
        imp_ended(shell_rank, status);
    };
    guests_ = std::make_unique<GuestShell>(context_, job_, std::move(plans),
                                           std::move(events));
    if (auto rc = guests_->start(); !rc) {
        fail_all(rc.error().message);
    }
}

// The job ends before any of its tasks has started.
void Shell::fail_all(const std::string& note)
{
    for (auto& task : tasks_) {
        task->status = 1 << 8;
        task->eof[0] = task->eof[1] = true;
    }
    events_.exception("exec", 0, note, std::nullopt);
    done_timer_.start_in(0, [this] { check_finished(); });
}

// The IMP refused, or its job shell has ended, maybe before its tasks.
void Shell::imp_ended(std::uint32_t shell_rank, int status)
{
    // Where one refuses, the others are told to end, and how they do is nobody's fault.
    status = refusal_.value_or(status);
    bool early = false;
    for (auto& task : tasks_) {
        if (task->shell_rank != shell_rank || task->done())
            continue;
        early = early || !task->status;
        task->status = task->status.value_or(status);
        task->eof[0] = task->eof[1] = true;
    }
    if (early && !guests_->ready() && shell_size() > 1 && !job_.fatal) {
        refusal_ = status;
        events_.exception("exec", 0,
                          fmt::format("{} (ranks {}) terminated before first barrier",
                                      host_of(shell_rank), shell_rank),
                          std::nullopt);
    }
    if (early && guests_->ready() && !job_.fatal
        && context_.router.up(ranks_[shell_rank])) {
        auto note = fmt::format("shell rank {} (on {}): {}", shell_rank,
                                host_of(shell_rank), describe_end(status));
        log(0, level_warning, note);
        events_.exception("node-failure", node_failure_severity, note, std::nullopt);
    }
    post_leader_exit();
    // Not from here: the IMP whose event this is belongs to this object.
    done_timer_.start_in(0, [this] { check_finished(); });
}

Result<> Shell::make_directories()
{
    for (std::uint32_t i = 0; i < shell_size(); i++) {
        auto path = fmt::format("{}/jobtmp-{}-{}", context_.rundir, i, id_);
        if (mkdir(path.c_str(), 0700) < 0)
            return fail_errno(errno, fmt::format("cannot create {}", path));
        directories_.push_back(path);
        if (auto rc = write_job_files(job_.spec.files, path); !rc)
            return rc;
    }
    return {};
}

// Where the brokers of this job, if it is an instance, find each other. It exists
// before any of them does, so that none has to wait for another to create it; task 0
// gets the listening end.
Result<int> Shell::open_boot_socket() const
{
    return listen_for_boot(boot_socket_path(directories_.front()));
}

const std::string& Shell::host_of(std::uint32_t shell_rank) const
{
    return context_.host(ranks_[shell_rank]);
}

NodePlace Shell::place_of(std::uint32_t shell_rank) const
{
    auto rank = ranks_[shell_rank];
    return {job_.id,
            job_.name,
            context_.jobid_path == "/" ? "/" + id_ : context_.jobid_path + "/" + id_,
            shell_size(),
            static_cast<std::uint32_t>(tasks_.size()),
            shell_rank,
            context_.host(rank),
            job_.allocation.at(rank).cores,
            shell_rank < directories_.size() ? directories_[shell_rank] : "",
            context_.local_uri(rank)};
}

void Shell::start_task(Task& task, int boot)
{
    auto place = place_of(task.shell_rank);
    Command command;
    command.argv = task_command(job_.spec.command, place, {task.rank, task.local_id});
    command.environment = environment_of(task);
    auto cwd = working_directory(job_.spec.cwd, place.host);
    if (!cwd.complaint.empty())
        log(task.shell_rank, level_error, cwd.complaint);
    command.cwd = cwd.path;
    if (task.rank == 0)
        command.inherited_fd = boot;

    auto* self = &task;
    auto process = context_.children.start(
        command, {[this, self](Stream stream, std::string_view data) {
                      task_output(*self, stream, data);
                  },
                  [this, self](int status) {
                      task_exited(*self, self->process->pid(), status);
                  }});
    if (process)
        task.process = std::move(*process);
    else
        task_failed(task, process.error().errnum, process.error().message);
}

void Shell::task_failed(Task& task, int errnum, const std::string& why)
{
    any_failed_ = true;
    auto note = start_failure(task.rank, host_of(task.shell_rank), why);
    log(task.shell_rank, level_fatal, note);
    task.status = start_failure_status(errnum);
    task.eof[0] = task.eof[1] = true;
    events_.exception("exec", 0, note, std::nullopt);
}

Environment Shell::environment_of(const Task& task) const
{
    auto environment = job_.spec.environment;
    auto path = variable(environment, "PATH");
    auto with_flux = fmt::format("{}:{}", context_.bin_directory,
                                 path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path);
    set_variable(environment, "PATH", with_flux);
    set_task_environment(environment, place_of(task.shell_rank),
                         {task.rank, task.local_id});
    set_variable(environment, boot_variable, boot_socket_path(directories_.front()));
    for (const auto& entry : context_.environment) {
        auto equals = entry.find('=');
        set_variable(environment, entry.substr(0, equals), entry.substr(equals + 1));
    }
    return environment;
}

// Of an I/O object's bytes, what is for each task.
void Shell::feed(const Json& io)
{
    bool fits = stdin_bytes_ <= job_stdin_max;
    stdin_bytes_ += get_data(io).size();
    if (stdin_bytes_ > job_stdin_max) {
        if (!fits || job_.fatal)
            return;
        auto note = fmt::format("stdin exceeds {}M limit: have the command read a file",
                                job_stdin_max >> 20);
        log(0, level_fatal, note);
        return events_.exception("exec", 0, note, 1 << 8);
    }
    if (guests_)
        return guests_->write_stdin(io);
    for (const auto& task : tasks_)
        if (task->process)
            write_stdin(*task->process, task->rank, io);
}

// RFC 34: blocks of [first node, nodes, tasks a node, repeats].
Json Shell::taskmap() const
{
    std::vector<std::uint32_t> counts(shell_size());
    for (const auto& task : tasks_)
        counts[task->shell_rank]++;
    Json map = Json::array();
    for (std::uint32_t i = 0; i < counts.size();) {
        std::uint32_t end = i;
        while (end < counts.size() && counts[end] == counts[i])
            end++;
        if (counts[i] > 0)
            map.push_back({i, end - i, counts[i], 1});
        i = end;
    }
    return map;
}

void Shell::log(std::uint32_t shell_rank, int level, std::string message)
{
    job_.output.append(wall_clock(), "log",
                       {{"rank", shell_rank}, {"level", level}, {"message", message}});
}

void Shell::task_output(Task& task, Stream stream, std::string_view data)
{
    auto& lines = task.lines[stream == Stream::out ? 0 : 1];
    auto post = [&](std::string_view line) {
        // Short lines take many times their bytes in events.
        if (truncated_ || output_bytes_ + line.size() > job_output_max
            || job_.output.bytes() > job_output_max / 2 * 3) {
            if (!std::exchange(truncated_, true))
                log(task.shell_rank, level_warning,
                    fmt::format("output is truncated after {} bytes", output_bytes_));
            return;
        }
        Json context = {{"stream", stream_name(stream)},
                        {"rank", std::to_string(task.rank)}};
        output_bytes_ += line.size();
        set_data(context, line);
        job_.output.append(wall_clock(), "data", context);
    };
    if (!data.empty()) {
        lines.feed(data, post);
        return;
    }
    lines.flush(post);
    job_.output.append(wall_clock(), "data",
                       {{"stream", stream_name(stream)},
                        {"rank", std::to_string(task.rank)},
                        {"eof", true}});
    task.at_eof(stream) = true;
    check_done(task);
}

void Shell::task_exited(Task& task, pid_t pid, int status)
{
    task.pid = pid;
    task.status = status;
    if (!std::exchange(first_exit_seen_, true))
        first_exit(task);
    if (killed_ && task.process)
        task.process->abandon_output();
    check_done(task);
}

// What the end of the first task means for the others: exit-timeout and exit-on-error
// of flux-shell(1).
void Shell::first_exit(const Task& task)
{
    int status = *task.status;
    bool signaled = WIFSIGNALED(status);
    job_.exec_eventlog.append(wall_clock(), "shell.task-exit",
                              {{"localid", task.local_id},
                               {"rank", task.rank},
                               {"state", "Exited"},
                               {"pid", task.pid},
                               {"wait_status", status},
                               {"signaled", signaled ? WTERMSIG(status) : 0},
                               {"exitcode", exit_code(status)}});
    if (tasks_.size() < 2 || job_.fatal)
        return;
    auto end = fmt::format("{}: task rank {} on host {}", job_.name, task.rank,
                           host_of(task.shell_rank));
    auto doom = [this, status, shell_rank = task.shell_rank](const std::string& note) {
        log(shell_rank, level_fatal, note);
        events_.exception("exec", 0, note, status);
    };
    if (status != 0 && job_.spec.exit_on_error) {
        doom(fmt::format("{} failed ({}) and exit-on-error is set", end,
                         describe_end(status)));
        return;
    }
    const auto& timeout = job_.spec.exit_timeout;
    auto seconds = timeout == "none" ? Result<double>(0) : flux::parse_fsd(timeout);
    if (timeout == "none" || !seconds)
        return;
    exit_timer_.start_in(
        *seconds,
        [doom, note = fmt::format("{} exited ({}) and exit-timeout={} has "
                                  "expired",
                                  end, describe_end(status), timeout)] { doom(note); });
}

int Shell::shell_status(std::uint32_t shell_rank) const
{
    int code = 0;
    for (const auto& task : tasks_)
        if (task->shell_rank == shell_rank && task->status)
            code = std::max(code, exit_code(*task->status));
    return code << 8;
}

void Shell::check_done(Task& task)
{
    if (!task.done())
        return;
    post_leader_exit();
    // Not from here: the process whose event this is belongs to this object.
    done_timer_.start_in(0, [this] { check_finished(); });
}

void Shell::check_finished()
{
    if (std::all_of(tasks_.begin(), tasks_.end(),
                    [](auto& task) { return task->done(); })
        && (!guests_ || guests_->ended()))
        finish();
}

// RFC 50, "Shell-exit Event": once, when the first node's tasks are done.
void Shell::post_leader_exit()
{
    Idset active;
    for (const auto& task : tasks_)
        if (!task->done())
            active.insert(ranks_[task->shell_rank]);
    if (leader_done_ || active.contains(ranks_.front()))
        return;
    leader_done_ = true;
    Json context = {{"rank", ranks_.front()}, {"wait_status", shell_status(0)}};
    if (!active.empty())
        context["active_ranks"] = flux::format_idset(active);
    job_.exec_eventlog.append(wall_clock(), "shell-exit", context);
}

void Shell::finish()
{
    post_leader_exit();
    int status = 0;
    for (std::uint32_t i = 0; i < shell_size(); i++)
        status = std::max(status, shell_status(i));
    auto finished = std::move(events_.finished);
    finished(status); // destroys this
}

void Shell::signal(int signum)
{
    if (guests_)
        return guests_->signal(signum);
    for (auto& task : tasks_)
        if (task->process)
            task->process->kill(signum);
}

void Shell::terminate(int signum)
{
    if (guests_)
        return guests_->terminate(signum);
    signal(signum);
    kill_timer_.start_in(context_.kill_timeout, [this] {
        killed_ = true;
        signal(SIGKILL);
        // A pipe that a process outside of the task's group still holds does not keep
        // the job.
        for (auto& task : tasks_)
            if (task->status && task->process)
                task->process->abandon_output();
    });
}

void Shell::rank_lost(std::uint32_t rank)
{
    auto found = std::find(ranks_.begin(), ranks_.end(), rank);
    if (found == ranks_.end())
        return;
    auto shell_rank = static_cast<std::uint32_t>(found - ranks_.begin());
    if (shell_rank == 0)
        service_.reset();
    log(0, level_warning,
        fmt::format("node failure on {} (shell rank {})", context_.host(rank),
                    shell_rank));
    bool critical = !job_.critical_ranks || job_.critical_ranks->contains(shell_rank);
    for (auto& task : tasks_)
        if (task->shell_rank == shell_rank && task->process) {
            task->process->kill(SIGKILL);
            if (task->status)
                task->process->abandon_output();
        }
    if (guests_)
        guests_->lose(shell_rank);
    if (critical)
        events_.exception(
            "exec", 0,
            fmt::format("node failure on {} (rank {})", context_.host(rank), rank),
            std::nullopt);
}

} // namespace fluxdat::sandbox
