// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/devices.h"

#include "lib/imp/bytes.h"
#include "lib/imp/fd.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

constexpr std::uint32_t access_all =
    BPF_DEVCG_ACC_MKNOD | BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;

// The baseline of RFC 15, by the numbers that Linux has given these devices for good
// (its admin-guide/devices.txt). Not by stat(2): what is at a path can be changed.
struct Baseline {
    std::uint32_t major;
    std::optional<std::uint32_t> minor;
    std::uint32_t access;
};
constexpr Baseline baseline[] = {
    {1, 3, access_all},                                  // /dev/null
    {1, 5, access_all},                                  // /dev/zero
    {1, 7, access_all},                                  // /dev/full
    {1, 8, access_all},                                  // /dev/random
    {1, 9, access_all},                                  // /dev/urandom
    {5, 0, access_all},                                  // /dev/tty
    {5, 2, access_all},                                  // /dev/ptmx
    {136, {}, BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE}, // /dev/pts/*
};

std::uint32_t access_bits(const std::string& access)
{
    std::uint32_t bits = 0;
    for (char c : access)
        bits |= c == 'r'   ? BPF_DEVCG_ACC_READ
                : c == 'w' ? BPF_DEVCG_ACC_WRITE
                           : BPF_DEVCG_ACC_MKNOD;
    return bits;
}

// Two entries for one device allow together what either does.
void add(std::vector<DeviceRule>& rules, const DeviceRule& rule)
{
    for (DeviceRule& there : rules)
        if (there.allow == rule.allow && there.block == rule.block
            && there.major == rule.major && there.minor == rule.minor) {
            there.access |= rule.access;
            return;
        }
    rules.push_back(rule);
}

// The rule for one device node; nothing where there is none.
Result<std::optional<DeviceRule>>
rule_for_node(const std::string& path, std::uint32_t access, const std::string& root)
{
    struct stat status;
    if (::stat((root + path).c_str(), &status) < 0) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ENXIO)
            return std::nullopt;
        int errnum = errno;
        return fail("device " + in_quotes(path) + ": " + std::strerror(errnum), errnum);
    }
    if (!S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode))
        return fail("device " + in_quotes(path) + ": this is no device node", ENODEV);
    DeviceRule rule;
    rule.block = S_ISBLK(status.st_mode);
    rule.major = major(status.st_rdev);
    rule.minor = minor(status.st_rdev);
    rule.access = access;
    return rule;
}

// proc(5), /proc/devices: a heading for each kind, then lines of major and name.
Result<std::vector<std::uint32_t>> majors_of(bool block, const std::string& pattern,
                                             const std::string& root)
{
    std::string path = root + "/proc/devices";
    // Not a stream: those bring the locales into a program that needs none.
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
        return fail("cannot open " + path + ": " + std::strerror(errno), errno);
    Bytes text;
    for (;;) {
        auto room = text.room();
        auto got = ::read(file.get(), room.data(), room.size());
        if (got < 0)
            return fail("cannot read " + path + ": " + std::strerror(errno), errno);
        if (got == 0)
            break;
        text.filled(static_cast<std::size_t>(got));
    }
    std::vector<std::uint32_t> majors;
    bool in_section = false;
    for (auto rest = text.view(); !rest.empty();) {
        std::string line(rest.substr(0, rest.find('\n')));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        if (line.ends_with(':')) {
            in_section = line == (block ? "Block devices:" : "Character devices:");
            continue;
        }
        auto number = line.find_first_not_of(' ');
        auto space = line.find(' ', number);
        if (!in_section || number == line.npos || space == line.npos)
            continue;
        std::uint32_t value = 0;
        auto [end, error] =
            std::from_chars(line.data() + number, line.data() + space, value);
        if (error == std::errc{} && end == line.data() + space
            && ::fnmatch(pattern.c_str(), line.c_str() + space + 1, 0) == 0)
            majors.push_back(value);
    }
    return majors;
}

