// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Which devices a job may use: RFC 15, "Device Containment"; semantics of DevicePolicy=
// and DeviceAllow= of systemd.resource-control(5). They become a small eBPF program
// that the kernel runs on every open(2) and mknod(2) of a device node by a process of
// the cgroup that it is attached to, and of all cgroups below.
//
// Such a program only takes away: where cgroups above have one of their own, all must
// agree, and file modes hold as ever. So nothing here can give a job a device that the
// IMP's own cgroup does not have.
#pragma once

#include "lib/imp/result.h"

#include <cstdint>
#include <linux/bpf.h>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::imp {

// Most entries of DeviceAllow, and rules that are made of them (char-NAME may be many
// majors). The kernel's check of a program takes time that grows with the square of its
// length, milliseconds for this, and gives up at some 1200 rules.
constexpr std::size_t device_entries_max = 256;
constexpr std::size_t device_rules_max = 256;
// Bytes of a specifier: as long as a path may be.
constexpr std::size_t device_specifier_max = 4096;

enum class DevicePolicy {
    automatic, // "auto": as closed when there is a DeviceAllow, else all devices
    closed,    // the baseline devices and DeviceAllow
    strict,    // DeviceAllow only
};
// A refusal naming the words there are.
Result<DevicePolicy> parse_device_policy(const std::string& text);

// One entry of DeviceAllow.
struct DeviceAllow {
    std::string specifier; // "/dev/…", "char-NAME", "block-NAME"; NAME may have * and ?
    std::string access;    // of 'r', 'w', 'm'
    bool operator==(const DeviceAllow&) const = default;
};
// Whether it is one, as far as that can be told without looking at devices: nothing, or
// a refusal that names the entry.
Result<> check_device_allow(const DeviceAllow& entry);

// What the kernel is asked to distinguish.
struct DeviceRule {
    bool allow = true;
    bool block = false;                 // else a character device
    std::optional<std::uint32_t> major; // nothing: all
    std::optional<std::uint32_t> minor;
    std::uint32_t access = 0; // of BPF_DEVCG_ACC_MKNOD, _READ, _WRITE
    bool operator==(const DeviceRule&) const = default;
};

struct DeviceRules {
    // The first that fits decides. A rule that allows fits an access when it allows all
    // of it, one that denies when it denies some of it.
    std::vector<DeviceRule> rules;
    bool otherwise = true; // what holds for a device that no rule fits
    // Entries that came to nothing, each as a line for a person: there is no such
    // device here. As with systemd, that is no reason to fail.
    std::vector<std::string> remarks;

    // All devices are allowed: no program is needed.
    bool nothing_denied() const { return rules.empty() && otherwise; }
};

// Looks devices up now, by stat(2) and in /proc/devices. `deny` are paths of device
// nodes that are denied whatever the rest says (GPUs that are not the job's); one that
// is not there is left out. Fails as check_device_allow() does, on a path that is no
// device, and where there are too many. `root` is put before all paths (tests).
Result<DeviceRules> device_rules(DevicePolicy policy,
                                 const std::vector<DeviceAllow>& allow,
                                 const std::vector<std::string>& deny,
                                 const std::string& root = {});

// The program, of type BPF_PROG_TYPE_CGROUP_DEVICE.
std::vector<bpf_insn> device_program(const DeviceRules& rules);

// Loads a program and attaches it to the cgroup of this path, where it stays as long as
// the cgroup is there, together with what is attached there already. Needs CAP_BPF and
// CAP_NET_ADMIN, or CAP_SYS_ADMIN. The message says when the kernel has no such
// programs.
Result<> attach_device_program(const std::string& cgroup,
                               const std::vector<bpf_insn>& program);

} // namespace fluxdat::imp
