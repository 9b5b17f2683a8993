// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/broker.h"

#include "lib/flux/services.h"
#include "lib/program.h"
#include "lib/sandbox/boot_server.h"
#include "lib/sandbox/boot_socket.h"
#include "lib/sandbox/broker_options.h"
#include "lib/sandbox/config.h"
#include "lib/sandbox/instance.h"
#include "lib/sandbox/rundir.h"
#include "lib/say.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

// How long what the initial program and the jobs left running may take to end by
// itself, before it is killed.
constexpr double orphan_grace = 2; // seconds

std::string variable_or_empty(const char* name)
{
    const char* value = std::getenv(name);
    return value ? value : "";
}

int complain(const std::string& message)
{
    say(stderr, "flux-broker: {}\n", message);
    return 1;
}

// The process's place in the job.
struct Place {
    std::uint32_t rank;
    std::uint32_t size;
    std::string boot; // path of the boot socket
};

Result<Place> find_place()
{
    auto number = [](const char* name) -> Result<std::uint32_t> {
        auto text = variable_or_empty(name);
        char* end;
        errno = 0;
        auto value = std::strtoul(text.c_str(), &end, 10);
        if (text.empty() || *end || errno || value > UINT32_MAX)
            return fail("{} is not set: this broker of the sandbox runs only as a job "
                        "of one",
                        name);
        return static_cast<std::uint32_t>(value);
    };
    auto rank = number("FLUX_TASK_RANK");
    auto size = number("FLUX_JOB_SIZE");
    if (!rank || !size)
        return std::unexpected((rank ? size : rank).error());
    Place place{*rank, *size, variable_or_empty(boot_variable)};
    if (place.boot.empty() || place.rank >= place.size)
        return fail("{} is not set: this broker of the sandbox runs only as a job of "
                    "one",
                    boot_variable);
    return place;
}

// The path in "-Slocal-uri=local://PATH"; empty when there is none.
Result<std::string> socket_option(const BrokerOptions& options)
{
    auto found = options.attributes.find("local-uri");
    if (found == options.attributes.end())
        return std::string();
    if (!found->second.starts_with("local:///"))
        return fail("local-uri: must be local:///PATH, not {}", found->second);
    return found->second.substr(std::string_view("local://").size());
}

// Ranks other than 0: say so, then wait to be told to go.
int stand_for_node(const Place& place, const BrokerOptions& options)
{
    auto socket = socket_option(options);
    if (!socket)
        return complain(socket.error().message);
    auto fd = connect_for_boot(place.boot);
    if (!fd)
        return complain(fd.error().message);
    // As a broker that is told to end: its node leaves the instance.
    for (int signum : {SIGTERM, SIGINT, SIGHUP, SIGALRM})
        std::signal(signum, [](int) { _exit(0); });
    auto hello = format_hello(
        {place.rank, getpid(), *socket, variable_or_empty("FLUX_DAT_GRANTS")});
    if (::write(*fd, hello.data(), hello.size()) != static_cast<ssize_t>(hello.size()))
        return complain("rank 0 is gone");
    std::string text;
    std::array<char, 4096> buffer;
    while (true) {
        auto n = ::read(*fd, buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return complain(
                fmt::format("rank {}: lost contact with rank 0", place.rank));
        text.append(buffer.data(), static_cast<std::size_t>(n));
        for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
            auto line = text.substr(0, end);
            text.erase(0, end + 1);
            if (line.starts_with(boot_error))
                return complain(line.substr(boot_error.size()));
            if (line.starts_with(boot_exit))
                return std::atoi(line.c_str() + boot_exit.size());
        }
    }
}

// The instance that a job is, in the process of its rank 0.
class JobInstance
{
public:
    JobInstance(Place place, BrokerOptions options)
        : place_(std::move(place)), options_(std::move(options)), children_(loop_.uv())
    {
    }
    int run();

private:
    flux::Task<Result<>> open();
    flux::Task<Result<InstanceOptions>> describe();
    flux::Task<void> tell_parent();
    flux::Task<void> follow_expiration();
    Result<> join(const BootHello& hello);
    void rank_is_up();
    Result<> start_program();
    void program_exited(int status);
    void on_signal(int signum);
    void shut_down(int exit_code);
    std::string command_line() const;

