// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/devices.h"

#include "tests/unit/imp/support.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/sysmacros.h>

using namespace fluxdat::imp;
using namespace fluxdat::imp::test;
using Catch::Contains;
using Catch::EndsWith;

namespace {

constexpr unsigned mknod_access = BPF_DEVCG_ACC_MKNOD;
constexpr unsigned read_access = BPF_DEVCG_ACC_READ;
constexpr unsigned write_access = BPF_DEVCG_ACC_WRITE;
constexpr unsigned all_access = mknod_access | read_access | write_access;

// The instructions that device_program() uses, as the kernel executes them.
bool allows(const std::vector<bpf_insn>& program, bool block, unsigned number_major,
            unsigned number_minor, unsigned access)
{
    const std::uint32_t context[] = {
        access << 16 | (block ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR), number_major,
        number_minor};
    std::uint32_t registers[11]{};
    for (std::size_t at = 0; at < program.size(); at++) {
        const bpf_insn& i = program[at];
        std::uint32_t& to = registers[i.dst_reg];
        const auto value = static_cast<std::uint32_t>(i.imm);
        auto jump = [&](bool taken) {
            if (taken)
                at += static_cast<std::size_t>(i.off);
        };
        switch (i.code) {
        case BPF_LDX | BPF_MEM | BPF_W:
            REQUIRE(i.src_reg == 1);
            to = context[i.off / 4];
            break;
        case BPF_ALU | BPF_MOV | BPF_X:
            to = registers[i.src_reg];
            break;
        case BPF_ALU64 | BPF_MOV | BPF_K:
            to = value;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            to &= value;
            break;
        case BPF_ALU | BPF_RSH | BPF_K:
            to >>= value;
            break;
        case BPF_JMP32 | BPF_JNE | BPF_K:
            jump(to != value);
            break;
        case BPF_JMP32 | BPF_JEQ | BPF_K:
            jump(to == value);
            break;
        case BPF_JMP | BPF_EXIT:
            return registers[0] == 1;
        default:
            FAIL("unknown instruction " << int(i.code));
        }
    }
    FAIL("the program has no end");
    return false;
}

bool char_allowed(const DeviceRules& rules, unsigned number_major,
                  unsigned number_minor, unsigned access)
{
    return allows(device_program(rules), false, number_major, number_minor, access);
}

// A file system with the devices that a test wants. Root only can make nodes; others
// use those of this host.
const std::string proc_devices = "Character devices:\n"
                                 "  1 mem\n"
                                 "  4 /dev/vc/0\n"
                                 "136 pts\n"
                                 "195 nvidia-frontend\n"
                                 "235 nvidia-caps\n"
                                 "\n"
                                 "Block devices:\n"
                                 "  7 loop\n"
                                 "253 mem\n";

} // namespace

TEST_CASE("devices: the policies of RFC 15", "[devices]")
{
    CHECK(parse_device_policy("auto") == DevicePolicy::automatic);
    CHECK(parse_device_policy("closed") == DevicePolicy::closed);
    CHECK(parse_device_policy("strict") == DevicePolicy::strict);
    for (const char* bad : {"", "Auto", "open", "closed "})
        CHECK_THAT(parse_device_policy(bad).error().message,
                   EndsWith("is not known: there are auto, closed and strict"));
}

TEST_CASE("devices: what an entry may be", "[devices]")
{
    for (const char* good : {"/dev/null", "/dev/dri/renderD128", "char-pts",
                             "block-loop", "char-*", "/dev/with space", "/dev/..."})
        CHECK(check_device_allow({good, "rw"}));
    for (const char* bad :
         {"", "/dev", "/dev/", "dev/null", "/etc/passwd", "/dev/../etc/passwd",
          "/dev/dri/..", "char-", "block-", "chair-pts", "*"})
        CHECK_THAT(
            check_device_allow({bad, "rw"}).error().message,
            Contains("is no device: it must be /dev/..., char-NAME or block-NAME"));
    CHECK_FALSE(check_device_allow({std::string("/dev/nu\0ll", 10), "rw"}));
    CHECK_THAT(
        check_device_allow({"/dev/" + std::string(5000, 'x'), "rw"}).error().message,
        EndsWith("has more than 4096 bytes"));
    for (const char* good : {"r", "w", "m", "rwm", "mwr", "rr"})
        CHECK(check_device_allow({"/dev/null", good}));
    for (const char* bad : {"", "x", "RW", "r w", "rw,"})
        CHECK_THAT(check_device_allow({"/dev/null", bad}).error().message,
                   EndsWith("is not one or more of r, w and m"));
}

