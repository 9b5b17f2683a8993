// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/contain.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <sched.h>
#include <set>

namespace fluxdat::imp {

namespace {

struct FreeCpuSet {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeCpuSet>;

std::unexpected<Error> fail_key(const std::string& key, const std::string& why)
{
    return fail(key + ": " + why, EINVAL);
}

std::unexpected<Error> fail_key(const std::string& key, const Error& error)
{
    return fail(key + ": " + error.message, error.errnum);
}

// The keys of a kv that were understood.
using Known = std::set<std::string, std::less<>>;

// What "PREFIX.0", "PREFIX.1" and so on are in a kv.
Result<std::vector<std::string>> get_list(const Kv& kv, const std::string& prefix,
                                          std::size_t most, Known& known)
{
    std::vector<std::string> out;
    std::string key;
    while (kv.contains(key = prefix + "." + std::to_string(out.size()))) {
        if (out.size() == most)
            return fail_key(prefix, "more than " + std::to_string(most) + " entries");
        auto value = kv.get_string(key);
        if (!value)
            return std::unexpected(value.error());
        out.push_back(std::move(*value));
        known.insert(key);
    }
    return out;
}

// "rw /dev/null"
Result<DeviceAllow> parse_entry(const std::string& key, const std::string& text)
{
    auto space = text.find(' ');
    if (space == text.npos)
        return fail_key(key, in_quotes(text) + " is not an access and a device");
    DeviceAllow entry{text.substr(space + 1), text.substr(0, space)};
    if (auto checked = check_device_allow(entry); !checked)
        return fail_key(key, checked.error());
    return entry;
}

Result<> get_options(const Kv& kv, Containment& out, Known& known)
{
    if (const std::string key = "options.DevicePolicy"; kv.contains(key)) {
        auto text = kv.get_string(key);
        if (!text)
            return std::unexpected(text.error());
        auto policy = parse_device_policy(*text);
        if (!policy)
            return fail_key(key, policy.error());
        out.device_policy = *policy;
        known.insert(key);
    }
    const std::string key = "options.DeviceAllow";
    auto entries = get_list(kv, key, device_entries_max, known);
    if (!entries)
        return std::unexpected(entries.error());
    for (const std::string& text : *entries) {
        auto entry =
            parse_entry(key + "." + std::to_string(out.device_allow.size()), text);
        if (!entry)
            return std::unexpected(entry.error());
        out.device_allow.push_back(*entry);
    }
    return {};
}

Result<> get_local_resources(const Kv& kv, Containment& out, Known& known)
{
    if (const std::string key = "R_local.cpus"; kv.contains(key)) {
        auto text = kv.get_string(key);
        if (!text)
            return std::unexpected(text.error());
        auto cpus = parse_cpus(*text);
        if (!cpus)
            return fail_key(key, cpus.error());
        out.cpus = std::move(*cpus);
        known.insert(key);
    }
    if (const std::string key = "R_local.memory"; kv.contains(key)) {
        auto bytes = kv.get_integer(key);
        if (!bytes)
            return std::unexpected(bytes.error());
        if (*bytes <= 0)
            return fail_key(key, std::to_string(*bytes) + " bytes are no amount");
        out.memory = static_cast<std::uint64_t>(*bytes);
        known.insert(key);
    }
    const std::string deny = "R_local.DeviceDeny";
    auto paths = get_list(kv, deny, device_entries_max, known);
    if (!paths)
        return std::unexpected(paths.error());
    for (const std::string& path : *paths)
        if (auto checked = check_device_allow({path, "rwm"});
            !checked || !path.starts_with('/'))
            return fail_key(deny, in_quotes(path) + " is no path of a device in /dev");
    out.device_deny = std::move(*paths);
    const std::string unenforced = "R_local.unenforced";
    auto lines = get_list(kv, unenforced, unenforced_max, known);
    if (!lines)
        return std::unexpected(lines.error());
    for (const std::string& line : *lines) {
        if (line.size() > unenforced_bytes_max)
            return fail_key(unenforced, "more than "
                                            + std::to_string(unenforced_bytes_max)
                                            + " bytes in an entry");
        // It will be printed and logged by a privileged process.
        if (std::any_of(line.begin(), line.end(),
                        [](unsigned char c) { return c < ' ' || c > '~'; }))
            return fail_key(unenforced, in_quotes(line) + " is not printable");
    }
    out.unenforced = std::move(*lines);
    return {};
}

Result<> set_affinity(const Cpus& cpus)
{
    CpuSet set(CPU_ALLOC(cpu_ids_max));
    std::size_t size = CPU_ALLOC_SIZE(cpu_ids_max);
    if (!set)
        return fail("cannot set the affinity: out of memory", ENOMEM);
    CPU_ZERO_S(size, set.get());
    for (unsigned cpu : cpus)
        CPU_SET_S(cpu, size, set.get());
    if (::sched_setaffinity(0, size, set.get()) < 0)
        return fail("cannot set the affinity to CPUs " + format_cpus(cpus) + ": "
                        + std::strerror(errno),
                    errno);
    // The kernel leaves out what the cpuset has lost meanwhile.
    auto now = allowed_cpus();
    if (!now)
        return std::unexpected(now.error());
    if (*now != cpus)
        return fail("R_local: CPUs " + format_cpus(cpus) + " were asked for, and only "
                        + format_cpus(*now) + " could be had",
                    EINVAL);
    return {};
}

// Adds the reason why something is not enforced to the warnings, or gives it as the
// refusal that require-containment makes of it.
struct Unenforced {
    bool required;
    std::vector<std::string>& warnings;