    Place place_;
    BrokerOptions options_;
    flux::Loop loop_;
    Children children_;
    Rundir rundir_;
    std::unique_ptr<flux::Connection> parent_;
    flux::JobId jobid_ = 0; // in the parent
    std::unique_ptr<Instance> instance_;
    std::unique_ptr<BootServer> boot_;
    std::shared_ptr<Process> program_;
    double program_started_ = 0;
    flux::Interrupt parent_interrupt_; // ends what waits for the parent
    bool following_ = false;
    bool program_was_started_ = false;
    bool ending_ = false;
    int exit_code_ = 0;
};

// As Flux's broker logs to its stderr.
void log_error(const std::string& message)
{
    double now = wall_clock();
    auto seconds = static_cast<time_t>(now);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    char text[64];
    strftime(text, sizeof(text), "%b %d %H:%M:%S", &utc);
    say(stderr, "{}.{:06} UTC {} broker.err[0]: {}\n", text,
        static_cast<long>((now - static_cast<double>(seconds)) * 1e6),
        1900 + utc.tm_year, message);
}

flux::Task<Result<InstanceOptions>> JobInstance::describe()
{
    InstanceOptions out;
    if (!options_.config_path.empty()) {
        auto config = load_config(options_.config_path);
        if (!config)
            co_return std::unexpected(std::move(config.error()));
        out.config = std::move(*config);
    }
    out.parent_uri = variable_or_empty("FLUX_URI");
    out.jobid = variable_or_empty("FLUX_JOB_ID");
    out.jobid_path = variable_or_empty("FLUX_JOB_ID_PATH");
    auto id = flux::parse_jobid(out.jobid);
    if (!id)
        co_return fail("FLUX_JOB_ID: {}", id.error().message);
    jobid_ = *id;
    auto parent = co_await flux::Connection::open(loop_, out.parent_uri);
    if (!parent)
        co_return std::unexpected(std::move(parent.error()));
    parent_ = std::move(*parent);
    auto level = co_await flux::attribute_number(*parent_, "instance-level");
    if (!level)
        co_return std::unexpected(std::move(level.error()));
    out.level = *level + 1;
    auto R = co_await flux::lookup(*parent_, jobid_, "R");
    auto json = R ? flux::parse_json(*R) : Result<Json>(std::unexpected(R.error()));
    auto inventory = json ? inventory_from_R(*json)
                          : Result<Inventory>(std::unexpected(json.error()));
    if (!inventory)
        co_return fail("cannot get the job's resources: {}", inventory.error().message);
    if (inventory->nodes.size() != place_.size)
        co_return fail("a broker on each of {} nodes is needed, but the job has {} "
                       "tasks",
                       inventory->nodes.size(), place_.size);
    out.inventory = std::move(*inventory);
    out.rundir = rundir_.path();
    out.program = program_path();
    out.attributes = options_.attributes;
    out.job_environment = session_environment();
    co_return out;
}

flux::Task<Result<>> JobInstance::open()
{
    auto socket = socket_option(options_);
    if (!socket)
        co_return std::unexpected(std::move(socket.error()));
    // All ranks are started by the same command line: with a local-uri, or without.
    auto rundir = Rundir::create(socket->empty() ? Rundir::Sockets::inside
                                                 : Rundir::Sockets::elsewhere);
    if (!rundir)
        co_return std::unexpected(std::move(rundir.error()));
    rundir_ = std::move(*rundir);
    auto described = co_await describe();
    if (!described)
        co_return std::unexpected(std::move(described.error()));
    auto instance = Instance::create(loop_, children_, std::move(*described));
    if (!instance)
        co_return std::unexpected(std::move(instance.error()));
    instance_ = std::move(*instance);
    instance_->on_lost = [this](std::uint32_t rank) {
        if (!ending_)
            log_error(fmt::format("dead to Flux: {} (rank {})",
                                  instance_->options().inventory.nodes[rank].host,
                                  rank));
    };
    if (auto rc = join({0, getpid(), *socket, variable_or_empty("FLUX_DAT_GRANTS")});
        !rc)
        co_return rc;
    loop_.spawn(tell_parent());
    boot_ = std::make_unique<BootServer>(
        loop_.uv(), boot_fd,
        BootServer::Events{[this](const BootHello& hello) { return join(hello); },
                           [this](std::uint32_t rank) {
                               if (instance_)
                                   instance_->lose_rank(rank);
                           }});
    rank_is_up();
    co_return Result<>{};
}

