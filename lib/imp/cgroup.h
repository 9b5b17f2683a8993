// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The control group (cgroups(7), version 2) that this process is in, and what the IMP
// does with one that is its own: RFC 15, "Signal Handling".
//
// A cgroup is the IMP's own when its name begins with "imp-shell": then Flux started
// the IMP as a transient systemd unit of that name, and nothing but this job is in it.
// Any other cgroup (most often the broker's) is somebody else's: it is not written to,
// and nobody in it is killed for being there.
//
// Everything here also works on a plain directory put in the place of a cgroup: files
// are read and written in the same way, only nothing comes of it.
#pragma once

#include "lib/imp/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace fluxdat::imp {

// How the name of a cgroup that is the IMP's own begins: RFC 15.
constexpr std::string_view own_cgroup_prefix = "imp-shell";

class Cgroup
{
public:
    // The directory, absolute, without a slash at its end.
    explicit Cgroup(std::string path) : path_(std::move(path)) {}

    const std::string& path() const { return path_; }
    std::string name() const { return path_.substr(path_.rfind('/') + 1); }
    bool own() const { return name().starts_with(own_cgroup_prefix); }

    // The text of a file in it, such as "cpuset.cpus", without the newline at its end.
    // ENOENT where the controller is not there.
    Result<std::string> read(const std::string& file) const;
    // Writes text to a file that is there. ENOENT where it is not.
    Result<> write(const std::string& file, const std::string& text) const;

    // cpuset.cpus: `cpus` is a list of OS ids, "0-3,8".
    Result<> set_cpus(const std::string& cpus) const;
    // memory.max, in bytes; nothing is "max", no limit. Limits of cgroups above it hold
    // as well, and are not asked for.
    Result<> set_memory_max(std::uint64_t bytes) const;
    Result<std::optional<std::uint64_t>> memory_max() const;

    // The processes in it and in all cgroups below it, in no order, each once. Those
    // that this process cannot see (another PID namespace) are left out.
    Result<std::vector<pid_t>> processes() const;

    // SIGKILL for all of processes() but those in `keep`, again until nobody is left
    // who has not got it: who was forked meanwhile gets it as well. cgroup.kill is not
    // used, since it has no exceptions and would kill the IMP, which must live to tell
    // how the job ended. Does not wait for anybody's end. Gives how many were killed.
    //
    // An error when processes that fork are faster than this (kill_passes_max).
    Result<std::size_t> kill_all(const std::vector<pid_t>& keep) const;

    // Waits until processes() are none but those in `keep`: true. If `wake` (a
    // signalfd(2), or -1) becomes readable or a signal is caught first: false, and the
    // caller does what the signal asks for and calls again. Sleeps in poll(2) on a
    // process that is there; cgroup.events is of no use, since the IMP itself keeps its
    // cgroup populated.
    Result<bool> wait_empty(const std::vector<pid_t>& keep, int wake = -1) const;

private:
    std::string path_;
};

// The cgroup v2 that this process is in, found by /proc/self/cgroup and the mounts in
// /proc/self/mountinfo; a hybrid layout (/sys/fs/cgroup/unified) is one like any other.
// Fails, naming the file, where there is no cgroup2 or it is not mounted so that this
// cgroup is in sight. With a `root`, all paths are below it (for tests), and the file
// system there need not be cgroup2.
Result<Cgroup> find_cgroup(const std::string& root = {});

// The same for the IMP: nothing where there is none or it is not the IMP's own.
std::optional<Cgroup> find_own_cgroup(const std::string& root = {});

} // namespace fluxdat::imp
