// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/session.h"

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/flux/jobid.h"
#include "lib/sandbox/engine.h"
#include "lib/sandbox/leftovers.h"
#include "lib/sandbox/pidfd.h"
#include "lib/sandbox/rundir.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

constexpr mode_t directory_mode = 0711; // guests pass to the sockets, and see nothing
// The engine cancels its jobs and ends; it escalates by itself. Longer is a defect, and
// then it is killed.
constexpr int engine_end_max = 30000; // ms
constexpr double leftover_grace = 2;  // seconds

// Marks a session's directory. The text is for people; a later layout has a later
// number.
constexpr const char* marker_name = "flux-dat-sandbox";
constexpr std::string_view marker_text = "flux-dat sandbox 1\n";

std::string directory_path()
{
    if (const char* named = std::getenv("FLUX_DAT_SANDBOX_DIR"); named && *named)
        return named;
    return fmt::format("/tmp/flux-dat-sandbox-{}", getuid());
}

// The session's directory, held against other "up"s and "down"s while this exists.
struct Directory {
    std::string path;
    Fd fd;

    std::string file(const char* name) const { return path + "/" + name; }

    bool marked() const
    {
        struct stat status;
        return lstat(file(marker_name).c_str(), &status) == 0 && S_ISREG(status.st_mode)
               && status.st_uid == getuid();
    }

    bool empty() const
    {
        std::error_code error;
        return std::filesystem::is_empty(path, error) && !error;
    }
};

// Opens and locks the directory; creates it on demand. Without `create`, nothing when
// there is none, or an empty one. One with files that are not a sandbox's is refused.
Result<std::optional<Directory>> lock_directory(bool create)
{
    auto path = directory_path();
    if (path.empty() || path[0] != '/')
        return fail("FLUX_DAT_SANDBOX_DIR: must be an absolute path, not {}", path);
    while (true) {
        if (create && mkdir(path.c_str(), directory_mode) < 0 && errno != EEXIST)
            return fail_errno(errno, fmt::format("cannot create {}", path));
        Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!fd && errno == ENOENT && !create)
            return std::nullopt;
        if (!fd)
            return fail_errno(errno, fmt::format("cannot open {}", path));
        struct stat opened, named;
        if (fstat(fd.get(), &opened) < 0)
            return fail_errno(errno, fmt::format("cannot open {}", path));
        // /tmp is everybody's: somebody may have been there first.
        if (opened.st_uid != getuid() || (opened.st_mode & 022))
            return fail("{} is not a directory that only you can write to: remove it, "
                        "or set FLUX_DAT_SANDBOX_DIR",
                        path);
        if (flock(fd.get(), LOCK_EX) < 0)
            return fail_errno(errno, fmt::format("cannot lock {}", path));
        // A "down" may have removed it while we waited.
        if (lstat(path.c_str(), &named) < 0 || named.st_ino != opened.st_ino
            || named.st_dev != opened.st_dev)
            continue;
        Directory directory{path, std::move(fd)};
        if (!directory.marked() && !directory.empty())
            return fail("{} has files in it and is not a sandbox's (it has no {}): "
                        "nothing was changed; name another directory with "
                        "FLUX_DAT_SANDBOX_DIR, or empty it",
                        path, marker_name);
        if (!directory.marked() && !create)
            return std::nullopt;
        if (create && fchmod(directory.fd.get(), directory_mode) < 0)
            return fail_errno(errno, fmt::format("cannot chmod {}", path));
        return directory;
    }
}

struct flock whole_file(short type)
{
    struct flock lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return lock;
}