Result<> add_entry(DeviceRules& out, const DeviceAllow& entry, const std::string& root)
{
    if (auto checked = check_device_allow(entry); !checked)
        return checked;
    std::uint32_t access = access_bits(entry.access);
    bool none = false;
    if (entry.specifier.starts_with('/')) {
        auto rule = rule_for_node(entry.specifier, access, root);
        if (!rule)
            return fail("DeviceAllow: " + rule.error().message, rule.error().errnum);
        none = !*rule;
        if (*rule)
            add(out.rules, **rule);
    } else {
        bool block = entry.specifier.starts_with("block-");
        auto majors = majors_of(block, entry.specifier.substr(block ? 6 : 5), root);
        if (!majors)
            return std::unexpected(majors.error());
        none = majors->empty();
        for (std::uint32_t number : *majors)
            add(out.rules, {true, block, number, {}, access});
    }
    if (none)
        out.remarks.push_back("DeviceAllow: " + in_quotes(entry.specifier)
                              + " is no device of this host, and allows nothing");
    return {};
}

// The kernel's instructions, as far as they are needed: linux/bpf.h.
bpf_insn instruction(int code, int destination, int source, int offset,
                     std::int32_t value)
{
    bpf_insn out{};
    out.code = static_cast<__u8>(code);
    out.dst_reg = static_cast<__u8>(destination & 0xf);
    out.src_reg = static_cast<__u8>(source & 0xf);
    out.off = static_cast<__s16>(offset);
    out.imm = value;
    return out;
}
bpf_insn load_word(int destination, int source, std::size_t offset)
{
    return instruction(BPF_LDX | BPF_MEM | BPF_W, destination, source,
                       static_cast<int>(offset), 0);
}
bpf_insn move(int destination, int source)
{
    return instruction(BPF_ALU | BPF_MOV | BPF_X, destination, source, 0, 0);
}
bpf_insn set(int destination, std::int32_t value)
{
    return instruction(BPF_ALU64 | BPF_MOV | BPF_K, destination, 0, 0, value);
}
bpf_insn bits_and(int destination, std::int32_t mask)
{
    return instruction(BPF_ALU | BPF_AND | BPF_K, destination, 0, 0, mask);
}
bpf_insn shift_right(int destination, std::int32_t bits)
{
    return instruction(BPF_ALU | BPF_RSH | BPF_K, destination, 0, 0, bits);
}
// JMP32: majors and minors are unsigned words, an immediate is a signed one.
bpf_insn skip_unless(int destination, std::uint32_t value)
{
    return instruction(BPF_JMP32 | BPF_JNE | BPF_K, destination, 0, 0,
                       static_cast<std::int32_t>(value));
}
bpf_insn skip_if(int destination, std::uint32_t value)
{
    return instruction(BPF_JMP32 | BPF_JEQ | BPF_K, destination, 0, 0,
                       static_cast<std::int32_t>(value));
}

long bpf(int command, bpf_attr& attributes)
{
    return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

} // namespace

Result<DevicePolicy> parse_device_policy(const std::string& text)
{
    if (text == "auto")
        return DevicePolicy::automatic;
    if (text == "closed")
        return DevicePolicy::closed;
    if (text == "strict")
        return DevicePolicy::strict;
    return fail("DevicePolicy " + in_quotes(text)
                    + " is not known: there are auto, closed and strict",
                EINVAL);
}

Result<> check_device_allow(const DeviceAllow& entry)
{
    const std::string& specifier = entry.specifier;
    std::string named = "DeviceAllow: " + in_quotes(specifier);
    if (specifier.size() > device_specifier_max)
        return fail(named + " has more than " + std::to_string(device_specifier_max)
                        + " bytes",
                    EINVAL);
    bool node = specifier.starts_with("/dev/") && specifier.size() > 5;
    bool group = (specifier.starts_with("char-") && specifier.size() > 5)
                 || (specifier.starts_with("block-") && specifier.size() > 6);
    if ((!node && !group) || (specifier + "/").contains("/../")
        || specifier.contains('\0'))
        return fail(named
                        + " is no device: it must be /dev/..., char-NAME or "
                          "block-NAME",
                    EINVAL);
    if (entry.access.empty()
        || entry.access.find_first_not_of("rwm") != std::string::npos)
        return fail(named + ": the access " + in_quotes(entry.access)
                        + " is not one or more of r, w and m",
                    EINVAL);
    return {};
}