// Flux's broker posts where it is reached, and which of its ranks it cannot do without.
flux::Task<void> JobInstance::tell_parent()
{
    const auto& options = instance_->options();
    auto uri = fmt::format(
        "ssh://{}{}", options.inventory.nodes[0].host,
        instance_->local_uri(0).substr(std::string_view("local://").size()));
    auto critical = options.attributes.find("broker.critical-ranks");
    Json ranks = {
        {"id", jobid_},
        {"ranks", critical == options.attributes.end() ? "0" : critical->second}};
    Json memo = {{"uri", uri}};
    auto posted = co_await flux::memo(*parent_, jobid_, std::move(memo));
    if (ending_)
        co_return;
    if (!posted)
        log_error(fmt::format("cannot post the uri: {}", posted.error().message));
    (void)co_await parent_->rpc("job-exec.critical-ranks", ranks, flux::nodeid_any,
                                &parent_interrupt_);
    if (!ending_)
        co_await follow_expiration();
}

// The enclosing instance may move the end of this one's resources.
flux::Task<void> JobInstance::follow_expiration()
{
    Json request = {{"id", jobid_}, {"key", "R"}, {"flags", 0}};
    auto watch = parent_->stream("job-info.update-watch", std::move(request),
                                 flux::nodeid_any, "job-info.update-watch-cancel");
    following_ = true;
    while (!ending_) {
        auto update = co_await watch.next(&parent_interrupt_);
        if (!update || !*update)
            break;
        const auto& R = (**update)["R"];
        if (R.is_object() && R.contains("execution"))
            instance_->jobs().set_expiration(
                flux::number_at(R["execution"], "expiration"));
    }
    following_ = false;
}

Result<> JobInstance::join(const BootHello& hello)
{
    if (hello.rank >= place_.size)
        return fail("no rank {} in an instance of {}", hello.rank, place_.size);
    if (instance_->router().up(hello.rank))
        return fail("rank {} is there already", hello.rank);
    auto socket = hello.socket.empty()
                      ? fmt::format("{}/local-{}", rundir_.path(), hello.rank)
                      : hello.socket;
    auto opened = instance_->open_rank(hello.rank, socket, hello.pid, hello.grants);
    if (opened && boot_)
        rank_is_up();
    return opened;
}

void JobInstance::rank_is_up()
{
    std::uint32_t quorum = place_.size;
    const auto& attributes = options_.attributes;
    if (auto found = attributes.find("broker.quorum"); found != attributes.end())
        quorum = static_cast<std::uint32_t>(std::atoi(found->second.c_str()));
    if (program_was_started_ || ending_ || instance_->online() < quorum)
        return;
    program_was_started_ = true;
    if (auto rc = start_program(); !rc) {
        log_error(rc.error().message);
        shut_down(127);
    }
}

std::string JobInstance::command_line() const
{
    return fmt::format("{}", fmt::join(options_.program, " "));
}

