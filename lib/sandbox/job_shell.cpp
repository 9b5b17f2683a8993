// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/job_shell.h"

#include "lib/flux/services.h"
#include "lib/imp/sign_site.h"
#include "lib/sandbox/output.h"
#include "lib/sandbox/shell_wire.h"
#include "lib/sandbox/stdin_service.h"
#include "lib/say.h"
#include "paths.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

// How long what the tasks have left running may take to end, before it is killed.
constexpr double orphan_grace = 2; // seconds
constexpr int level_error = 3;     // RFC 24, log
constexpr mode_t task_umask = 022; // not what the instance's owner happens to have

constexpr std::array forwarded{SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGTERM, SIGCONT};

int exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

struct Task {
    TaskPlace place;
    std::shared_ptr<Process> process;
    bool exited = false;
};

// The job's temporary directory on this node, removed at the end.
class JobDirectory
{
public:
    ~JobDirectory()
    {
        std::error_code ignored;
        if (!path_.empty())
            std::filesystem::remove_all(path_, ignored);
    }
    // In the TMPDIR that the job's user has signed, where that is usable. The name is
    // Flux's, and something random: the nodes of a sandbox share their /tmp.
    Result<> create(const Environment& environment, const std::string& name)
    {
        std::string wanted(variable(environment, "TMPDIR"));
        int errnum = 0;
        for (const std::string& parent : {wanted, std::string("/tmp")}) {
            if (!parent.starts_with('/'))
                continue;
            path_ = fmt::format("{}/{}-XXXXXX", parent, name);
            if (mkdtemp(path_.data()))
                return {};
            errnum = errno;
        }
        return fail_errno(errnum,
                          fmt::format("cannot create {}", std::exchange(path_, {})));
    }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

class JobShell
{
public:
    JobShell(JobId id, std::string sign_pattern)
        : id_(id), sign_pattern_(std::move(sign_pattern)), children_(loop_.uv())
    {
    }
    int run();

private:
    flux::Task<Result<>> prepare();
    flux::Task<int> follow();
    Result<> start(const Json& answer);
    void start_task(const TaskPlace& place, Json& failures);
    void report(Json what);
    void send_held();
    void task_output(const Task& task, Stream stream, std::string_view data);
    void task_exited(Task& task, int status);
    void feed(const Json& io);
    void signal_tasks(int signum);
    void on_signal(int signum);
    int complain(const std::string& message);