Result<DeviceRules> device_rules(DevicePolicy policy,
                                 const std::vector<DeviceAllow>& allow,
                                 const std::vector<std::string>& deny,
                                 const std::string& root)
{
    DeviceRules out;
    if (allow.size() > device_entries_max || deny.size() > device_entries_max)
        return fail("DeviceAllow: more than " + std::to_string(device_entries_max)
                        + " devices",
                    E2BIG);
    for (const std::string& path : deny) {
        auto rule = rule_for_node(path, access_all, root);
        if (!rule)
            return std::unexpected(rule.error());
        if (!*rule)
            continue;
        (*rule)->allow = false;
        add(out.rules, **rule);
    }
    if (policy == DevicePolicy::automatic && allow.empty())
        return out;
    out.otherwise = false;
    if (policy != DevicePolicy::strict)
        for (const Baseline& device : baseline)
            add(out.rules, {true, false, device.major, device.minor, device.access});
    for (const DeviceAllow& entry : allow)
        if (auto added = add_entry(out, entry, root); !added)
            return std::unexpected(added.error());
    if (out.rules.size() > device_rules_max)
        return fail("DeviceAllow: more than " + std::to_string(device_rules_max)
                        + " kinds of device",
                    E2BIG);
    return out;
}

std::vector<bpf_insn> device_program(const DeviceRules& rules)
{
    // r1 comes as the context; r0 is the verdict.
    enum {
        verdict = 0,
        context = 1,
        type = 2,
        access = 3,
        number_major = 4,
        number_minor = 5,
        scratch = 1
    };
    std::vector<bpf_insn> program = {
        load_word(type, context, offsetof(bpf_cgroup_dev_ctx, access_type)),
        load_word(number_major, context, offsetof(bpf_cgroup_dev_ctx, major)),
        load_word(number_minor, context, offsetof(bpf_cgroup_dev_ctx, minor)),
        move(access, type),
        shift_right(access, 16),
        bits_and(type, 0xffff),
    };
    for (const DeviceRule& rule : rules.rules) {
        std::vector<bpf_insn> code; // of which what skips leads behind it
        code.push_back(
            skip_unless(type, rule.block ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR));
        if (rule.major)
            code.push_back(skip_unless(number_major, *rule.major));
        if (rule.minor)
            code.push_back(skip_unless(number_minor, *rule.minor));
        if (rule.allow && rule.access != access_all) {
            code.push_back(move(scratch, access));
            code.push_back(bits_and(
                scratch, static_cast<std::int32_t>(access_all & ~rule.access)));
            code.push_back(skip_unless(scratch, 0));
        } else if (!rule.allow && rule.access != access_all) {
            code.push_back(move(scratch, access));
            code.push_back(bits_and(scratch, static_cast<std::int32_t>(rule.access)));
            code.push_back(skip_if(scratch, 0));
        }
        code.push_back(set(verdict, rule.allow));
        code.push_back(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
        for (std::size_t i = 0; i < code.size(); i++)
            if (BPF_CLASS(code[i].code) == BPF_JMP32)
                code[i].off = static_cast<__s16>(code.size() - i - 1);
        program.insert(program.end(), code.begin(), code.end());
    }
    program.push_back(set(verdict, rules.otherwise));
    program.push_back(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
    return program;
}

Result<> attach_device_program(const std::string& cgroup,
                               const std::vector<bpf_insn>& program)
{
    bpf_attr load{};
    load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    load.insns = reinterpret_cast<std::uintptr_t>(program.data());
    load.insn_cnt = static_cast<__u32>(program.size());
    // The program calls nothing that would ask for a license.
    load.license = reinterpret_cast<std::uintptr_t>("LGPL-3.0-or-later");
    Fd loaded(static_cast<int>(bpf(BPF_PROG_LOAD, load)));
    if (!loaded) {
        int errnum = errno;
        std::string why = errnum == EINVAL || errnum == ENOSYS
                              ? " (the kernel needs CONFIG_CGROUP_BPF)"
                              : "";
        return fail(std::string("cannot load the program that contains devices: ")
                        + std::strerror(errnum) + why,
                    errnum);
    }
    Fd directory(::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bpf_attr attach{};
    attach.target_fd = static_cast<__u32>(directory.get());
    attach.attach_bpf_fd = static_cast<__u32>(loaded.get());
    attach.attach_type = BPF_CGROUP_DEVICE;
    attach.attach_flags = BPF_F_ALLOW_MULTI;
    if (!directory || bpf(BPF_PROG_ATTACH, attach) < 0) {
        int errnum = errno;
        return fail("cannot attach the program that contains devices to " + cgroup
                        + ": " + std::strerror(errnum),
                    errnum);
    }
    return {};
}

} // namespace fluxdat::imp