TEST_CASE("devices: auto without entries denies nothing", "[devices]")
{
    auto rules = device_rules(DevicePolicy::automatic, {}, {});
    REQUIRE(rules);
    CHECK(rules->nothing_denied());
    CHECK(char_allowed(*rules, 1, 1, all_access));
    CHECK_FALSE(device_rules(DevicePolicy::closed, {}, {})->nothing_denied());
    CHECK_FALSE(device_rules(DevicePolicy::strict, {}, {})->nothing_denied());
}

TEST_CASE("devices: closed is the baseline of RFC 15", "[devices]")
{
    auto rules = device_rules(DevicePolicy::closed, {}, {});
    REQUIRE(rules);
    // As the kernel has them here, but for /dev/pts.
    for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                             "/dev/urandom", "/dev/tty"}) {
        struct stat status {
        };
        if (::stat(path, &status) < 0)
            continue;
        CHECK(char_allowed(*rules, major(status.st_rdev), minor(status.st_rdev),
                           all_access));
    }
    CHECK(char_allowed(*rules, 5, 2, all_access)); // /dev/ptmx
    CHECK(char_allowed(*rules, 136, 0, read_access | write_access));
    CHECK(char_allowed(*rules, 136, 70000, read_access));
    CHECK_FALSE(char_allowed(*rules, 136, 0, mknod_access));
    CHECK_FALSE(char_allowed(*rules, 136, 0, mknod_access | read_access));
    CHECK_FALSE(char_allowed(*rules, 1, 1, read_access));  // /dev/mem
    CHECK_FALSE(char_allowed(*rules, 5, 1, write_access)); // /dev/console
    CHECK_FALSE(allows(device_program(*rules), true, 1, 3, read_access));
    CHECK_FALSE(char_allowed(*rules, 0xffffffff, 0xffffffff, read_access));
}

TEST_CASE("devices: strict is what is listed, and nothing else", "[devices]")
{
    auto rules = device_rules(DevicePolicy::strict, {{"/dev/null", "r"}}, {});
    REQUIRE(rules);
    CHECK(char_allowed(*rules, 1, 3, read_access));
    CHECK_FALSE(char_allowed(*rules, 1, 3, write_access));
    CHECK_FALSE(char_allowed(*rules, 1, 3, read_access | write_access));
    CHECK_FALSE(char_allowed(*rules, 1, 5, read_access));
    CHECK_FALSE(char_allowed(*rules, 5, 0, read_access));
}

TEST_CASE("devices: auto with entries is closed", "[devices]")
{
    auto automatic = device_rules(DevicePolicy::automatic, {{"/dev/null", "rw"}}, {});
    auto closed = device_rules(DevicePolicy::closed, {{"/dev/null", "rw"}}, {});
    REQUIRE(automatic);
    CHECK(automatic->rules == closed->rules);
    CHECK_FALSE(automatic->otherwise);
}

TEST_CASE("devices: entries for one device add up", "[devices]")
{
    auto rules =
        device_rules(DevicePolicy::strict,
                     {{"/dev/null", "r"}, {"/dev/zero", "r"}, {"/dev/null", "w"}}, {});
    REQUIRE(rules);
    CHECK(rules->rules.size() == 2);
    CHECK(char_allowed(*rules, 1, 3, read_access | write_access));
}

