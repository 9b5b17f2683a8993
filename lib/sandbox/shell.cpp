// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/shell.h"

#include "lib/flux/fsd.h"
#include "lib/sandbox/boot_socket.h"
#include "lib/sandbox/mustache.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

constexpr int exit_not_found = 127, exit_not_executable = 126;     // sh(1)
constexpr int level_fatal = 0, level_error = 3, level_warning = 4; // RFC 24, log

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
    std::uint32_t rank = 0;       // of the job
    std::uint32_t local_id = 0;   // on its node
    std::uint32_t shell_rank = 0; // its node
    std::shared_ptr<Process> process;
    std::optional<int> status;
    bool eof[2] = {};
    LineBuffer lines[2];

    bool done() const { return status && eof[0] && eof[1]; }
    bool& at_eof(Stream stream) { return eof[stream == Stream::out ? 0 : 1]; }
};

// UID-shell-JOBID: takes the job's standard input, from flux-job-attach(1).
class Shell::Service : public Peer
{
public:
    Service(Shell& shell) : shell_(shell), route_(shell.service_name_)
    {
        registered_ =
            shell.context_.router.add_service(rank(), shell.service_name_, *this)
                .has_value();
    }
    ~Service() override
    {
        if (registered_)
            (void)shell_.context_.router.remove_service(rank(), route_, *this);
    }
    const std::string& route() const override { return route_; }
    std::uint32_t rank() const override { return shell_.ranks_.front(); }
    std::uint32_t userid() const override { return shell_.job_.userid; }

    void send(const Message& request) override
    {
        auto& router = shell_.context_.router;
        auto method = request.topic->substr(route_.size());
        if (method == ".disconnect")
            return;
        if (method != ".stdin") {
            router.fail(request, ENOSYS,
                        fmt::format("Unknown service method '{}'", *request.topic));
            return;
        }
        if (!(request.rolemask & flux::role_owner) && request.userid != userid()) {
            router.fail(request, EPERM);
            return;
        }
        auto io = flux::parse_json(request.payload_text());
        if (!io) {
            router.fail(request, EPROTO);
            return;
        }
        feed(*io);
        router.respond(request);
    }

private:
    void feed(const Json& io)
    {
        auto data = get_data(io);
        std::string ranks = io.value("rank", Json()).is_string()
                                ? io["rank"].get<std::string>()
                                : "all";
        auto some = ranks == "all" ? Result<Idset>{} : flux::parse_idset(ranks);
        auto eof = io.find("eof");
        for (const auto& task : shell_.tasks_) {
            if (!task->process
                || (ranks != "all" && (!some || !some->contains(task->rank))))
                continue;
            if (!data.empty())
                task->process->write(data);
            if (eof != io.end() && *eof == true)
                task->process->close_stdin();
        }
    }

    Shell& shell_;
    std::string route_;
    bool registered_ = false;
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
    auto post = [&](std::string_view name, Json context = nullptr) {
        job_.exec_eventlog.append(wall_clock(), name, context);
    };
    post("init");
    post("starting");
    events_.started();
    job_.output.append(
        wall_clock(), "header",
        {{"version", 1},
         {"encoding", {{"stdout", "UTF-8"}, {"stderr", "UTF-8"}}},
         {"count", {{"stdout", tasks_.size()}, {"stderr", tasks_.size()}}},
         {"options", Json::object()}});
    service_ = std::make_unique<Service>(*this);
    post("shell.init", {{"service", service_name_},
                        {"leader-rank", ranks_.front()},
                        {"size", ranks_.size()}});

    auto ready = make_directories();
    auto boot =
        ready ? open_boot_socket() : Result<int>(std::unexpected(ready.error()));
    if (!boot) {
        log(0, level_fatal, boot.error().message);
        events_.exception("exec", boot.error().message, std::nullopt);
        for (auto& task : tasks_) {
            task->status = 1 << 8;
            task->eof[0] = task->eof[1] = true;
        }
        done_timer_.start_in(0, [this] { finish(); });
        return;
    }
    bool all = true;
    for (auto& task : tasks_)
        all = start_task(*task, *boot) && all;
    ::close(*boot);
    if (!all)
        signal(SIGTERM); // also those that started after the first failure
    else
        post("shell.start", {{"taskmap", {{"version", 1}, {"map", taskmap()}}}});
    // A job none of whose tasks has started is over, but not before this returns.
    done_timer_.start_in(0, [this] {
        if (std::all_of(tasks_.begin(), tasks_.end(),
                        [](auto& task) { return task->done(); }))
            finish();
    });
}

Result<> Shell::make_directories()
{
    for (std::uint32_t i = 0; i < shell_size(); i++) {
        auto path = fmt::format("{}/jobtmp-{}-{}", context_.rundir, i, id_);
        if (mkdir(path.c_str(), 0700) < 0)
            return fail_errno(errno, fmt::format("cannot create {}", path));
        directories_.push_back(path);
        if (auto rc = write_files(path); !rc)
            return rc;
    }
    return {};
}

