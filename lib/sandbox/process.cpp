// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/process.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

constexpr std::size_t read_size = 64u << 10; // bytes
constexpr int inherited_fd_number = 3;
constexpr int high_fd = 10; // above what the child's descriptors are given
constexpr std::string_view default_path = "/usr/local/bin:/usr/bin:/bin";

// Both ends of a pipe, closed where they were not handed on.
struct PipeEnds {
    int read = -1, write = -1;
    ~PipeEnds()
    {
        close_read();
        close_write();
    }
    bool open()
    {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
            return false;
        read = fds[0];
        write = fds[1];
        return true;
    }
    void close_read()
    {
        if (read >= 0)
            ::close(std::exchange(read, -1));
    }
    void close_write()
    {
        if (write >= 0)
            ::close(std::exchange(write, -1));
    }
};

// What execve(2) is tried with: the name itself if it has a slash, else in each
// directory of PATH.
std::vector<std::string> candidates(const Command& command)
{
    const auto& name = command.argv[0];
    if (name.find('/') != name.npos)
        return {name};
    auto path = variable(command.environment, "PATH");
    if (path.empty())
        path = default_path;
    std::vector<std::string> out;
    while (true) {
        auto colon = path.find(':');
        auto directory = path.substr(0, colon);
        out.push_back(fmt::format("{}/{}", directory.empty() ? "." : directory, name));
        if (colon == path.npos)
            return out;
        path.remove_prefix(colon + 1);
    }
}

std::vector<char*> pointers(const std::vector<std::string>& strings)
{
    std::vector<char*> out;
    for (const auto& text : strings)
        out.push_back(const_cast<char*>(text.c_str()));
    out.push_back(nullptr);
    return out;
}

// The child, from vfork(2) to exec: a fork(2) would copy the engine's page tables for
// each of a job's tasks, and have the engine fault on every page that it then writes.
// Everything the child needs was allocated before. Its signals are blocked until it has
// no handlers any more, which would run in the engine's memory.
struct ChildSide {
    const Command& command;
    std::vector<std::string> files;
    std::vector<char*> argv, environment;
    std::string chdir_message;
    pid_t parent;
    int in = -1, out = -1, err = -1, error_pipe = -1;

    // The child's pid, or -1 with errno.
    pid_t start()
    {
        sigset_t all, before;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        pid_t pid = vfork();
        if (pid == 0)
            run();
        int errnum = errno;
        sigprocmask(SIG_SETMASK, &before, nullptr);
        errno = errnum;
        return pid;
    }

    [[noreturn]] void run()
    {
        error_pipe = fcntl(error_pipe, F_DUPFD_CLOEXEC, high_fd);
        // The engine dies: so does this child. Its own children get SIGKILL from
        // nobody; the session ends them by what their environment says.
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
        if (command.own_group)
            setpgid(0, 0);
        for (int signum = 1; signum <= SIGSYS; signum++)
            signal(signum, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        if (!command.inherit_stdio) {
            dup2(in, 0);
            dup2(out, 1);
            dup2(err, 2);
        }
        if (command.inherited_fd >= 0) {
            if (command.inherited_fd == inherited_fd_number)
                fcntl(inherited_fd_number, F_SETFD, 0);
            else
                dup2(command.inherited_fd, inherited_fd_number);
        }
        if (!command.cwd.empty() && chdir(command.cwd.c_str()) < 0) {
            const char* why = std::strerror(errno);
            dprintf(2, "%s: %s. Going to /tmp instead\n", chdir_message.c_str(), why);
            if (chdir("/tmp") < 0)
                report(errno);
        }
        // As execvp(3): a file that may not be executed is told only if there is no
        // other in PATH.
        int errnum = ENOENT;
        for (const auto& file : files) {
            execve(file.c_str(), argv.data(), environment.data());
            if (errno == EACCES)
                errnum = EACCES;
            else if (errno != ENOENT && errno != ENOTDIR)
                report(errno);
        }
        report(errnum);
    }

    [[noreturn]] void report(int errnum) const
    {
        (void)!::write(error_pipe, &errnum, sizeof(errnum));
        _exit(127);
    }
};

} // namespace

void set_variable(Environment& environment, std::string_view name,
                  std::string_view value)
{
    unset_variable(environment, name);
    environment.push_back(fmt::format("{}={}", name, value));
}