    Result<> operator()(const std::string& what) const
    {
        if (required)
            return fail(what
                            + " (refused by require-containment in the IMP's "
                              "configuration)",
                        EPERM);
        warnings.push_back(what);
        return {};
    }
};

Result<> confine_cpus(const Cpus& cpus, const ContainmentPlace& place,
                      std::vector<std::string>& warnings)
{
    auto allowed = allowed_cpus();
    if (!allowed)
        return std::unexpected(allowed.error());
    Cpus missing;
    std::set_difference(cpus.begin(), cpus.end(), allowed->begin(), allowed->end(),
                        std::back_inserter(missing));
    if (!missing.empty())
        return fail("R_local: CPUs " + format_cpus(missing)
                        + " are not among those that the IMP itself has ("
                        + format_cpus(*allowed) + ")",
                    EPERM);
    // Both are set: an affinity may be narrower than the cpuset, and it is all that is
    // left where the cgroup has no such controller.
    if (place.cgroup)
        if (auto set = place.cgroup->set_cpus(format_cpus(cpus)); !set)
            warnings.push_back(
                "R_local: CPUs are enforced by affinity only, which a job "
                "can widen: "
                + set.error().message);
    return set_affinity(cpus);
}

Result<> confine_memory(std::uint64_t bytes, const ContainmentPlace& place,
                        const Unenforced& unenforced)
{
    std::string what = "R_local: the memory limit of " + std::to_string(bytes)
                       + " bytes cannot be " + "enforced: ";
    if (!place.cgroup)
        return unenforced(what + "the IMP has no cgroup of its own");
    auto limit = place.cgroup->memory_max();
    if (!limit)
        return unenforced(what + limit.error().message);
    if (*limit && bytes > **limit)
        return fail("R_local: " + std::to_string(bytes)
                        + " bytes of memory are more than the IMP itself has ("
                        + std::to_string(**limit) + " in " + place.cgroup->path()
                        + "/memory.max)",
                    EPERM);
    if (auto set = place.cgroup->set_memory_max(bytes); !set)
        return unenforced(what + set.error().message);
    return {};
}

Result<> confine_devices(const Containment& containment, const ContainmentPlace& place,
                         const Unenforced& unenforced,
                         std::vector<std::string>& warnings)
{
    auto rules = device_rules(containment.device_policy, containment.device_allow,
                              containment.device_deny, place.root);
    if (!rules)
        return std::unexpected(rules.error());
    if (rules->nothing_denied())
        return {};
    std::string why;
    if (!place.cgroup)
        why = "the IMP has no cgroup of its own";
    else if (auto attached = place.attach(place.cgroup->path(), device_program(*rules));
             !attached)
        why = attached.error().message;
    if (!why.empty() && containment.restricts_devices())
        return fail("options: DevicePolicy and DeviceAllow cannot be enforced: " + why,
                    EPERM);
    if (!why.empty())
        return unenforced("R_local: that GPUs of other jobs are not used cannot be "
                          "enforced: "
                          + why);
    warnings.insert(warnings.end(), rules->remarks.begin(), rules->remarks.end());
    return {};
}

} // namespace

Result<Cpus> parse_cpus(std::string_view text)
{
    Cpus cpus;
    const char* at = text.data();
    const char* end = at + text.size();
    auto bad = [&](const std::string& why) {
        return fail("CPUs " + in_quotes(text) + ": " + why, EINVAL);
    };
    // A number as RFC 22 has it: digits only, no leading zero.
    auto number = [&](unsigned& out) {
        const char* start = at;
        if (at == end || *at < '0' || *at > '9')
            return false;
        auto result = std::from_chars(at, end, out);
        at = result.ptr;
        return result.ec == std::errc{} && (*start != '0' || at == start + 1);
    };
    const std::string form = "this is no list of ids such as \"0-3,8\"";
    while (true) {
        unsigned first = 0;
        if (!number(first))
            return bad(form);
        unsigned last = first;
        if (at != end && *at == '-') {
            at++;
            if (!number(last))
                return bad(form);
        }
        if (last >= cpu_ids_max)
            return bad("ids must be below " + std::to_string(cpu_ids_max));
        if (last < first || (!cpus.empty() && first <= cpus.back()))
            return bad("ids must ascend, each once");
        for (unsigned cpu = first; cpu <= last; cpu++)
            cpus.push_back(cpu);
        if (at == end)
            break;
        if (*at++ != ',')
            return bad(form);
    }
    return cpus;
}

std::string format_cpus(const Cpus& cpus)
{
    std::string out;
    for (std::size_t i = 0; i < cpus.size();) {
        std::size_t last = i;
        while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1)
            last++;
        out += (out.empty() ? "" : ",") + std::to_string(cpus[i]);
        if (last > i)
            out += "-" + std::to_string(cpus[last]);
        i = last + 1;
    }
    return out;
}

Result<Cpus> allowed_cpus()
{
    CpuSet set(CPU_ALLOC(cpu_ids_max));
    std::size_t size = CPU_ALLOC_SIZE(cpu_ids_max);
    if (!set)
        return fail("cannot get the affinity: out of memory", ENOMEM);
    CPU_ZERO_S(size, set.get());
    if (::sched_getaffinity(0, size, set.get()) < 0)
        return fail(std::string("cannot get the affinity: ") + std::strerror(errno),
                    errno);
    Cpus cpus;
    for (unsigned cpu = 0; cpu < cpu_ids_max; cpu++)
        if (CPU_ISSET_S(cpu, size, set.get()))
            cpus.push_back(cpu);
    return cpus;
}

Result<Containment> Containment::from_kv(const Kv& kv)
{
    Containment out;
    Known known;
    if (auto got = get_options(kv, out, known); !got)
        return std::unexpected(got.error());
    if (auto got = get_local_resources(kv, out, known); !got)
        return std::unexpected(got.error());
    // Also what is in a list behind a number that is left out.
    for (const Kv::Pair& pair : kv.pairs())
        if ((pair.key.starts_with("options.") || pair.key.starts_with("R_local."))
            && !known.contains(pair.key))
            return fail("the key " + in_quotes(pair.key) + " is not known here",
                        EINVAL);
    return out;
}

Result<std::vector<std::string>> apply(const Containment& containment,
                                       const ContainmentPlace& place)
{
    std::vector<std::string> warnings;
    Unenforced unenforced{place.require_containment, warnings};
    for (const std::string& line : containment.unenforced)
        if (auto told = unenforced("R_local: " + line); !told)
            return std::unexpected(told.error());
    if (containment.cpus)
        if (auto done = confine_cpus(*containment.cpus, place, warnings); !done)
            return std::unexpected(done.error());
    if (containment.memory)
        if (auto done = confine_memory(*containment.memory, place, unenforced); !done)
            return std::unexpected(done.error());
    // Last: the rest may need devices.
    if (auto done = confine_devices(containment, place, unenforced, warnings); !done)
        return std::unexpected(done.error());
    return warnings;
}

} // namespace fluxdat::imp