    JobId id_;
    std::string sign_pattern_;
    flux::Loop loop_;
    Children children_;
    flux::Interrupt interrupt_; // raised by a signal that comes before there are tasks
    int early_signal_ = 0;
    std::unique_ptr<flux::Connection> flux_;
    std::string uri_;
    Jobspec spec_;
    NodePlace node_;
    JobDirectory directory_;
    std::vector<std::unique_ptr<Task>> tasks_;
    bool started_ = false;
    bool go_ = false;        // the engine takes reports
    std::vector<Json> held_; // until then
    std::size_t output_ = 0; // bytes reported
    bool killed_ = false;    // SIGKILL was sent
    int exit_code_ = 0;
    double grace_ = orphan_grace;
};

int JobShell::complain(const std::string& message)
{
    say(stderr, "flux-dat-shell: {}\n", message);
    return 1;
}

// Up to the jobspec, without which nothing is asked for.
flux::Task<Result<>> JobShell::prepare()
{
    // The environment is the instance's owner's. What an ssh URI stands for is a
    // command that the environment names, and it would be run as the guest.
    const char* uri = std::getenv("FLUX_URI");
    uri_ = uri ? uri : "";
    if (!uri_.starts_with("local:///"))
        co_return fail("FLUX_URI is not the local:///PATH of a broker: this program is "
                       "for an IMP to start");
    auto opened = co_await flux::Connection::open(loop_, uri_, &interrupt_);
    if (!opened)
        co_return std::unexpected(std::move(opened.error()));
    flux_ = std::move(*opened);
    auto J = co_await flux::lookup(*flux_, id_, "J");
    if (!J)
        co_return fail("cannot get the job's J: {}", J.error().message);
    auto spec = verified_jobspec(*J, getuid(), sign_pattern_);
    if (!spec)
        co_return std::unexpected(std::move(spec.error()));
    spec_ = std::move(*spec);
    co_return Result<>{};
}

flux::Task<int> JobShell::follow()
{
    auto ready = co_await prepare();
    if (early_signal_)
        co_return 128 + early_signal_;
    if (!ready)
        co_return complain(ready.error().message);
    Json request = {{"id", id_}};
    auto stream = flux_->stream(plan_topic, std::move(request));
    while (true) {
        auto answer = co_await stream.next(started_ ? nullptr : &interrupt_);
        if (!answer && early_signal_)
            co_return 128 + early_signal_;
        if (!answer) {
            signal_tasks(SIGKILL);
            grace_ = 0;
            co_return complain(answer.error().message);
        }
        if (!*answer)
            co_return exit_code_;
        const auto& message = **answer;
        if (message.contains("plan") && !started_) {
            auto rc = start(message["plan"]);
            if (!rc)
                co_return complain(rc.error().message);
        } else if (message.contains("go")) {
            send_held();
        } else if (message.contains("signal")) {
            signal_tasks(flux::integer_at<int>(message, "signal"));
        } else if (message.contains("stdin")) {
            feed(message["stdin"]);
        }
    }
}

Result<> JobShell::start(const Json& answer)
{
    auto plan = parse_plan(answer);
    if (!plan)
        return std::unexpected(std::move(plan.error()));
    auto name = fmt::format("jobtmp-{}-{}", plan->shell_rank, flux::format_jobid(id_));
    if (auto rc = directory_.create(spec_.environment, name); !rc)
        return rc;
    if (auto rc = write_job_files(spec_.files, directory_.path()); !rc)
        return rc;
    node_ = {id_,          spec_.name,   plan->jobid_path,
             plan->nnodes, plan->ntasks, plan->shell_rank,
             plan->host,   plan->cores,  directory_.path(),
             uri_};
    started_ = true;
    Json failures = Json::array();
    for (const auto& place : plan->tasks)
        start_task(place, failures);
    // What is held waits for all nodes; this is what they wait for.
    Json started = {{"id", id_}, {"started", std::move(failures)}};
    flux_->send(report_topic, std::move(started));
    return {};
}

void JobShell::start_task(const TaskPlace& place, Json& failures)
{
    tasks_.push_back(std::make_unique<Task>());
    auto* task = tasks_.back().get();
    task->place = place;
    Command command;
    command.argv = task_command(spec_.command, node_, place);
    command.environment = spec_.environment;
    set_task_environment(command.environment, node_, place);
    auto cwd = working_directory(spec_.cwd, node_.host);
    if (!cwd.complaint.empty())
        report({{"level", level_error}, {"message", cwd.complaint}});
    command.cwd = cwd.path;
    auto process = children_.start(
        command, {[this, task](Stream stream, std::string_view data) {
                      task_output(*task, stream, data);
                  },
                  [this, task](int status) { task_exited(*task, status); }});
    if (process) {
        task->process = std::move(*process);
        return;
    }
    task->exited = true;
    int errnum = process.error().errnum;
    exit_code_ = std::max(exit_code_, exit_code(start_failure_status(errnum)));
    failures.push_back(
        {{"task", place.rank}, {"errnum", errnum}, {"error", process.error().message}});
}

void JobShell::report(Json what)
{
    if (!go_) {
        held_.push_back(std::move(what));
        return;
    }
    what["id"] = id_;
    flux_->send(report_topic, std::move(what));
}

void JobShell::send_held()
{
    go_ = true;
    for (auto& what : std::exchange(held_, {}))
        report(std::move(what));
}

void JobShell::task_output(const Task& task, Stream stream, std::string_view data)
{
    Json what = {{"task", task.place.rank}, {"stream", stream_name(stream)}};
    if (data.empty()) {
        what["eof"] = true;
    } else {
        // Bounds what is held here, and what the engine is bothered with.
        if (output_ > job_output_max)
            return;
        output_ += data.size();
        set_data(what, data);
    }
    report(std::move(what));
}

void JobShell::task_exited(Task& task, int status)
{
    task.exited = true;
    exit_code_ = std::max(exit_code_, exit_code(status));
    report(
        {{"task", task.place.rank}, {"pid", task.process->pid()}, {"status", status}});
    if (killed_)
        task.process->abandon_output();
}

void JobShell::feed(const Json& io)
{
    for (const auto& task : tasks_)
        if (task->process)
            write_stdin(*task->process, task->place.rank, io);
}

void JobShell::signal_tasks(int signum)
{
    if (signum <= 0 || signum >= NSIG)
        return;
    killed_ = killed_ || signum == SIGKILL;
    for (const auto& task : tasks_)
        if (task->process) {
            task->process->kill(signum);
            // A pipe that others hold does not keep a job that is killed.
            if (killed_ && task->exited)
                task->process->abandon_output();
        }
}

// From the IMP, which has it from the instance's owner.
void JobShell::on_signal(int signum)
{
    if (started_)
        return signal_tasks(signum);
    if (signum == SIGCONT)
        return;
    early_signal_ = signum;
    interrupt_.raise(Error{strsignal(signum), ECANCELED});
}

int JobShell::run()
{
    std::function<void(int)> handle = [this](int signum) { on_signal(signum); };
    std::array<uv_signal_t*, forwarded.size()> handlers;
    for (std::size_t i = 0; i < forwarded.size(); i++) {
        handlers[i] = new uv_signal_t;
        uv_signal_init(loop_.uv(), handlers[i]);
        handlers[i]->data = &handle;
        uv_signal_start(
            handlers[i],
            [](uv_signal_t* uv, int signum) {
                if (uv->data)
                    (*static_cast<std::function<void(int)>*>(uv->data))(signum);
            },
            forwarded[i]);
    }
    int status = loop_.run(follow());
    // Only the job's own user can end what its tasks have left behind, and the IMP
    // waits for nobody but this process.
    bool drained = false;
    children_.drain(grace_, [&] {
        drained = true;
        uv_stop(loop_.uv());
    });
    while (!drained)
        uv_run(loop_.uv(), UV_RUN_DEFAULT);
    tasks_.clear();
    flux_.reset();
    for (auto* handler : handlers)
        HandleDeleter<uv_signal_t>{}(handler);
    return status;
}

} // namespace