TEST_CASE("devices: classes are looked up in /proc/devices", "[devices]")
{
    TemporaryDirectory root;
    auto with = [&](const char* specifier) {
        auto rules =
            device_rules(DevicePolicy::strict, {{specifier, "rw"}}, {}, root.path());
        REQUIRE(rules);
        return *rules;
    };
    CHECK_THAT(device_rules(DevicePolicy::strict, {{"char-mem", "r"}}, {}, root.path())
                   .error()
                   .message,
               Contains("cannot open") && Contains("/proc/devices"));
    root.write("proc/devices", proc_devices);

    auto memory = with("char-mem");
    REQUIRE(memory.rules.size() == 1);
    CHECK(char_allowed(memory, 1, 200, read_access));
    CHECK_FALSE(char_allowed(memory, 253, 0, read_access));
    // The same name, another kind.
    auto block = with("block-mem");
    CHECK(allows(device_program(block), true, 253, 5, write_access));
    CHECK_FALSE(allows(device_program(block), false, 253, 5, write_access));
    CHECK_FALSE(allows(device_program(block), true, 1, 5, write_access));
    auto glob = with("char-nvidia-*");
    CHECK(char_allowed(glob, 195, 0, read_access));
    CHECK(char_allowed(glob, 235, 0, read_access));
    CHECK_FALSE(char_allowed(glob, 136, 0, read_access));
    CHECK(with("char-*").rules.size() == 5);
    CHECK(with("char-/dev/vc/0").rules.size() == 1);

    auto none = with("char-fuse");
    CHECK(none.rules.empty());
    CHECK_FALSE(none.otherwise);
    REQUIRE(none.remarks.size() == 1);
    CHECK(
        none.remarks[0]
        == "DeviceAllow: \"char-fuse\" is no device of this host, and allows nothing");
}

TEST_CASE("devices: paths that are no devices", "[devices]")
{
    TemporaryDirectory root;
    root.write("dev/file", "");
    auto with = [&](const char* path) {
        return device_rules(DevicePolicy::closed, {{path, "rw"}}, {}, root.path());
    };
    CHECK(with("/dev/file").error().message
          == "DeviceAllow: device \"/dev/file\": this is no device node");
    CHECK(with("/dev/nvidia0")->remarks.size() == 1);
    CHECK(with("/dev/file/x")->remarks.size() == 1);
    std::filesystem::create_symlink("loop", root / "dev/loop");
    CHECK_THAT(with("/dev/loop").error().message, EndsWith("symbolic links"));
    CHECK_THAT(device_rules(DevicePolicy::automatic, {}, {"/dev/file"}, root.path())
                   .error()
                   .message,
               EndsWith("this is no device node"));
    CHECK_THAT(
        device_rules(DevicePolicy::closed, {{"/etc/passwd", "r"}}, {}).error().message,
        Contains("is no device"));
}

TEST_CASE("devices: what is denied stays denied", "[devices]")
{
    // Whatever else is allowed, and although it is in the baseline.
    for (auto policy :
         {DevicePolicy::automatic, DevicePolicy::closed, DevicePolicy::strict}) {
        auto rules = device_rules(policy, {{"/dev/zero", "rwm"}}, {"/dev/zero"});
        REQUIRE(rules);
        CHECK_FALSE(char_allowed(*rules, 1, 5, read_access));
        CHECK_FALSE(char_allowed(*rules, 1, 5, mknod_access));
    }
    // Everything else is as it was.
    auto rules =
        device_rules(DevicePolicy::automatic, {}, {"/dev/zero", "/dev/nosuch"});
    REQUIRE(rules);
    CHECK_FALSE(rules->nothing_denied());
    CHECK(rules->rules.size() == 1);
    CHECK_FALSE(char_allowed(*rules, 1, 5, read_access));
    CHECK(char_allowed(*rules, 1, 1, all_access));
    CHECK(allows(device_program(*rules), true, 1, 5, all_access));
}

TEST_CASE("devices: a denial of some access denies no other", "[devices]")
{
    DeviceRules rules;
    rules.rules.push_back({false, false, 1, 5, write_access});
    CHECK(char_allowed(rules, 1, 5, read_access));
    CHECK_FALSE(char_allowed(rules, 1, 5, write_access));
    CHECK_FALSE(char_allowed(rules, 1, 5, read_access | write_access));
}