void unset_variable(Environment& environment, std::string_view name)
{
    std::erase_if(environment, [&](const std::string& entry) {
        return entry.starts_with(name) && entry.size() > name.size()
               && entry[name.size()] == '=';
    });
}

std::string_view variable(const Environment& environment, std::string_view name)
{
    for (std::string_view entry : environment)
        if (entry.starts_with(name) && entry.size() > name.size()
            && entry[name.size()] == '=')
            return entry.substr(name.size() + 1);
    return {};
}

const char* stream_name(Stream stream)
{
    return stream == Stream::out ? "stdout" : "stderr";
}

// One pipe to or from a child. Outlives its process until libuv has closed it.
struct Process::Pipe {
    uv_pipe_t uv;
    Process* owner;
    Stream stream = Stream::out;

    static Pipe* open(uv_loop_t* loop, int fd, Process* owner)
    {
        auto* pipe = new Pipe{{}, owner, Stream::out};
        uv_pipe_init(loop, &pipe->uv, 0);
        pipe->uv.data = pipe;
        uv_pipe_open(&pipe->uv, fd);
        return pipe;
    }
    uv_stream_t* uv_stream() { return reinterpret_cast<uv_stream_t*>(&uv); }
    void close()
    {
        owner = nullptr;
        uv_close(reinterpret_cast<uv_handle_t*>(&uv),
                 [](uv_handle_t* handle) { delete static_cast<Pipe*>(handle->data); });
    }
};

Process::~Process()
{
    if (children_)
        children_->running_.erase(pid_);
    close_stdin();
    for (auto*& pipe : outputs_)
        if (pipe)
            std::exchange(pipe, nullptr)->close();
}

void Process::kill(int signum)
{
    // A pid is ours only until the child is reaped.
    if (!running_)
        return;
    ::kill(group_ ? -pid_ : pid_, signum);
}

void Process::write(std::string_view data, std::function<void(std::size_t)> written,
                    std::size_t most)
{
    if (!stdin_ || stdin_pending() + data.size() > most)
        return;
    struct Write {
        uv_write_t uv;
        std::string data;
        std::function<void(std::size_t)> written;
    };
    auto* write = new Write{{}, std::string(data), std::move(written)};
    write->uv.data = write;
    uv_buf_t buffer =
        uv_buf_init(write->data.data(), static_cast<unsigned>(write->data.size()));
    int rc =
        uv_write(&write->uv, stdin_->uv_stream(), &buffer, 1,
                 [](uv_write_t* request, int status) {
                     std::unique_ptr<Write> done(static_cast<Write*>(request->data));
                     if (status == 0 && done->written)
                         done->written(done->data.size());
                 });
    if (rc < 0)
        delete write;
}

void Process::close_stdin()
{
    if (!stdin_)
        return;
    auto* pipe = std::exchange(stdin_, nullptr);
    if (uv_stream_get_write_queue_size(pipe->uv_stream()) == 0) {
        pipe->close();
        return;
    }
    // Let what is queued reach the child first.
    auto* shutdown = new uv_shutdown_t;
    int rc = uv_shutdown(shutdown, pipe->uv_stream(), [](uv_shutdown_t* request, int) {
        static_cast<Pipe*>(request->handle->data)->close();
        delete request;
    });
    if (rc < 0) {
        delete shutdown;
        pipe->close();
    }
}

std::size_t Process::stdin_pending() const
{
    return stdin_ ? uv_stream_get_write_queue_size(stdin_->uv_stream()) : 0;
}

void Process::abandon_output()
{
    auto keep = shared_from_this();
    for (auto*& pipe : outputs_) {
        if (!pipe)
            continue;
        auto stream = pipe->stream;
        std::exchange(pipe, nullptr)->close();
        if (events_.output)
            events_.output(stream, {});
    }
}

Children::Children(uv_loop_t* loop)
    : loop_(loop), signal_(new uv_signal_t), drain_timer_(loop)
{
    // Children of children that outlive their parents become ours, to be ended.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    uv_signal_init(loop, signal_);
    signal_->data = this;
    uv_signal_start(
        signal_,
        [](uv_signal_t* uv, int) {
            if (uv->data)
                static_cast<Children*>(uv->data)->reap();
        },
        SIGCHLD);
    uv_unref(reinterpret_cast<uv_handle_t*>(signal_));
}