Result<> Shell::write_files(const std::string& directory) const
{
    for (const auto& file : job_.spec.files) {
        auto path = directory + "/" + file.path;
        if (file.symlink) {
            if (symlink(file.content.c_str(), path.c_str()) < 0)
                return fail_errno(errno, fmt::format("cannot create {}", path));
            continue;
        }
        int fd = ::open(path.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return fail_errno(errno, fmt::format("cannot create {}", path));
        std::string_view rest = file.content;
        bool good = fchmod(fd, file.mode) == 0;
        while (good && !rest.empty()) {
            auto n = ::write(fd, rest.data(), rest.size());
            good = n > 0;
            if (good)
                rest.remove_prefix(static_cast<std::size_t>(n));
        }
        int errnum = errno;
        ::close(fd);
        if (!good)
            return fail_errno(errnum, fmt::format("cannot write {}", path));
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

bool Shell::start_task(Task& task, int boot)
{
    const auto& host = context_.host(ranks_[task.shell_rank]);
    Command command;
    for (const auto& word : job_.spec.command)
        command.argv.push_back(render_mustache(
            word, [&](std::string_view name) { return mustache(task, name); }));
    command.environment = environment_of(task);
    command.cwd = job_.spec.cwd;
    if (!command.cwd.empty() && access(command.cwd.c_str(), X_OK) < 0) {
        log(task.shell_rank, level_error,
            fmt::format(
                "host {}: Could not change dir to {}: {}. Going to /tmp instead", host,
                command.cwd, std::strerror(errno)));
        command.cwd = "/tmp";
    }
    if (task.rank == 0)
        command.inherited_fd = boot;

    auto* self = &task;
    auto process = context_.children.start(
        command, {[this, self](Stream stream, std::string_view data) {
                      task_output(*self, stream, data);
                  },
                  [this, self](int status) { task_exited(*self, status); }});
    if (process) {
        task.process = std::move(*process);
        return true;
    }
    auto note = fmt::format("task {} (host {}): start failed: {}", task.rank, host,
                            process.error().message);
    log(task.shell_rank, level_fatal, note);
    int code = process.error().errnum == ENOENT ? exit_not_found : exit_not_executable;
    task.status = code << 8;
    task.eof[0] = task.eof[1] = true;
    events_.exception("exec", note, std::nullopt);
    return false;
}

Environment Shell::environment_of(const Task& task) const
{
    auto environment = job_.spec.environment;
    auto set = [&](std::string_view name, std::string_view value) {
        set_variable(environment, name, value);
    };
    auto path = variable(environment, "PATH");
    set("PATH", fmt::format("{}:{}", context_.bin_directory,
                            path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path));
    set("FLUX_URI", context_.local_uri(ranks_[task.shell_rank]));
    set("FLUX_JOB_ID", id_);
    set("FLUX_JOB_ID_PATH",
        context_.jobid_path == "/" ? "/" + id_ : context_.jobid_path + "/" + id_);
    set("FLUX_JOB_SIZE", std::to_string(tasks_.size()));
    set("FLUX_JOB_NNODES", std::to_string(ranks_.size()));
    set("FLUX_JOB_TMPDIR", directories_[task.shell_rank]);
    set("FLUX_TASK_RANK", std::to_string(task.rank));
    set("FLUX_TASK_LOCAL_ID", std::to_string(task.local_id));
    set(boot_variable, boot_socket_path(directories_.front()));
    for (const auto& entry : context_.environment) {
        auto equals = entry.find('=');
        set(entry.substr(0, equals), entry.substr(equals + 1));
    }
    return environment;
}

std::optional<std::string> Shell::mustache(const Task& task,
                                           std::string_view name) const
{
    auto rank = ranks_[task.shell_rank];
    if (name == "id" || name == "id.f58" || name == "jobid")
        return id_;
    if (name == "id.f58plain")
        return flux::format_jobid_ascii(job_.id);
    if (name == "id.dec")
        return std::to_string(job_.id);
    if (name == "id.hex")
        return fmt::format("0x{:x}", job_.id);
    if (name == "tmpdir")
        return directories_[task.shell_rank];
    if (name == "name")
        return job_.name;
    if (name == "nnodes")
        return std::to_string(ranks_.size());
    if (name == "size" || name == "ntasks")
        return std::to_string(tasks_.size());
    if (name == "taskid" || name == "task.id" || name == "task.rank")
        return std::to_string(task.rank);
    if (name == "task.index" || name == "task.localid")
        return std::to_string(task.local_id);
    if (name == "node.id")
        return std::to_string(task.shell_rank);
    if (name == "node.name")
        return context_.host(rank);
    if (name == "node.cores")
        return flux::format_idset(job_.allocation.at(rank).cores);
    if (name == "node.ncores")
        return std::to_string(job_.allocation.at(rank).cores.size());
    return std::nullopt;
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
        if (job_.output.bytes() > job_output_max) {
            if (!std::exchange(truncated_, true))
                log(task.shell_rank, level_warning,
                    fmt::format("output is truncated at {} bytes", job_output_max));
            return;
        }
        Json context = {{"stream", stream_name(stream)},
                        {"rank", std::to_string(task.rank)}};
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

void Shell::task_exited(Task& task, int status)
{
    task.status = status;
    if (!std::exchange(first_exit_seen_, true))
        first_exit(task);
    if (killed_)
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
                               {"pid", task.process->pid()},
                               {"wait_status", status},
                               {"signaled", signaled ? WTERMSIG(status) : 0},
                               {"exitcode", exit_code(status)}});
    if (tasks_.size() < 2 || job_.fatal)
        return;
    auto end = fmt::format("{}: task rank {} on host {}", job_.name, task.rank,
                           context_.host(ranks_[task.shell_rank]));
    auto doom = [this, status, shell_rank = task.shell_rank](const std::string& note) {
        log(shell_rank, level_fatal, note);
        events_.exception("exec", note, status);
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
    if (std::all_of(tasks_.begin(), tasks_.end(),
                    [](auto& other) { return other->done(); }))
        // Not from here: the process whose event this is belongs to this object.
        done_timer_.start_in(0, [this] { finish(); });
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
    for (auto& task : tasks_)
        if (task->process)
            task->process->kill(signum);
}

void Shell::terminate(int signum)
{
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
    if (critical)
        events_.exception(
            "exec",
            fmt::format("node failure on {} (rank {})", context_.host(rank), rank),
            std::nullopt);
}

} // namespace fluxdat::sandbox