// The engine's pid, from the kernel, since it holds the lock; 0 when there is none. A
// pid in a file could be anybody's by now.
pid_t engine_pid(const Directory& directory)
{
    Fd fd(::open(directory.file("lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (!fd)
        return 0;
    auto lock = whole_file(F_WRLCK);
    if (fcntl(fd.get(), F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid;
}

Result<Json> read_description(const Directory& directory)
{
    std::ifstream file(directory.file("session"));
    std::stringstream text;
    text << file.rdbuf();
    auto json = flux::parse_json(text.str());
    if (!json)
        return fail("{}: {}", directory.file("session"), json.error().message);
    return json;
}

Result<Session> read_session(const Directory& directory)
{
    auto json = read_description(directory);
    if (!json)
        return std::unexpected(std::move(json.error()));
    auto hosts = flux::parse_hostlist(flux::text_at(*json, "hosts"));
    return Session{flux::text_at(*json, "uri"), directory.path,
                   hosts.value_or(flux::Hostlist{}),
                   flux::integer_at<std::uint32_t>(*json, "speed", 1),
                   flux::text_at(*json, "clock")};
}

// The session that is up, if the options are those it was started with.
Result<Session> same_session(const Directory& directory, const SessionOptions& options)
{
    auto json = read_description(directory);
    if (!json)
        return std::unexpected(std::move(json.error()));
    std::vector<std::string> differ;
    auto hosts = flux::text_at(*json, "hosts");
    if (options.hosts && flux::format_hostlist(*options.hosts) != hosts)
        differ.push_back(fmt::format("hosts {}, not {}", hosts,
                                     flux::format_hostlist(*options.hosts)));
    auto cores = flux::integer_at<std::uint32_t>(*json, "cores");
    if (options.cores && *options.cores != cores)
        differ.push_back(fmt::format("{} cores a host, not {}", cores, *options.cores));
    auto speed = flux::integer_at<std::uint32_t>(*json, "speed", 1);
    if (options.speed && *options.speed != speed)
        differ.push_back(
            fmt::format("a clock of speed {}, not {}", speed, *options.speed));
    if (options.config && json->value("config", Json()) != *options.config)
        differ.push_back("another --conf");
    if (!differ.empty())
        return fail("it is up already, with {}: end it first (flux-dat sandbox down), "
                    "or name another directory with FLUX_DAT_SANDBOX_DIR",
                    fmt::join(differ, " and "));
    auto session = read_session(directory);
    if (session)
        session->already = true;
    return session;
}

// The whole text, or no file.
Result<> write_file(const std::string& path, std::string_view text)
{
    Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                 0600));
    if (!fd)
        return fail_errno(errno, fmt::format("cannot write {}", path));
    while (!text.empty()) {
        auto n = ::write(fd.get(), text.data(), text.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) { // a full disk writes a part first
            int errnum = n < 0 ? errno : ENOSPC;
            unlink(path.c_str());
            return fail_errno(errnum, fmt::format("cannot write {}", path));
        }
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
}

// Whether the process ends in this time (milliseconds, and anew after each signal).
bool ends_within(int process, int milliseconds)
{
    pollfd end{process, POLLIN, 0};
    int ended;
    while ((ended = poll(&end, 1, milliseconds)) < 0 && errno == EINTR)
        ;
    return ended > 0;
}

// What an engine that did not end by itself has left. The marker stays until the rest
// is gone, so that it can be done again.
void clear(const Directory& directory)
{
    if (auto session = read_session(directory))
        end_leftovers(session->directory, leftover_grace);
    std::error_code failed;
    std::filesystem::remove_all(directory.file("run"), failed);
    if (failed)
        return; // whoever removes the directory finds it not empty, and says so
    for (const char* name : {"session", "lock", "log", marker_name})
        unlink(directory.file(name).c_str());
}

// The daemon, from fork to end; all options are given. Tells through the pipe when it
// is ready, or why not.
[[noreturn]] void run_daemon(const Directory& directory, const SessionOptions& options,
                             const std::string& clock, int pipe)
{
    auto report = [&](const Result<>& rc) {
        auto text = rc ? std::string("ok") : rc.error().message;
        (void)!::write(pipe, text.data(), text.size());
        ::close(pipe);
        if (!rc)
            _exit(1);
    };
    setsid();
    // What the caller has open is not the daemon's: somebody may wait for its end.
    if (pipe > 3)
        close_range(3, static_cast<unsigned>(pipe) - 1, 0);
    close_range(static_cast<unsigned>(pipe) + 1, ~0u, 0);
    if (chdir("/") < 0)
        report(fail_errno(errno, "cannot go to /"));
    umask(022);
    int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    int log =
        ::open(directory.file("log").c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    int lock_fd = ::open(directory.file("lock").c_str(),
                         O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (null < 0 || log < 0 || lock_fd < 0)
        report(fail_errno(errno, fmt::format("cannot write in {}", directory.path)));
    auto lock = whole_file(F_WRLCK);
    if (fcntl(lock_fd, F_SETLK, &lock) < 0)
        report(
            fail_errno(errno, fmt::format("cannot lock {}", directory.file("lock"))));
    dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    setenv(session_variable, directory.path.c_str(), 1);
    flux::show_jobids_in_ascii(false); // whatever the caller's terminal
    unsetenv(clock_variable);          // of another sandbox
    if (auto set = set_clock(clock); !set)
        report(set);
    _exit(run_engine(
        {directory.file("run"), *options.hosts, *options.cores, *options.config},
        report));
}

} // namespace

Result<Session> session_up(const SessionOptions& given)
{
    auto locked = lock_directory(true);
    if (!locked)
        return std::unexpected(std::move(locked.error()));
    auto& directory = **locked;
    if (engine_pid(directory))
        return same_session(directory, given);
    auto options = given;
    if (!options.hosts)
        options.hosts = *flux::parse_hostlist(
            fmt::format("sandbox[0-{}]", session_hosts_default - 1));
    options.cores = options.cores.value_or(session_cores_default);
    options.config = options.config.value_or(Json::object());
    options.speed = options.speed.value_or(1);
    auto clock = faster_clock(*options.speed);
    clear(directory);
    Json described = {{"version", 1},
                      {"uri", fmt::format("local://{}/run/local-0", directory.path)},
                      {"hosts", flux::format_hostlist(*options.hosts)},
                      {"cores", *options.cores},
                      {"config", *options.config},
                      {"speed", *options.speed},
                      {"clock", clock}};
    auto written = write_file(directory.file(marker_name), marker_text);
    if (written)
        written =
            write_file(directory.file("session"), flux::dump_json(described) + "\n");
    if (!written) {
        clear(directory);
        rmdir(directory.path.c_str());
        return std::unexpected(std::move(written.error()));
    }
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return fail_errno(errno, "cannot open a pipe");
    Fd read_end(fds[0]);
    pid_t pid = fork();
    if (pid < 0) {
        ::close(fds[1]);
        return fail_errno(errno, "cannot fork");
    }
    if (pid == 0)
        run_daemon(directory, options, clock, fds[1]);
    ::close(fds[1]);
    std::string answer;
    char buffer[4096];
    ssize_t n;
    while ((n = ::read(read_end.get(), buffer, sizeof(buffer))) != 0) {
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0)
            answer.append(buffer, static_cast<std::size_t>(n));
    }
    if (answer != "ok") {
        clear(directory);
        rmdir(directory.path.c_str());
        return fail("the sandbox cannot start: {}",
                    answer.empty() ? "it ended without a reason" : answer);
    }
    return read_session(directory);
}

Result<Session> session_down()
{
    auto locked = lock_directory(false);
    if (!locked)
        return std::unexpected(std::move(locked.error()));
    if (!*locked) {
        Session none;
        none.already = true;
        return none;
    }
    auto& directory = **locked;
    auto session = read_session(directory).value_or(Session{});
    session.directory = directory.path;
    if (pid_t pid = engine_pid(directory)) {
        Fd process(open_process(pid));
        // Only if it is still the one that holds the lock is this descriptor its.
        if (process && engine_pid(directory) == pid) {
            signal_process(process.get(), SIGTERM);
            if (!ends_within(process.get(), engine_end_max)) {
                signal_process(process.get(), SIGKILL);
                ends_within(process.get(), engine_end_max);
            }
        }
    }
    clear(directory);
    if (rmdir(directory.path.c_str()) < 0)
        return fail_errno(errno, fmt::format("cannot remove {}", directory.path));
    return session;
}

Result<Session> session_find()
{
    auto path = directory_path();
    Directory directory{path, Fd()};
    struct stat status;
    if (lstat(path.c_str(), &status) < 0 || !S_ISDIR(status.st_mode)
        || status.st_uid != getuid() || !directory.marked() || !engine_pid(directory))
        return fail("no sandbox is up: start one with \"flux-dat sandbox up\"");
    return read_session(directory);
}

} // namespace fluxdat::sandbox
