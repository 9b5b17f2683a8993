// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/cgroup.h"

#include "lib/imp/fd.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <deque>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <memory>
#include <poll.h>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

// Bytes of a file that are read; /proc/self/mountinfo of a host with thousands of
// mounts has some hundred KiB, cgroup.procs eight bytes a process.
constexpr std::size_t file_bytes_max = 16u << 20;
// Levels of cgroups below the job's own that are looked into.
constexpr int depth_max = 64;
// How often kill_all() looks for processes that were forked meanwhile. One or two times
// is usual; who is still there after this many forks faster than it can be killed.
constexpr int kill_passes_max = 1000;
// Milliseconds after which wait_empty() looks again although nobody ended: a process
// may also leave a cgroup by being moved.
constexpr int look_again_ms = 10000;
// Processes that kill_all() holds descriptors of at a time.
constexpr std::size_t kill_at_once = 256;

std::unexpected<Error> fail_errno(const std::string& what, int errnum)
{
    return fail(what + ": " + std::strerror(errnum), errnum);
}

Result<std::string> read_file(const std::string& path)
{
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd.get() < 0)
        return fail_errno("cannot open " + path, errno);
    std::string text;
    char buffer[65536];
    while (true) {
        ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno("cannot read " + path, errno);
        if (n == 0)
            return text;
        text.append(buffer, static_cast<std::size_t>(n));
        if (text.size() > file_bytes_max)
            return fail("cannot read " + path + ": it has more than "
                            + std::to_string(file_bytes_max) + " bytes",
                        EFBIG);
    }
}

// Calls visit(line) for each line of text.
template <class Visit>
void for_each_line(std::string_view text, Visit visit)
{
    while (!text.empty()) {
        auto end = std::min(text.find('\n'), text.size());
        visit(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

std::vector<std::string_view> split_at_spaces(std::string_view text)
{
    std::vector<std::string_view> fields;
    while (!text.empty()) {
        auto end = std::min(text.find(' '), text.size());
        if (end > 0)
            fields.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return fields;
}

// proc(5), mountinfo: space, tab, newline and backslash are written as \ and three
// octal digits.
std::string without_escapes(std::string_view field)
{
    auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
    std::string out;
    for (std::size_t i = 0; i < field.size(); i++)
        if (field[i] == '\\' && i + 3 < field.size() && is_octal(field[i + 1])
            && is_octal(field[i + 2]) && is_octal(field[i + 3])) {
            out += static_cast<char>((field[i + 1] - '0') * 64
                                     + (field[i + 2] - '0') * 8 + (field[i + 3] - '0'));
            i += 3;
        } else
            out += field[i];
    return out;
}

struct Mount {
    std::string root;  // what of the hierarchy is mounted
    std::string point; // where
};

std::vector<Mount> cgroup2_mounts(std::string_view mountinfo)
{
    std::vector<Mount> mounts;
    for_each_line(mountinfo, [&](std::string_view line) {
        // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS
        auto fields = split_at_spaces(line);
        auto dash = std::find(fields.begin(), fields.end(), "-");
        if (dash - fields.begin() >= 6 && fields.end() - dash >= 2
            && dash[1] == "cgroup2")
            mounts.push_back({without_escapes(fields[3]), without_escapes(fields[4])});
    });
    return mounts;
}

// Where a cgroup of the hierarchy is in the file system, if that part is mounted there.
std::optional<std::string> path_in(const Mount& mount, const std::string& cgroup)
{
    std::string rest = cgroup;
    if (mount.root != "/") {
        if (!cgroup.starts_with(mount.root)
            || (cgroup.size() > mount.root.size() && cgroup[mount.root.size()] != '/'))
            return {};
        rest = cgroup.substr(mount.root.size());
    }
    std::string path = mount.point + rest;
    while (path.size() > 1 && path.ends_with('/'))
        path.pop_back();
    return path;
}

bool is_cgroup2(const std::string& path)
{
    struct statfs filesystem;
    return ::statfs(path.c_str(), &filesystem) == 0
           && filesystem.f_type == CGROUP2_SUPER_MAGIC;
}

// cgroup.procs of one directory; a directory that is gone has no processes.
Result<> add_processes(const std::string& directory, std::set<pid_t>& out, int depth)
{
    auto text = read_file(directory + "/cgroup.procs");
    // EOPNOTSUPP: a threaded cgroup, whose processes are listed above it.
    if (!text && text.error().errnum != EOPNOTSUPP
        && (depth == 0 || text.error().errnum != ENOENT)
        && text.error().errnum != ENODEV)
        return std::unexpected(text.error());
    bool valid = true;
    if (text)
        for_each_line(*text, [&](std::string_view line) {
            pid_t pid = 0;
            auto [end, error] =
                std::from_chars(line.data(), line.data() + line.size(), pid);
            if (error != std::errc{} || end != line.data() + line.size() || pid < 0)
                valid = false;
            // 0 stands for a process of another PID namespace, and is "my own process
            // group" for kill(2).
            else if (pid > 0)
                out.insert(pid);
        });
    if (!valid)
        return fail("cannot read " + directory + "/cgroup.procs: not a list of process "
                    + "ids");

    if (depth == depth_max)
        return {};
    std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()),
                                                ::closedir);
    if (!entries)
        return depth ? Result<>() : fail_errno("cannot read " + directory, errno);
    while (dirent* entry = ::readdir(entries.get()))
        if (entry->d_type == DT_DIR && std::strcmp(entry->d_name, ".") != 0
            && std::strcmp(entry->d_name, "..") != 0)
            if (auto added =
                    add_processes(directory + "/" + entry->d_name, out, depth + 1);
                !added)
                return added;
    return {};
}

int pidfd_open(pid_t pid)
{
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u));
}