TEST_CASE("devices: there are not too many", "[devices]")
{
    std::vector<DeviceAllow> many(device_entries_max + 1, {"/dev/null", "r"});
    CHECK_THAT(device_rules(DevicePolicy::closed, many, {}).error().message,
               EndsWith("more than 256 devices"));
    CHECK_THAT(
        device_rules(DevicePolicy::closed, {},
                     std::vector<std::string>(device_entries_max + 1, "/dev/null"))
            .error()
            .message,
        EndsWith("more than 256 devices"));
    TemporaryDirectory root;
    std::string text = "Character devices:\n";
    for (std::size_t i = 0; i <= device_rules_max; i++)
        text += std::to_string(i) + " x\n";
    root.write("proc/devices", text);
    CHECK_THAT(device_rules(DevicePolicy::strict, {{"char-x", "r"}}, {}, root.path())
                   .error()
                   .message,
               EndsWith("more than 256 kinds of device"));
}

TEST_CASE("devices: the kernel enforces it", "[devices]")
{
    if (auto why = RealCgroup::missing(); !why.empty()) {
        WARN("SKIPPED: " << why);
        return;
    }
    RealCgroup cgroup("imp-test-devices");
    // The largest program there can be is one that the kernel takes.
    DeviceRules rules;
    rules.otherwise = false;
    for (unsigned i = 0; i < device_rules_max; i++)
        rules.rules.push_back({true, false, 100000 + i, i, read_access});
    if (auto attached = attach_device_program(cgroup->path(), device_program(rules));
        !attached) {
        if (attached.error().errnum != EINVAL && attached.error().errnum != ENOSYS
            && attached.error().errnum != EPERM)
            FAIL(attached.error().message);
        WARN("SKIPPED: " << attached.error().message);
        return;
    }
    // Opens in the cgroup; what came of each.
    auto opened = [](const Cgroup& where) {
        return in_child([&] {
            std::string out;
            if (!where.write("cgroup.procs", "0"))
                return std::string("not moved");
            for (const char* path : {"/dev/null", "/dev/zero"})
                for (int mode : {O_RDONLY, O_WRONLY}) {
                    int fd = ::open(path, mode | O_CLOEXEC);
                    out += fd >= 0 ? "yes " : errno == EPERM ? "no " : "? ";
                    ::close(fd);
                }
            return out;
        });
    };
    CHECK(opened(*cgroup) == "no no no no ");

    // A cgroup below cannot take back what one above denies.
    RealCgroup other("imp-test-devices-2");
    REQUIRE(attach_device_program(
        other->path(),
        device_program(*device_rules(DevicePolicy::strict,
                                     {{"/dev/null", "rw"}, {"/dev/zero", "r"}}, {}))));
    CHECK(opened(*other) == "yes yes yes no ");
    Cgroup below(other->path() + "/below");
    REQUIRE(::mkdir(below.path().c_str(), 0755) == 0);
    REQUIRE(attach_device_program(
        below.path(), device_program(*device_rules(DevicePolicy::closed, {}, {}))));
    CHECK(opened(below) == "yes yes yes no ");
    // Nor a second program beside it.
    REQUIRE(attach_device_program(
        other->path(),
        device_program(*device_rules(DevicePolicy::automatic, {}, {"/dev/null"}))));
    CHECK(opened(*other) == "no no yes no ");
}

TEST_CASE("devices: a program that cannot be had", "[devices]")
{
    CHECK_THAT(attach_device_program("/", {}).error().message,
               Contains("cannot load the program that contains devices"));
    auto program = device_program(*device_rules(DevicePolicy::closed, {}, {}));
    auto attached = attach_device_program("/nosuch", program);
    REQUIRE_FALSE(attached);
    if (attached.error().message.starts_with("cannot load")) {
        WARN("SKIPPED: " << attached.error().message);
        return;
    }
    CHECK(attached.error().message
          == "cannot attach the program that contains devices to /nosuch: No such file "
             "or "
             "directory");
    // No cgroup.
    CHECK_THAT(attach_device_program("/tmp", program).error().message,
               Contains("cannot attach the program that contains devices to /tmp"));
}