Result<> JobInstance::start_program()
{
    Command command;
    for (char** entry = environ; *entry; entry++)
        command.environment.push_back(*entry);
    // Its job is the one of the enclosing instance, not one of this.
    for (const char* name :
         {"FLUX_JOB_ID", "FLUX_JOB_ID_PATH", "FLUX_JOB_SIZE", "FLUX_JOB_NNODES",
          "FLUX_JOB_TMPDIR", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", boot_variable})
        unset_variable(command.environment, name);
    set_variable(command.environment, "FLUX_URI", instance_->local_uri(0));
    set_variable(command.environment, "FLUX_ENCLOSING_ID", instance_->options().jobid);
    command.inherit_stdio = true;
    if (auto none = options_.attributes.find("broker.rc2_none");
        none != options_.attributes.end())
        return {}; // it lasts until it is told to end
    auto shell = variable_or_empty("SHELL");
    if (shell.empty())
        shell = "/bin/sh";
    if (options_.program.empty())
        command.argv = {shell};
    else if (options_.program.size() == 1)
        command.argv = {shell, "-c", options_.program[0]};
    else
        command.argv = options_.program;
    program_started_ = wall_clock();
    auto program =
        children_.start(command, {{}, [this](int status) { program_exited(status); }});
    if (!program)
        return fail("rc2.0: {}: {}", command_line(),
                    std::strerror(program.error().errnum));
    program_ = std::move(*program);
    return {};
}

void JobInstance::program_exited(int status)
{
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code != 0)
        log_error(
            fmt::format("rc2.0: {} {} (rc={}) {:.1f}s", command_line(),
                        WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "Exited",
                        code, wall_clock() - program_started_));
    program_.reset();
    shut_down(code);
}

// To the initial program, whose end is that of the instance.
void JobInstance::on_signal(int signum)
{
    if (program_)
        program_->kill(signum);
    else
        shut_down(128 + signum);
}

void JobInstance::shut_down(int exit_code)
{
    if (std::exchange(ending_, true))
        return;
    exit_code_ = exit_code;
    instance_->shut_down(
        [this] { children_.drain(orphan_grace, [this] { uv_stop(loop_.uv()); }); });
}

int JobInstance::run()
{
    // SIGALRM is how a job shell tells its tasks that the job's time is over.
    constexpr std::array signals{SIGTERM, SIGINT, SIGHUP, SIGALRM};
    std::array<uv_signal_t*, signals.size()> handlers;
    std::optional<int> early; // a signal before there is an instance
    bool opened = false;
    std::function<void(int)> handle = [&](int signum) {
        if (opened)
            on_signal(signum);
        else
            early = signum;
    };
    for (std::size_t i = 0; i < signals.size(); i++) {
        handlers[i] = new uv_signal_t;
        uv_signal_init(loop_.uv(), handlers[i]);
        handlers[i]->data = &handle;
        uv_signal_start(
            handlers[i],
            [](uv_signal_t* uv, int signum) {
                if (uv->data)
                    (*static_cast<std::function<void(int)>*>(uv->data))(signum);
            },
            signals[i]);
    }
    auto rc = loop_.run(open());
    opened = rc.has_value();
    if (!rc)
        exit_code_ = complain(rc.error().message);
    else if (early)
        on_signal(*early);
    if (opened)
        uv_run(loop_.uv(), UV_RUN_DEFAULT); // until shut_down() is through
    if (boot_)
        boot_->dismiss(exit_code_);
    parent_interrupt_.raise(Error{"the instance ends", ECANCELED});
    instance_.reset();
    boot_.reset();
    parent_.reset();
    for (auto* handler : handlers)
        HandleDeleter<uv_signal_t>{}(handler);
    return exit_code_;
}

// "flux COMMAND": of the flux that comes after this one in PATH.
int exec_real_flux(char** argv)
{
    auto self = program_path();
    auto path = variable_or_empty("PATH");
    std::string_view rest = path;
    while (!rest.empty()) {
        auto colon = rest.find(':');
        auto file = fmt::format("{}/flux", rest.substr(0, colon));
        char* real = realpath(file.c_str(), nullptr);
        if (real && self != real && access(file.c_str(), X_OK) == 0)
            execv(file.c_str(), argv);
        std::free(real);
        if (colon == rest.npos)
            break;
        rest.remove_prefix(colon + 1);
    }
    say(stderr, "flux: Flux is not installed here: of its commands, the sandbox "
                "has only \"flux broker\" and \"flux dat\"\n");
    return 127;
}

} // namespace

int imp_main()
{
    say(stderr, "flux-imp: the sandbox has no IMP: it runs its owner's jobs only. "
                "Start it with --conf exec.imp=PATH of one to run guests' jobs\n");
    return 1;
}

int broker_main(int argc, char** argv)
{
    if (argc < 2 || std::string_view(argv[1]) != "broker")
        return exec_real_flux(argv);
    auto options = parse_broker_options({argv + 2, argv + argc});
    if (!options)
        return complain(options.error().message);
    auto place = find_place();
    if (!place)
        return complain(place.error().message);
    if (place->rank > 0)
        return stand_for_node(*place, *options);
    int listening = 0;
    socklen_t size = sizeof(listening);
    if (getsockopt(boot_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0
        || !listening)
        return complain(
            fmt::format("file descriptor {} is not the job's boot socket", boot_fd));
    fcntl(boot_fd, F_SETFD, FD_CLOEXEC);
    std::signal(SIGPIPE, SIG_IGN);
    return JobInstance(std::move(*place), std::move(*options)).run();
}

} // namespace fluxdat::sandbox
