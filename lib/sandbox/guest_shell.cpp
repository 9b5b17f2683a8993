// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/guest_shell.h"

#include "lib/sandbox/jobs.h"
#include "lib/sandbox/shell.h"

#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

// A J may be larger than what a process' stdin is given at once.
constexpr std::size_t feed_size = 1u << 20; // bytes
// How long a job shell may take to end what its tasks have left, when all have ended.
constexpr double shell_linger = 10; // seconds

// RFC 15, "Signal Handling", and what IMPs hand on.
constexpr std::array imp_signals{SIGHUP,  SIGINT,  SIGQUIT, SIGALRM, SIGTERM,
                                 SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
constexpr int imp_kill = SIGUSR1; // SIGKILL for the job shell

enum Step { kill_tasks, kill_shell, kill_imp, give_up };

} // namespace

struct GuestShell::Node {
    Node(uv_loop_t* loop, ShellPlan its_plan, std::uint32_t its_rank)
        : plan(std::move(its_plan)), rank(its_rank), unended(plan.tasks.size()),
          press_timer(loop)
    {
    }

    ShellPlan plan;
    std::uint32_t rank; // of the instance
    std::shared_ptr<Process> imp;
    std::size_t fed = 0;       // bytes of the input
    std::optional<int> status; // of the IMP
    bool eof[2] = {};
    LineBuffer lines[2];
    bool told = false; // events_.ended

    std::optional<Ticket> shell; // its request for the plan
    bool asked = false, started = false;
    std::size_t unended; // tasks
    Timer press_timer;

    bool has(std::uint32_t task) const
    {
        return std::any_of(plan.tasks.begin(), plan.tasks.end(),
                           [&](const TaskPlace& place) { return place.rank == task; });
    }
};

GuestShell::GuestShell(const ExecContext& context, const Job& job,
                       std::vector<ShellPlan> plans, Events events)
    : context_(context), job_(job), events_(std::move(events)),
      input_(flux::dump_json({{"J", job.J}}))
{
    auto rank = job.allocation.begin();
    for (auto& plan : plans)
        nodes_.push_back(
            std::make_unique<Node>(context.loop, std::move(plan), (rank++)->first));
}

GuestShell::~GuestShell()
{
    for (auto& node : nodes_)
        if (node->imp)
            node->imp->kill(imp_kill);
}

Result<> GuestShell::start()
{
    for (auto& node : nodes_)
        if (auto rc = start_imp(*node); !rc)
            return fail("{}: cannot run the IMP {} (exec.imp): {}", node->plan.host,
                        context_.imp, std::strerror(rc.error().errnum));
    return {};
}

// As job-exec's: the broker's own, and which broker and job it is about.
Environment GuestShell::imp_environment(const Node& node) const
{
    Environment out;
    for (char** entry = environ; *entry; entry++)
        out.push_back(*entry);
    // The input comes on stdin, whatever the engine was started by.
    for (const char* name : {"FLUX_IMP_EXEC_HELPER", "FLUX_DAT_GRANTS", "FLUX_JOB_SIZE",
                             "FLUX_JOB_NNODES", "FLUX_JOB_ID_PATH", "FLUX_JOB_TMPDIR",
                             "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID"})
        unset_variable(out, name);
    set_variable(out, "FLUX_URI", context_.local_uri(node.rank));
    set_variable(out, "FLUX_JOB_ID", flux::format_jobid(job_.id));
    set_variable(out, "FLUX_KVS_NAMESPACE", fmt::format("job-{}", job_.id));
    // Each rank's own: its door may have what another's has not yet.
    if (auto grants = context_.grants(node.rank); !grants.empty())
        set_variable(out, "FLUX_DAT_GRANTS", grants);
    return out;
}

Result<> GuestShell::start_imp(Node& node)
{
    Command command;
    command.argv = {context_.imp, "exec", context_.job_shell, std::to_string(job_.id)};
    command.environment = imp_environment(node);
    auto* self = &node;
    auto process = context_.children.start(
        command, {[this, self](Stream stream, std::string_view data) {
                      imp_output(*self, stream, data);
                  },
                  [this, self](int status) {
                      self->status = status;
                      // What is left of the job may hold the IMP's stderr, and is not
                      // ours to end.
                      self->imp->abandon_output();
                      check_ended(*self);
                  }});
    if (!process)
        return std::unexpected(std::move(process.error()));
    node.imp = std::move(*process);
    feed(node);
    return {};
}