const char* const job_shell_path = FLUX_DAT_LIBEXECDIR "/flux-dat/flux-dat-shell";

Result<Jobspec> verified_jobspec(std::string_view J, uid_t userid,
                                 const std::string& sign_pattern)
{
    auto site = imp::read_sign_config(sign_pattern, 0);
    if (!site)
        return fail("cannot verify the job's signature: {}", site.error().message);
    // With mechanism "none" the owner could make up any job of this user's.
    site->policy.allowed = {imp::Mechanism::munge};
    auto verified = imp::sign_unwrap(J, site->policy);
    if (!verified)
        return fail("the job's signature is not good: {}", verified.error().message);
    if (verified->userid != userid)
        return fail("the job was signed by uid {}, and not by uid {} who is to run it",
                    verified->userid, userid);
    return parse_jobspec(verified->payload);
}

int job_shell_main(int argc, char** argv, const std::string& sign_pattern)
{
    auto refuse = [](const std::string& message) {
        say(stderr, "flux-dat-shell: {}\n", message);
        return 1;
    };
    if (argc != 2)
        return refuse("usage: flux-dat-shell JOBID (an IMP starts it)");
    auto id = flux::parse_jobid(argv[1]);
    if (!id)
        return refuse(id.error().message);
    if (getuid() == 0)
        return refuse("a job is not run as root");
    std::signal(SIGPIPE, SIG_IGN);
    umask(task_umask);
    return JobShell(*id, sign_pattern).run();
}

} // namespace fluxdat::sandbox
