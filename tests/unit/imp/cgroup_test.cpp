// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/cgroup.h"

#include "tests/unit/imp/support.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>

using namespace fluxdat::imp;
using namespace fluxdat::imp::test;
using Catch::Contains;
using Catch::EndsWith;

namespace {

// A host, as far as finding a cgroup goes.
struct Host : TemporaryDirectory {
    void mounts(const std::string& text) { write("proc/self/mountinfo", text); }
    void cgroup(const std::string& text) { write("proc/self/cgroup", text); }
};

// Starts a child that is in the cgroup before this returns, and runs `work` there.
pid_t start_in(const Cgroup& cgroup, const std::function<void()>& work)
{
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        bool moved = cgroup.write("cgroup.procs", "0").has_value();
        char byte = moved ? 'y' : 'n';
        if (::write(ends[1], &byte, 1) == 1 && moved)
            work();
        ::_exit(0);
    }
    ::close(ends[1]);
    char byte = 0;
    CHECK(::read(ends[0], &byte, 1) == 1);
    ::close(ends[0]);
    CHECK(byte == 'y');
    return child;
}

void sleep_for_good()
{
    while (true)
        ::pause();
}

int status_of(pid_t child)
{
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return status;
}

} // namespace

TEST_CASE("cgroup: found where cgroup2 is all there is", "[cgroup]")
{
    Host host;
    host.cgroup("0::/user.slice/imp-shell-0-f123.service\n");
    host.mounts(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
    host.write("sys/fs/cgroup/user.slice/imp-shell-0-f123.service/cgroup.procs", "");

    auto found = find_cgroup(host.path());
    REQUIRE(found);
    CHECK(found->path() == host / "sys/fs/cgroup/user.slice/imp-shell-0-f123.service");
    CHECK(found->name() == "imp-shell-0-f123.service");
    CHECK(found->own());
    CHECK(find_own_cgroup(host.path()).has_value());
}

TEST_CASE("cgroup: found beside hierarchies of version 1", "[cgroup]")
{
    Host host;
    host.cgroup("9:name=systemd:/x\n3:cpuset:/y\n0::/flux.service\n");
    host.mounts(
        "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
    host.write("sys/fs/cgroup/unified/flux.service/cgroup.procs", "");

    auto found = find_cgroup(host.path());
    REQUIRE(found);
    CHECK(found->path() == host / "sys/fs/cgroup/unified/flux.service");
    // The broker's cgroup is not the IMP's own.
    CHECK_FALSE(found->own());
    CHECK_FALSE(find_own_cgroup(host.path()));
}

TEST_CASE("cgroup: found through a mount of a part, and past others", "[cgroup]")
{
    Host host;
    host.cgroup("0::/a/b/imp-shell-1\n");
    host.mounts("1 1 0:1 /ab /mnt/other rw - cgroup2 cgroup2 rw\n"
                "2 1 0:1 /a/b/imp-shell-10 /mnt/longer rw - cgroup2 cgroup2 rw\n"
                "3 1 0:1 /a /mnt/with\\040space rw - cgroup2 cgroup2 rw\n");
    host.write("mnt/with space/b/imp-shell-1/cgroup.procs", "");
    auto found = find_cgroup(host.path());
    REQUIRE(found);
    CHECK(found->path() == host / "mnt/with space/b/imp-shell-1");

    // Of itself alone.
    host.mounts("1 1 0:1 /a/b/imp-shell-1 /mnt/itself rw - cgroup2 cgroup2 rw\n");
    host.write("mnt/itself/cgroup.procs", "");
    CHECK(find_cgroup(host.path())->path() == host / "mnt/itself");

    // The root of all.
    host.cgroup("0::/\n");
    host.mounts("1 1 0:1 / /mnt/itself rw - cgroup2 cgroup2 rw\n");
    CHECK(find_cgroup(host.path())->path() == host / "mnt/itself");
}

TEST_CASE("cgroup: why none is found", "[cgroup]")
{
    Host host;
    auto refused = [&] {
        auto found = find_cgroup(host.path());
        REQUIRE_FALSE(found);
        CHECK_FALSE(find_own_cgroup(host.path()));
        return found.error().message;
    };
    CHECK_THAT(refused(), Contains("cannot open") && Contains("/proc/self/cgroup"));
    host.cgroup("3:cpuset:/\n");
    CHECK_THAT(refused(), EndsWith("this process is in no cgroup of version 2"));
    host.cgroup("0::/../imp-shell-x\n");
    CHECK_THAT(refused(), Contains("outside of this cgroup namespace"));
    host.cgroup("0::/imp-shell-x\n");
    CHECK_THAT(refused(), Contains("cannot open") && Contains("/proc/self/mountinfo"));
    host.mounts("");
    CHECK_THAT(refused(),
               EndsWith("no cgroup2 file system is mounted that has the cgroup "
                        "\"/imp-shell-x\""));
    // Another file system, a line that is cut off, and a directory without the cgroup.
    host.mounts("1 1 0:1 / /mnt rw - tmpfs cgroup2 rw\n1 1 0:1 / /mnt rw -\n"
                "1 1 0:1 / /other rw - cgroup2 cgroup2 rw");
    CHECK_THAT(refused(), Contains("no cgroup2 file system is mounted"));
}

TEST_CASE("cgroup: the real one of this process", "[cgroup]")
{
    auto found = find_cgroup();
    if (!found) {
        WARN("SKIPPED: " << found.error().message);
        return;
    }
    CHECK(found->read("cgroup.procs").has_value());
}

TEST_CASE("cgroup: limits are written as the kernel reads them", "[cgroup]")
{
    TemporaryDirectory directory;
    Cgroup cgroup(directory.path());
    auto missing = cgroup.set_cpus("0-3");
    REQUIRE_FALSE(missing);
    CHECK(missing.error().errnum == ENOENT);
    CHECK_THAT(missing.error().message,
               Contains("cannot open") && Contains("/cpuset.cpus: No such file"));
    CHECK_FALSE(cgroup.set_memory_max(1));
    CHECK_FALSE(cgroup.memory_max());

    directory.write("cpuset.cpus", "0-15\n");
    REQUIRE(cgroup.set_cpus("0-3,8"));
    CHECK(directory.read("cpuset.cpus") == "0-3,8");
    directory.write("memory.max", "max\n");
    CHECK(*cgroup.memory_max() == std::nullopt);
    REQUIRE(cgroup.set_memory_max(2147483648));
    CHECK(directory.read("memory.max") == "2147483648");
    CHECK(**cgroup.memory_max() == 2147483648);
    directory.write("memory.max", "2G\n");
    CHECK_THAT(cgroup.memory_max().error().message,
               EndsWith("memory.max: \"2G\" is no number of bytes"));
}

TEST_CASE("cgroup: a file that cannot be written or read", "[cgroup]")
{
    TemporaryDirectory directory;
    Cgroup cgroup(directory.path());
    std::filesystem::create_symlink("/dev/full", directory / "link");
    CHECK(cgroup.write("link", "1").error().errnum == ELOOP);
    CHECK(cgroup.read("link").error().errnum == ELOOP);
    std::filesystem::create_directory(directory / "directory");
    CHECK_THAT(cgroup.read("directory").error().message, Contains("cannot read"));
    Cgroup devices("/dev");
    CHECK_THAT(devices.write("full", "1").error().message,
               Contains("cannot write \"1\" to /dev/full: No space left"));
    CHECK_THAT(devices.read("zero").error().message, Contains("it has more than"));
}

TEST_CASE("cgroup: processes are those of all levels, without unseen ones", "[cgroup]")
{
    TemporaryDirectory directory;
    Cgroup cgroup(directory.path());
    CHECK(cgroup.processes().error().errnum == ENOENT);
    directory.write("cgroup.procs", "7\n0\n5\n");
    directory.write("below/cgroup.procs", "11\n");
    directory.write("below/deeper/cgroup.procs", "13\n5\n");
    std::filesystem::create_directory(directory / "going");
    CHECK(*cgroup.processes() == std::vector<pid_t>{5, 7, 11, 13});
    for (const char* bad : {"x\n", "5 6\n", "-1\n", "99999999999999\n"}) {
        directory.write("cgroup.procs", bad);
        CHECK_THAT(cgroup.processes().error().message,
                   EndsWith("not a list of process ids"));
    }
}

TEST_CASE("cgroup: only who is listed is killed", "[cgroup]")
{
    TemporaryDirectory directory;
    Cgroup cgroup(directory.path());
    pid_t inside = ::fork();
    if (inside == 0)
        sleep_for_good();
    pid_t kept = ::fork();
    if (kept == 0)
        sleep_for_good();
    // 0 would be this process group.
    directory.write("cgroup.procs", "0\n" + std::to_string(inside) + "\n"
                                        + std::to_string(kept) + "\n");
    auto killed = cgroup.kill_all({kept});
    REQUIRE(killed);
    CHECK(*killed == 1);
    CHECK(WTERMSIG(status_of(inside)) == SIGKILL);
    CHECK(::kill(kept, 0) == 0);
    ::kill(kept, SIGKILL);
    status_of(kept);
    CHECK_FALSE(Cgroup(directory / "gone").kill_all({}));
}

TEST_CASE("cgroup: a real one is killed whole, but for us", "[cgroup]")
{
    if (auto why = RealCgroup::missing(); !why.empty()) {
        WARN("SKIPPED: " << why);
        return;
    }
    RealCgroup cgroup("imp-shell-test");
    CHECK(cgroup->own());
    Cgroup below(cgroup->path() + "/below");
    REQUIRE(::mkdir(below.path().c_str(), 0755) == 0);

    pid_t us = start_in(*cgroup, sleep_for_good);
    pid_t stubborn = start_in(*cgroup, [] {
        ::signal(SIGTERM, SIG_IGN);
        sleep_for_good();
    });
    pid_t deeper = start_in(below, sleep_for_good);
    // Has a child at every moment, each of which leaves the process group.
    pid_t forking = start_in(*cgroup, [] {
        ::signal(SIGCHLD, SIG_IGN);
        while (true)
            if (::fork() == 0) {
                ::setsid();
                ::usleep(1000);
                ::_exit(0);
            }
    });
    CHECK_FALSE(cgroup->processes()->empty());
    auto killed = cgroup->kill_all({us});
    REQUIRE(killed);
    CHECK(*killed >= 3);
    for (pid_t pid : {stubborn, deeper, forking})
        CHECK(WTERMSIG(status_of(pid)) == SIGKILL);
    auto empty = cgroup->wait_empty({us});
    REQUIRE(empty);
    CHECK(*empty);
    CHECK(*cgroup->processes() == std::vector<pid_t>{us});

    REQUIRE(cgroup->kill_all({}));
    status_of(us);
    CHECK(*cgroup->wait_empty({}));
}

TEST_CASE("cgroup: waiting ends when the last one has gone", "[cgroup]")
{
    if (auto why = RealCgroup::missing(); !why.empty()) {
        WARN("SKIPPED: " << why);
        return;
    }
    RealCgroup cgroup("imp-shell-test");
    int wake = ::eventfd(0, EFD_CLOEXEC);
    CHECK(*cgroup->wait_empty({}, wake));
    pid_t job = start_in(*cgroup, sleep_for_good);
    CHECK(*cgroup->wait_empty({job}, wake));

    ::eventfd_write(wake, 1);
    auto woken = cgroup->wait_empty({}, wake);
    REQUIRE(woken);
    CHECK_FALSE(*woken);
    ::close(wake);

    // A signal that is caught also ends it. The sender goes on until it is heard.
    struct sigaction action {
    };
    struct sigaction before {
    };
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR2, &action, &before);
    pid_t parent = ::getpid();
    pid_t sender = ::fork();
    if (sender == 0)
        while (::kill(parent, SIGUSR2) == 0)
            ::usleep(1000);
    auto interrupted = cgroup->wait_empty({});
    ::kill(sender, SIGKILL);
    int status = 0;
    while (::waitpid(sender, &status, 0) < 0 && errno == EINTR)
        ;
    ::sigaction(SIGUSR2, &before, nullptr);
    REQUIRE(interrupted);
    CHECK_FALSE(*interrupted);

    // The killer is outside, and the wait sees the end of who is inside.
    pid_t killer = ::fork();
    if (killer == 0) {
        ::kill(job, SIGKILL);
        ::_exit(0);
    }
    CHECK(*cgroup->wait_empty({}));
    status_of(job);
    status_of(killer);
    CHECK_FALSE(Cgroup(cgroup->path() + "/gone").wait_empty({}));
}