void GuestShell::feed(Node& node)
{
    auto rest = std::string_view(input_).substr(node.fed, feed_size);
    node.fed += rest.size();
    if (rest.empty())
        node.imp->close_stdin();
    else
        node.imp->write(
            rest, [this, self = &node, imp = std::weak_ptr(node.imp)](std::size_t) {
                if (!imp.expired()) // nor this
                    feed(*self);
            });
}

void GuestShell::imp_output(Node& node, Stream stream, std::string_view data)
{
    auto i = stream == Stream::out ? 0 : 1;
    auto tell = [&](std::string_view line) {
        if (imp_bytes_ > imp_output_max)
            return;
        imp_bytes_ += line.size();
        events_.imp(node.plan.shell_rank, stream, line);
    };
    if (!data.empty())
        return node.lines[i].feed(data, tell);
    node.lines[i].flush(tell);
    node.eof[i] = true;
    check_ended(node);
}

void GuestShell::check_ended(Node& node)
{
    if (!node.status || !node.eof[0] || !node.eof[1] || std::exchange(node.told, true))
        return;
    node.press_timer.stop();
    end_stream(node);
    events_.ended(node.plan.shell_rank, *node.status);
    if (ready_)
        check_started(); // the others do not wait for it
}

bool GuestShell::ended() const
{
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->told || !node->imp; });
}

void GuestShell::end_stream(Node& node)
{
    if (auto shell = std::exchange(node.shell, std::nullopt))
        context_.router.end(*shell);
}

// From the job shells

GuestShell::Node* GuestShell::node_of(const Request& request)
{
    auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& node) {
        return node->rank == request.rank;
    });
    return found == nodes_.end() ? nullptr : found->get();
}

void GuestShell::plan(const Request& request)
{
    auto& router = context_.router;
    auto* node = node_of(request);
    if (!node)
        return router.fail(request.message, ENOENT,
                           "the job has no tasks on this node");
    if (node->asked)
        return router.fail(request.message, EEXIST,
                           "the job has a job shell on this node already");
    if (ending_ || node->status)
        return router.fail(request.message, ECANCELED, "the job is ending");
    node->asked = true;
    node->shell = request.ticket();
    if (!std::all_of(nodes_.begin(), nodes_.end(),
                     [](const auto& other) { return other->asked; }))
        return;
    ready_ = true;
    events_.ready();
    for (auto& each : nodes_)
        if (each->shell)
            router.respond(*each->shell, {{"plan", to_json(each->plan)}});
}

void GuestShell::report(const Request& request)
{
    auto* node = node_of(request);
    // Only of the one that has the plan, and not of another program of the same user.
    if (!node || !node->shell || !ready_ || !same_sender(*node->shell, request.message))
        return context_.router.fail(request.message, EPERM);
    const auto& payload = request.payload;
    if (payload.contains("started"))
        return report_started(*node, payload["started"]);
    if (payload.contains("message"))
        return events_.log(node->plan.shell_rank,
                           flux::integer_at<int>(payload, "level"),
                           flux::text_at(payload, "message"));
    auto task = flux::integer_at<std::int64_t>(payload, "task", -1);
    if (task < 0 || task > UINT32_MAX || !node->has(static_cast<std::uint32_t>(task)))
        return context_.router.fail(request.message, EPROTO);
    report_task(*node, static_cast<std::uint32_t>(task), payload);
}

void GuestShell::report_started(Node& node, const Json& failures)
{
    if (std::exchange(node.started, true))
        return;
    if (failures.is_array())
        for (const auto& failure : failures) {
            auto task = flux::integer_at<std::int64_t>(failure, "task", -1);
            if (task < 0 || task > UINT32_MAX
                || !node.has(static_cast<std::uint32_t>(task)) || node.unended == 0)
                continue;
            node.unended--;
            events_.failed(static_cast<std::uint32_t>(task),
                           flux::integer_at<int>(failure, "errnum"),
                           flux::text_at(failure, "error"));
        }
    check_started();
    if (node.unended == 0)
        press(node, kill_shell, shell_linger);
}

void GuestShell::check_started()
{
    for (const auto& node : nodes_)
        if (!node->started && !node->told)
            return;
    if (std::exchange(all_started_, true))
        return;
    events_.started();
    for (const auto& node : nodes_)
        if (node->shell) {
            context_.router.respond(*node->shell, {{"go", true}});
            if (node->unended == 0)
                end_stream(*node);
        }
}