bool contains(const std::vector<pid_t>& pids, pid_t pid)
{
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// Kills processes that were seen in the cgroup, but none that was given the same id
// after one of them had ended: who is held by a descriptor is killed only if the id is
// still listed after the descriptor was had.
Result<> kill_listed(const Cgroup& cgroup, const std::vector<pid_t>& pids)
{
    struct Target {
        pid_t pid;
        Fd process;
        int error;
    };
    std::deque<Target> targets;
    for (pid_t pid : pids) {
        int fd = pidfd_open(pid);
        targets.emplace_back(pid, Fd(fd), fd < 0 ? errno : 0);
    }
    auto listed = cgroup.processes();
    if (!listed)
        return std::unexpected(listed.error());
    for (const Target& target : targets) {
        if (target.error == ESRCH || !contains(*listed, target.pid))
            continue;
        // No descriptor left, or a kernel before 5.3: better a narrow race than a job
        // that cannot be killed.
        long sent = target.error
                        ? ::kill(target.pid, SIGKILL)
                        : ::syscall(SYS_pidfd_send_signal, target.process.get(),
                                    SIGKILL, nullptr, 0u);
        if (sent < 0 && errno != ESRCH)
            return fail_errno("cannot kill process " + std::to_string(target.pid)
                                  + " in " + cgroup.path(),
                              errno);
    }
    return {};
}

} // namespace

Result<std::string> Cgroup::read(const std::string& file) const
{
    auto text = read_file(path_ + "/" + file);
    if (text && text->ends_with('\n'))
        text->pop_back();
    return text;
}

Result<> Cgroup::write(const std::string& file, const std::string& text) const
{
    std::string path = path_ + "/" + file;
    Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_TRUNC));
    if (fd.get() < 0)
        return fail_errno("cannot open " + path, errno);
    // The kernel takes the text of one write(2) as a whole.
    ssize_t n;
    do
        n = ::write(fd.get(), text.data(), text.size());
    while (n < 0 && errno == EINTR);
    if (n != static_cast<ssize_t>(text.size()))
        return fail_errno("cannot write " + in_quotes(text) + " to " + path,
                          n < 0 ? errno : EIO);
    return {};
}

Result<> Cgroup::set_cpus(const std::string& cpus) const
{
    return write("cpuset.cpus", cpus);
}

Result<> Cgroup::set_memory_max(std::uint64_t bytes) const
{
    return write("memory.max", std::to_string(bytes));
}

