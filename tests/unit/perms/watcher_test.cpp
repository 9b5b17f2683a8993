// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/watcher.h"
#include "support.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sstream>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

namespace {

// A rank: a process that made its door, left a watcher, and became another program.
// The watcher becomes a child of this process, so it can be found and waited for.
struct Rank {
    TemporaryDirectory top;
    std::string door = top / "dat-fAbC.0";
    pid_t broker = -1;
    pid_t watcher = -1;
    std::string
        output; // of the broker, up to where all holders of its stdout closed it

    // `script` for sh(1), which must close its stdout and stderr and then stay.
    explicit Rank(const std::string& script)
    {
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        broker = ::fork();
        if (broker == 0)
            launch(ends[1], script);
        ::close(ends[1]);
        char buffer[4096];
        for (ssize_t got; (got = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
            output.append(buffer, static_cast<std::size_t>(got));
        ::close(ends[0]);
        std::istringstream children(
            read_file(fmt::format("/proc/self/task/{0}/children", ::getpid())));
        for (pid_t child; children >> child;)
            if (child != broker)
                watcher = child;
    }

    ~Rank()
    {
        if (broker > 0)
            end(SIGKILL);
        ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    }

    [[noreturn]] void launch(int out, const std::string& script) const
    {
        ::setpgid(0, 0);
        ::dup2(out, 1);
        ::dup2(out, 2);
        auto watched = spawn_watcher(
            [&]() -> Result<Door> {
                auto dir = open_door_dir(top.path());
                if (!dir)
                    return std::unexpected(dir.error());
                return Door::create(*dir, {"fAbC", 0}, guests(1, {1001}));
            },
            ::getpid());
        if (!watched)
            dprintf(1, "%s\n", watched.error().message.c_str());
        else if (*watched != door)
            dprintf(1, "the door is %s\n", watched->c_str());
        else
            ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
        ::_exit(1);
    }

    // Ends the broker and gives the watcher's wait status.
    int end(int signal)
    {
        ::kill(broker, signal);
        ::waitpid(broker, nullptr, 0);
        broker = -1;
        int status = -1;
        if (watcher > 0)
            ::waitpid(watcher, &status, 0);
        return status;
    }
};

const std::string stay = "exec >&- 2>&-; exec sleep 600";

bool is_locked(const std::string& door)
{
    Fd fd(::open(door.c_str(), O_RDONLY | O_DIRECTORY));
    return ::flock(fd.get(), LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

std::vector<std::string> descriptors(pid_t process)
{
    std::vector<std::string> targets;
    for (auto& entry :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process)))
        targets.push_back(std::filesystem::read_symlink(entry));
    std::sort(targets.begin(), targets.end());
    return targets;
}

} // namespace

TEST_CASE("a door stays as long as its rank and goes with it")
{
    for (int signal : {SIGKILL, SIGTERM, SIGSEGV}) {
        Rank rank(stay);
        CHECK(rank.output == "");
        REQUIRE(rank.watcher > 0);
        CHECK(is_locked(rank.door));
        CHECK(entries(rank.door) == std::vector<std::string>{".lock", "grants"});
        listen_at(rank.door + "/local");
        CHECK(rank.end(signal) == 0);
        CHECK(entries(rank.top.path()).empty());
    }
}

TEST_CASE("a door goes when its rank ends by itself, even before it was a broker")
{
    for (std::string script : {"exit 0", "exit 3", "kill -9 $$"}) {
        Rank rank(script);
        // The watcher may be gone already, and seen as a zombie or not.
        rank.end(0);
        CHECK(entries(rank.top.path()).empty());
    }
}

TEST_CASE("the broker inherits nothing of the door")
{
    Rank rank("ls -l /proc/$$/fd; " + stay);
    CHECK_THAT(rank.output, Contains("/dev/null") && !Contains("dat-fAbC")
                                && !Contains(rank.top.path()) && !Contains("pidfd"));
}

TEST_CASE("the watcher holds the door and nothing of the job")
{
    Rank rank(stay); // that its output ended says so of stdout
    REQUIRE(rank.watcher > 0);
    CHECK(descriptors(rank.watcher)
          == std::vector<std::string>{"/dev/null", "/dev/null", "/dev/null",
                                      rank.top.path(), rank.door,
                                      "anon_inode:[pidfd]"});
    CHECK(std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", rank.watcher))
          == "/");
    CHECK(read_file(fmt::format("/proc/{}/comm", rank.watcher)) == "flux-dat-door\n");
    CHECK(::getsid(rank.watcher) != ::getsid(0));
    CHECK(::getpgid(rank.watcher) != rank.broker);
}

TEST_CASE(
    "the watcher leaves open what its door's making did, as a lookup's thread may")
{
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    TemporaryDirectory top, other;
    auto held = other / "held", told = other / "told";
    // Also where a thread got one of 0 to 2, if they were closed.
    bool closed = GENERATE(false, true);
    auto said = in_child([&] {
        for (int fd = 0; closed && fd <= 2; fd++)
            ::close(fd);
        return message(spawn_watcher(
            [&] {
                (void)::open(held.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
                return door_in(top.path(), guests(1, {}));
            },
            ::getpid(),
            [&](const std::string&, int) {
                auto open = descriptors(::getpid());
                auto has = std::find(open.begin(), open.end(), held) != open.end();
                write_file(told, has ? "open" : "closed");
            }));
    });
    CHECK(said == "no error");
    ::waitpid(-1, nullptr, 0); // the watcher
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    CHECK(read_file(told) == "open");
    CHECK(entries(top.path()).empty());
}

TEST_CASE("signals to the job do not end the watcher")
{
    Rank rank(stay);
    REQUIRE(rank.watcher > 0);
    for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM,
                       SIGPIPE, SIGTSTP})
        REQUIRE(::kill(rank.watcher, signal) == 0);
    CHECK(::waitpid(rank.watcher, nullptr, WNOHANG) == 0);
    CHECK(is_locked(rank.door));
    // It has not taken any of them when the broker's end is the next thing it sees.
    CHECK(rank.end(SIGKILL) == 0);
    CHECK_FALSE(exists(rank.door));
}

TEST_CASE("a rank that is gone already gets no door")
{
    TemporaryDirectory top;
    pid_t gone = ::fork();
    if (gone == 0)
        ::_exit(0);
    ::waitpid(gone, nullptr, 0);
    CHECK(
        message(spawn_watcher([&] { return door_in(top.path(), guests(1, {})); }, gone))
        == "cannot watch over the door: pidfd_open: No such process");
    CHECK(entries(top.path()).empty());
}

TEST_CASE("why no door could be made is told")
{
    TemporaryDirectory top;
    auto make = [&]() -> Result<Door> { return fail("no door here"); };
    CHECK(message(spawn_watcher(make, ::getpid())) == "no door here");
    auto die = [&]() -> Result<Door> { ::_exit(0); };
    CHECK(message(spawn_watcher(die, ::getpid()))
          == "the process that makes the door, and is to watch over it, ended at once");
}

TEST_CASE("a rank that is killed while its door is made leaves none")
{
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    TemporaryDirectory top, other;
    auto pipe = other / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    Fd killed(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(killed);
    pid_t rank = ::fork();
    if (rank == 0) {
        (void)spawn_watcher(
            [&]() -> Result<Door> {
                Fd until(::open(pipe.c_str(), O_RDONLY | O_CLOEXEC));
                auto dir = choose_door_dir({.given = std::nullopt,
                                            .preferred = top / "absent",
                                            .private_parent = top.path()});
                auto door = dir ? Door::create(*dir, {"fAbC", 0}, guests(1, {1001}))
                                : std::unexpected(dir.error());
                char none;
                (void)!::read(until.get(), &none, 1); // until the rank is gone
                return door;
            },
            ::getpid());
        ::_exit(1);
    }
    auto path = top / fmt::format("flux-dat-{}", ::geteuid());
    while (!exists(path + "/dat-fAbC.0/grants"))
        ::poll(nullptr, 0, 1);
    ::kill(rank, SIGKILL);
    ::waitpid(rank, nullptr, 0);
    killed = Fd();
    while (::waitpid(-1, nullptr, 0) > 0) // the watcher
        ;
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    CHECK(entries(top.path()).empty());
}

TEST_CASE("no process to be had for the watcher")
{
    if (!is_root()) {
        WARN("SKIPPED: needs root, for a user that has no other process");
        return;
    }
    TemporaryDirectory top;
    REQUIRE(::chmod(top.path().c_str(), 01777) == 0);
    // One more process: enough for the first generation, not for the second.
    for (rlim_t processes : {1, 2}) {
        auto said = as_user(owner_uid, owner_uid, [&] {
            rlimit limit{processes, processes};
            ::setrlimit(RLIMIT_NPROC, &limit);
            return message(spawn_watcher(
                [&] { return door_in(top.path(), guests(1, {})); }, ::getpid()));
        });
        CHECK_THAT(said, Contains("cannot watch over the door")
                             && Contains("Resource temporarily unavailable"));
        CHECK(entries(top.path()).empty());
    }
}

TEST_CASE("a watcher starts where 0 to 2 are closed, too")
{
    TemporaryDirectory top;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto said = in_child([&] {
        for (int fd : {0, 1, 2})
            ::close(fd);
        return message(spawn_watcher([&] { return door_in(top.path(), guests(1, {})); },
                                     ::getpid()));
    });
    CHECK(said == "no error");
    ::waitpid(-1, nullptr, 0); // the watcher
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    CHECK(entries(top.path()).empty());
}

TEST_CASE("a private door directory goes with the last of its doors")
{
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    TemporaryDirectory top;
    // Two ranks of one node, which end at the same time.
    pid_t broker = ::fork();
    if (broker == 0) {
        ::pause();
        ::_exit(0);
    }
    auto said = in_child([&]() -> std::string {
        for (std::uint32_t rank : {0, 1}) {
            auto watched = spawn_watcher(
                [&]() -> Result<Door> {
                    auto dir = choose_door_dir({.given = std::nullopt,
                                                .preferred = top / "absent",
                                                .private_parent = top.path()});
                    if (!dir)
                        return std::unexpected(dir.error());
                    return Door::create(*dir, {"fAbC", rank}, guests(1, {1001}));
                },
                broker);
            if (!watched)
                return watched.error().message;
        }
        return "no error";
    });
    CHECK(said == "no error");
    auto path = top / fmt::format("flux-dat-{}", ::geteuid());
    CHECK(entries(path) == std::vector<std::string>{"dat-fAbC.0", "dat-fAbC.1"});
    ::kill(broker, SIGKILL);
    while (::waitpid(-1, nullptr, 0) > 0) // the broker, the watchers
        ;
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    CHECK(entries(top.path()).empty());
}