Children::~Children()
{
    for (auto& [pid, process] : running_)
        process->children_ = nullptr;
    HandleDeleter<uv_signal_t>{}(signal_);
}

Result<std::shared_ptr<Process>> Children::start(const Command& command,
                                                 ProcessEvents events)
{
    PipeEnds in, out, err, error;
    bool pipes = command.inherit_stdio || (in.open() && out.open() && err.open());
    if (!pipes || !error.open())
        return fail_errno(errno, "cannot open a pipe");

    ChildSide child{command,
                    candidates(command),
                    pointers(command.argv),
                    pointers(command.environment),
                    fmt::format("Could not change dir to {}", command.cwd),
                    getpid(),
                    in.read,
                    out.write,
                    err.write,
                    error.write};
    pid_t pid = child.start();
    if (pid < 0)
        return fail_errno(errno, "cannot fork");

    in.close_read();
    out.close_write();
    err.close_write();
    error.close_write();
    int errnum = 0;
    ssize_t n;
    do
        n = ::read(error.read, &errnum, sizeof(errnum));
    while (n < 0 && errno == EINTR);
    if (n == sizeof(errnum)) {
        waitpid(pid, nullptr, 0);
        return fail_errno(errnum, command.argv[0]);
    }

    std::shared_ptr<Process> process(new Process);
    process->pid_ = pid;
    process->group_ = command.own_group;
    process->children_ = this;
    process->events_ = std::move(events);
    running_[pid] = process.get();
    if (command.inherit_stdio)
        return process;

    auto* raw = process.get();
    process->stdin_ = Process::Pipe::open(loop_, std::exchange(in.write, -1), raw);
    process->outputs_[0] = Process::Pipe::open(loop_, std::exchange(out.read, -1), raw);
    process->outputs_[1] = Process::Pipe::open(loop_, std::exchange(err.read, -1), raw);
    process->outputs_[1]->stream = Stream::err;
    for (auto* pipe : process->outputs_)
        uv_read_start(
            pipe->uv_stream(),
            [](uv_handle_t*, std::size_t, uv_buf_t* buffer) {
                // One for all pipes: it is used up before the next one is read.
                static std::array<char, read_size> bytes;
                *buffer = uv_buf_init(bytes.data(), read_size);
            },
            [](uv_stream_t* stream, ssize_t size, const uv_buf_t* buffer) {
                auto* self = static_cast<Process::Pipe*>(stream->data);
                auto* owner = self->owner;
                if (!owner || size == 0)
                    return;
                std::string_view data;
                if (size > 0)
                    data = {buffer->base, static_cast<std::size_t>(size)};
                // The callback may let go of the process.
                auto keep = owner->shared_from_this();
                auto which = self->stream;
                if (size < 0) {
                    owner->outputs_[which == Stream::out ? 0 : 1] = nullptr;
                    self->close();
                }
                if (owner->events_.output)
                    owner->events_.output(which, data);
            });
    return process;
}

void Children::reap()
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        auto found = running_.find(pid);
        if (found == running_.end())
            continue; // somebody's orphan
        auto* process = found->second;
        running_.erase(found);
        process->running_ = false;
        process->children_ = nullptr;
        auto keep = process->shared_from_this();
        if (process->events_.exited)
            process->events_.exited(status);
    }
    check_drained();
}

// False when there is no process to signal. A guest's is not: the engine may not, and
// only its own user can end it.
bool Children::signal_all(int signum) const
{
    std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
    std::vector<pid_t> pids;
    for (pid_t pid; file >> pid;)
        pids.push_back(pid);
    bool any = false;
    for (pid_t pid : pids)
        any = ::kill(pid, signum) == 0 || errno != EPERM || any;
    return any;
}

void Children::drain(double grace, std::function<void()> done)
{
    drained_ = std::move(done);
    signal_all(SIGTERM);
    drain_timer_.start_in(0, [this, grace] {
        check_drained();
        if (drained_)
            drain_timer_.start_in(grace, [this] {
                killing_ = true;
                check_drained();
            });
    });
}

// Killing a process hands its children to us, so that there may be others after it.
void Children::check_drained()
{
    if (drained_ && !signal_all(killing_ ? SIGKILL : 0))
        std::exchange(drained_, nullptr)();
}

} // namespace fluxdat::sandbox
