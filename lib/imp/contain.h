// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What a job is confined to: the options of the resource owner (RFC 15, "Resource Owner
// Options") and R_local, what the job got of this host. An unprivileged child works
// both out (lib/imp/reader/contained.h) and writes them as pairs of RFC 38, from which
// nothing is believed but what is checked here:
//
//     options.DevicePolicy     s  "auto", "closed" or "strict"
//     options.DeviceAllow.N    s  ACCESS SPECIFIER, as "rw /dev/nvidia0"; N is 0, 1,
//     ... R_local.cpus             s  CPUs by the kernel's ids: "0-3,8", ascending
//     R_local.memory           i  bytes
//     R_local.DeviceDeny.N     s  path of a device node that is another job's (a GPU)
//     R_local.unenforced.N     s  what the child saw no way to enforce, for a person
//
// All are optional; any other key that begins with "options." or "R_local." is refused,
// and all keys that do not are somebody else's.
//
// What is a boundary. cpuset.cpus, memory.max and the device program hold the job and
// all it starts, whatever it does. An affinity does not: every process may widen its
// own again, up to its cpuset. It is used where the IMP has no cgroup of its own, since
// it is what there is, and a job that is not hostile keeps to it; require-containment
// takes it for enough.
#pragma once

#include "lib/imp/cgroup.h"
#include "lib/imp/devices.h"
#include "lib/imp/kv.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::imp {

// Ids of CPUs are below this: the kernel is built for 8192 at most.
constexpr unsigned cpu_ids_max = 16384;
// What R_local.unenforced can have: entries, and bytes in each.
constexpr std::size_t unenforced_max = 64;
constexpr std::size_t unenforced_bytes_max = 512;

// CPUs by the kernel's ids, ascending.
using Cpus = std::vector<unsigned>;

// "0-3,8": ids and ranges in ascending order, no id twice, all below cpu_ids_max, at
// least one. A refusal says what is wrong with the text.
Result<Cpus> parse_cpus(std::string_view text);
std::string format_cpus(const Cpus& cpus);

// The CPUs that this process may run on: sched_getaffinity(2), which is within the
// cpuset of its cgroup.
Result<Cpus> allowed_cpus();

struct Containment {
    DevicePolicy device_policy = DevicePolicy::automatic;
    std::vector<DeviceAllow> device_allow;
    std::optional<Cpus> cpus;
    std::optional<std::uint64_t> memory; // bytes, not zero
    std::vector<std::string> device_deny;
    std::vector<std::string> unenforced;

    // Every refusal names the key.
    static Result<Containment> from_kv(const Kv& kv);

    // The owner asked for a restriction of devices, by options.
    bool restricts_devices() const
    {
        return device_policy != DevicePolicy::automatic || !device_allow.empty();
    }
    bool empty() const
    {
        return !restricts_devices() && !cpus && !memory && device_deny.empty()
               && unenforced.empty();
    }
};

// Where apply() works.
struct ContainmentPlace {
    // The IMP's own cgroup: find_own_cgroup().
    std::optional<Cgroup> cgroup;
    // Of the IMP's configuration: what cannot be enforced is refused.
    bool require_containment = false;
    // Before the paths of devices and /proc/devices (for tests).
    std::string root = {};
    // Attaches the program of devices; a test puts another one here.
    Result<> (*attach)(const std::string& cgroup,
                       const std::vector<bpf_insn>& program) = attach_device_program;
};

// Confines this process, and with it what it will execute. To be called as root in the
// job's child process, after fork(2) and before the change of credentials; cpuset,
// memory and devices then hold for all processes in the IMP's own cgroup, an affinity
// for this process and its children.
//
// Gives lines for a person about what could not be enforced, or is of no effect; these
// are warnings. Fails, having confined nothing or only a part, so that nothing may be
// executed, when
//   - R_local has CPUs that this process may not run on, or more memory than the limit
//     of its own cgroup: never is more given than there is;
//   - something of R_local cannot be enforced and require_containment is set;
//   - options restrict devices and that cannot be enforced, for RFC 15 says they SHALL
//     be, and the owner relies on it.
Result<std::vector<std::string>> apply(const Containment& containment,
                                       const ContainmentPlace& place);

} // namespace fluxdat::imp