void GuestShell::report_task(Node& node, std::uint32_t task, const Json& report)
{
    if (report.contains("stream")) {
        auto stream =
            flux::text_at(report, "stream") == "stderr" ? Stream::err : Stream::out;
        if (auto data = get_data(report); !data.empty())
            events_.output(task, stream, data);
        if (report.value("eof", Json()) == true)
            events_.output(task, stream, {});
        return;
    }
    if (!report.contains("status") || node.unended == 0)
        return;
    node.unended--;
    events_.exited(task, flux::integer_at<pid_t>(report, "pid"),
                   flux::integer_at<int>(report, "status"));
    if (node.unended > 0)
        return;
    end_stream(node);
    press(node, kill_shell, shell_linger);
}

void GuestShell::forget(const Departure& departure)
{
    for (auto& node : nodes_) {
        if (!node->shell || !departure.concerns(*node->shell))
            continue;
        node->shell.reset();
        // It ends by itself, or has ended; else its user has stopped it.
        press(*node, kill_shell, context_.kill_timeout);
    }
}

// To the job

void GuestShell::write_stdin(const Json& io)
{
    for (auto& node : nodes_)
        if (node->shell && ready_)
            context_.router.respond(*node->shell, {{"stdin", io}});
}

void GuestShell::signal(Node& node, int signum)
{
    if (!node.imp || node.status)
        return;
    bool forwarded =
        std::find(imp_signals.begin(), imp_signals.end(), signum) != imp_signals.end();
    if (forwarded)
        node.imp->kill(signum);
    else if (node.shell && ready_)
        context_.router.respond(*node.shell, {{"signal", signum}});
    else if (signum == SIGKILL)
        node.imp->kill(imp_kill);
}

void GuestShell::signal(int signum)
{
    for (auto& node : nodes_)
        signal(*node, signum);
}

void GuestShell::terminate(int signum)
{
    ending_ = true;
    signal(signum);
    for (auto& node : nodes_) {
        if (!ready_ && node->shell)
            context_.router.fail(*std::exchange(node->shell, std::nullopt), ECANCELED,
                                 "the job is ending");
        press(*node, kill_tasks, context_.kill_timeout);
    }
}

void GuestShell::lose(std::uint32_t shell_rank)
{
    press(*nodes_[shell_rank], kill_shell, context_.kill_timeout);
}

// After the time, more force; and so on until the IMP has ended.
void GuestShell::press(Node& node, int step, double seconds)
{
    if (!node.imp || node.told)
        return;
    node.press_timer.start_in(seconds, [this, self = &node, step] {
        switch (step) {
        case kill_tasks:
            signal(*self, SIGKILL);
            break;
        case kill_shell:
            self->imp->kill(imp_kill);
            break;
        case kill_imp:
            self->imp->kill(SIGKILL);
            break;
        default:
            self->status = SIGKILL;
            self->eof[0] = self->eof[1] = true;
            return check_ended(*self);
        }
        press(*self, step + 1, context_.kill_timeout);
    });
}

GuestShells::GuestShells(Router& router, Jobs& jobs)
{
    auto method = [&](const char* topic, unsigned allow,
                      void (GuestShell::*member)(const Request&)) {
        router.method(
            topic, Router::Where::everywhere, allow,
            [&router, &jobs, member](const Request& request) {
                auto* job = jobs.find(flux::integer_at<JobId>(request.payload, "id"));
                if (job && job->userid != request.userid())
                    return router.fail(request.message, EPERM,
                                       "only the job's own user runs its job shell");
                auto* guests = job && job->shell ? job->shell->guests() : nullptr;
                if (!guests)
                    return router.fail(request.message, ENOENT,
                                       "there is no job that waits for a job shell");
                (guests->*member)(request);
            });
    };
    method(plan_topic, Router::guests | Router::streaming_only, &GuestShell::plan);
    method(report_topic, Router::guests, &GuestShell::report);
    router.on_departure([&jobs](const Departure& departure) {
        for (const auto& [id, job] : jobs.all())
            if (auto* guests = job->shell ? job->shell->guests() : nullptr)
                guests->forget(departure);
    });
}

} // namespace fluxdat::sandbox