Result<std::optional<std::uint64_t>> Cgroup::memory_max() const
{
    auto text = read("memory.max");
    if (!text)
        return std::unexpected(text.error());
    if (*text == "max")
        return std::nullopt;
    std::uint64_t bytes = 0;
    auto [end, error] =
        std::from_chars(text->data(), text->data() + text->size(), bytes);
    if (error != std::errc{} || end != text->data() + text->size())
        return fail("cannot read " + path_ + "/memory.max: " + in_quotes(*text)
                    + " is no number of bytes");
    return bytes;
}

Result<std::vector<pid_t>> Cgroup::processes() const
{
    std::set<pid_t> pids;
    if (auto added = add_processes(path_, pids, 0); !added)
        return std::unexpected(added.error());
    return std::vector<pid_t>(pids.begin(), pids.end());
}

Result<std::size_t> Cgroup::kill_all(const std::vector<pid_t>& keep) const
{
    // SIGKILL needs to be sent once. Who got it stays listed until it is gone.
    std::set<pid_t> killed;
    for (int pass = 0; pass < kill_passes_max; pass++) {
        auto listed = processes();
        if (!listed)
            return std::unexpected(listed.error());
        std::vector<pid_t> found;
        for (pid_t pid : *listed)
            if (found.size() < kill_at_once && !contains(keep, pid)
                && killed.insert(pid).second)
                found.push_back(pid);
        if (found.empty())
            return killed.size();
        if (auto done = kill_listed(*this, found); !done)
            return std::unexpected(done.error());
    }
    return fail("processes in " + path_ + " fork faster than they can be killed");
}

Result<bool> Cgroup::wait_empty(const std::vector<pid_t>& keep, int wake) const
{
    while (true) {
        auto listed = processes();
        if (!listed)
            return std::unexpected(listed.error());
        auto other = std::find_if(listed->begin(), listed->end(),
                                  [&](pid_t pid) { return !contains(keep, pid); });
        if (other == listed->end())
            return true;
        // Without the descriptor (ESRCH: just gone; EMFILE) only time brings the next
        // look.
        Fd process(pidfd_open(*other));
        if (process.get() < 0 && errno == ESRCH)
            continue;
        pollfd wait[] = {{wake, POLLIN, 0}, {process.get(), POLLIN, 0}};
        int ready = ::poll(wait, 2, look_again_ms);
        if (ready < 0 && errno != EINTR)
            return fail_errno("cannot wait for the processes in " + path_, errno);
        if (ready < 0 || wait[0].revents)
            return false;
    }
}

Result<Cgroup> find_cgroup(const std::string& root)
{
    std::string cgroup_file = root + "/proc/self/cgroup";
    auto text = read_file(cgroup_file);
    if (!text)
        return std::unexpected(text.error());
    std::optional<std::string> cgroup;
    for_each_line(*text, [&](std::string_view line) {
        if (line.starts_with("0::/"))
            cgroup = line.substr(3);
    });
    if (!cgroup)
        return fail(cgroup_file + ": this process is in no cgroup of version 2",
                    ENOENT);
    // "/.." leads out of a cgroup namespace; " (deleted)" is at the end of one removed.
    if ((*cgroup + "/").contains("/../"))
        return fail(cgroup_file + ": the cgroup " + in_quotes(*cgroup)
                        + " is outside of this cgroup namespace",
                    ENOENT);

    std::string mount_file = root + "/proc/self/mountinfo";
    auto mountinfo = read_file(mount_file);
    if (!mountinfo)
        return std::unexpected(mountinfo.error());
    for (const Mount& mount : cgroup2_mounts(*mountinfo)) {
        auto path = path_in(mount, *cgroup);
        if (!path)
            continue;
        std::string directory = root + *path;
        struct stat status;
        if (::stat((directory + "/cgroup.procs").c_str(), &status) == 0
            && (!root.empty() || is_cgroup2(directory)))
            return Cgroup(directory);
    }
    return fail(mount_file + ": no cgroup2 file system is mounted that has the cgroup "
                    + in_quotes(*cgroup),
                ENOENT);
}

std::optional<Cgroup> find_own_cgroup(const std::string& root)
{
    auto cgroup = find_cgroup(root);
    if (!cgroup || !cgroup->own())
        return {};
    return *cgroup;
}

} // namespace fluxdat::imp
