// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/contain.h"

#include "tests/unit/imp/support.h"

#include <cerrno>
#include <fcntl.h>

using namespace fluxdat::imp;
using namespace fluxdat::imp::test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

Containment containment_of(const Kv& kv)
{
    auto out = Containment::from_kv(kv);
    if (!out)
        FAIL(out.error().message);
    return *out;
}

// Why a kv with this one pair is refused.
std::string refused(const std::string& key, const std::string& value)
{
    Kv kv;
    REQUIRE(kv.put_string(key, value));
    auto out = Containment::from_kv(kv);
    return out ? "not refused" : out.error().message;
}

std::string refused(const std::string& key, std::int64_t value)
{
    Kv kv;
    REQUIRE(kv.put_integer(key, value));
    auto out = Containment::from_kv(kv);
    return out ? "not refused" : out.error().message;
}

// What apply() gives in a process of its own, and which CPUs that then has.
std::string applied(const Containment& containment, const ContainmentPlace& place)
{
    return in_child([&] {
        auto done = apply(containment, place);
        std::string out = done ? "done" : "refused: " + done.error().message;
        if (done)
            for (const std::string& warning : *done)
                out += "\nwarning: " + warning;
        return out + "\nCPUs " + format_cpus(allowed_cpus().value_or(Cpus{}));
    });
}

// A directory in the place of the IMP's own cgroup, and no eBPF.
struct Place : TemporaryDirectory {
    ContainmentPlace place;
    Place()
    {
        write("imp-shell-1/cgroup.procs", "");
        place.cgroup = Cgroup(*this / "imp-shell-1");
        place.attach = [](const std::string& cgroup,
                          const std::vector<bpf_insn>& program) -> Result<> {
            std::ofstream(cgroup + "/attached") << program.size();
            return {};
        };
    }
};

std::string one_cpu()
{
    return std::to_string(allowed_cpus()->front());
}

Containment of_cpus(const std::string& text)
{
    Containment out;
    out.cpus = *parse_cpus(text);
    return out;
}

// A CPU that this process may not run on.
std::string no_cpu()
{
    return std::to_string(allowed_cpus()->back() + 1);
}

} // namespace

TEST_CASE("contain: lists of CPUs", "[contain]")
{
    CHECK(*parse_cpus("0") == Cpus{0});
    CHECK(*parse_cpus("0-3,8") == Cpus{0, 1, 2, 3, 8});
    CHECK(*parse_cpus("10,12-12") == Cpus{10, 12});
    CHECK(parse_cpus("0-16383")->size() == cpu_ids_max);
    for (const char* text : {"0", "0-3,8", "1,3,5-6"})
        CHECK(format_cpus(*parse_cpus(text)) == text);
    for (const char* bad : {"", "x", "-1", "1-", "1,", ",1", "1,,2", "1 ", " 1", "01",
                            "1-02", "+1", "1-2-3", "[0-1]", "99999999999", "1;2"})
        CHECK_THAT(parse_cpus(bad).error().message,
                   EndsWith("this is no list of ids such as \"0-3,8\""));
    for (const char* bad : {"1,1", "0-3,2", "3-1", "5,4", "0-3,3-4"})
        CHECK_THAT(parse_cpus(bad).error().message,
                   EndsWith("ids must ascend, each once"));
    for (const char* bad : {"16384", "0-16384", "0-4294967295"})
        CHECK_THAT(parse_cpus(bad).error().message,
                   EndsWith("ids must be below 16384"));
}

TEST_CASE("contain: what a child may write", "[contain]")
{
    Kv kv;
    CHECK(containment_of(kv).empty());
    REQUIRE(kv.put_string("J", "somebody else's"));
    CHECK(containment_of(kv).empty());
    REQUIRE(kv.put_string("options.DevicePolicy", "strict"));
    REQUIRE(kv.put_string("options.DeviceAllow.0", "rw /dev/null"));
    REQUIRE(kv.put_string("options.DeviceAllow.1", "r char-a b"));
    REQUIRE(kv.put_string("R_local.cpus", "0-1"));
    REQUIRE(kv.put_integer("R_local.memory", 4096));
    REQUIRE(kv.put_string("R_local.DeviceDeny.0", "/dev/nvidia1"));
    REQUIRE(kv.put_string("R_local.unenforced.0", "gpu 7: ..."));
    auto out = containment_of(kv);
    CHECK(out.device_policy == DevicePolicy::strict);
    CHECK(out.device_allow
          == std::vector<DeviceAllow>{{"/dev/null", "rw"}, {"char-a b", "r"}});
    CHECK(out.cpus == Cpus{0, 1});
    CHECK(out.memory == 4096u);
    CHECK(out.device_deny == std::vector<std::string>{"/dev/nvidia1"});
    CHECK(out.unenforced == std::vector<std::string>{"gpu 7: ..."});
    CHECK_FALSE(out.empty());
}

TEST_CASE("contain: what a child may not write", "[contain]")
{
    CHECK(
        refused("options.DevicePolicy", "open")
        == "options.DevicePolicy: DevicePolicy \"open\" is not known: there are auto, "
           "closed and strict");
    CHECK_THAT(refused("options.DevicePolicy", 1), Contains("options.DevicePolicy"));
    CHECK_THAT(refused("options.DeviceAllow.0", 1), Contains("options.DeviceAllow.0"));
    CHECK(refused("options.DeviceAllow.0", "/dev/null")
          == "options.DeviceAllow.0: \"/dev/null\" is not an access and a device");
    CHECK_THAT(refused("options.DeviceAllow.0", "rwx /dev/null"),
               StartsWith("options.DeviceAllow.0: ") && Contains("\"rwx\""));
    CHECK_THAT(refused("options.DeviceAllow.0", "rw /etc/passwd"),
               Contains("is no device"));
    CHECK_THAT(refused("R_local.cpus", "3-1"),
               StartsWith("R_local.cpus: CPUs \"3-1\""));
    CHECK_THAT(refused("R_local.cpus", 1), Contains("R_local.cpus"));
    CHECK(refused("R_local.memory", 0) == "R_local.memory: 0 bytes are no amount");
    CHECK(refused("R_local.memory", -1) == "R_local.memory: -1 bytes are no amount");
    CHECK_THAT(refused("R_local.memory", "2G"), Contains("R_local.memory"));
    CHECK(refused("R_local.DeviceDeny.0", "char-pts")
          == "R_local.DeviceDeny: \"char-pts\" is no path of a device in /dev");
    CHECK_THAT(refused("R_local.DeviceDeny.0", "/etc/x"), Contains("is no path"));
    CHECK(refused("R_local.unenforced.0", "a\nb")
          == "R_local.unenforced: \"a\\x0ab\" is not printable");
    CHECK(refused("R_local.unenforced.0", std::string(513, 'x'))
          == "R_local.unenforced: more than 512 bytes in an entry");
    // Keys that nobody knows, and lists that are not counted from 0.
    for (const char* key :
         {"options.", "options.x", "R_local.", "R_local.cpu", "R_local.gpus",
          "options.DeviceAllow", "options.DeviceAllow.1", "options.DeviceAllow.00",
          "R_local.unenforced.-1", "R_local.DeviceDeny.x"})
        CHECK(refused(key, "rw /dev/null")
              == "the key \"" + std::string(key) + "\" is not known here");
    Kv many;
    for (std::size_t i = 0; i <= unenforced_max; i++)
        REQUIRE(many.put_string("R_local.unenforced." + std::to_string(i), "x"));
    CHECK(Containment::from_kv(many).error().message
          == "R_local.unenforced: more than 64 entries");
}

TEST_CASE("contain: nothing to do is nothing done", "[contain]")
{
    Place host;
    std::string before = format_cpus(*allowed_cpus());
    CHECK(applied({}, host.place) == "done\nCPUs " + before);
    CHECK(applied({}, {}) == "done\nCPUs " + before);
    CHECK_FALSE(std::filesystem::exists(host / "imp-shell-1/attached"));
}

TEST_CASE("contain: CPUs really, by affinity", "[contain]")
{
    // Without a cgroup, and where required: it is what there is.
    ContainmentPlace place;
    place.require_containment = true;
    CHECK(applied(of_cpus(one_cpu()), place) == "done\nCPUs " + one_cpu());
    std::string all = format_cpus(*allowed_cpus());
    CHECK(applied(of_cpus(all), place) == "done\nCPUs " + all);
}

TEST_CASE("contain: CPUs by cpuset where there is one", "[contain]")
{
    Place host;
    host.write("imp-shell-1/cpuset.cpus", "\n");
    CHECK(applied(of_cpus(one_cpu()), host.place) == "done\nCPUs " + one_cpu());
    CHECK(host.read("imp-shell-1/cpuset.cpus") == one_cpu());

    std::filesystem::remove(host / "imp-shell-1/cpuset.cpus");
    CHECK_THAT(applied(of_cpus(one_cpu()), host.place),
               StartsWith("done\nwarning: R_local: CPUs are enforced by affinity only, "
                          "which a job can widen: cannot open")
                   && EndsWith("\nCPUs " + one_cpu()));
}

TEST_CASE("contain: no CPU that the IMP does not have", "[contain]")
{
    Place host;
    host.write("imp-shell-1/cpuset.cpus", "\n");
    std::string all = format_cpus(*allowed_cpus());
    std::string wanted = one_cpu() + "," + no_cpu();
    std::string refusal = "refused: R_local: CPUs " + no_cpu()
                          + " are not among those that the IMP itself has (" + all
                          + ")\nCPUs " + all;
    CHECK(applied(of_cpus(wanted), host.place) == refusal);
    CHECK(applied(of_cpus(wanted), {}) == refusal);
    CHECK(host.read("imp-shell-1/cpuset.cpus") == "\n");

    if (allowed_cpus()->size() < 2) {
        WARN("SKIPPED: only one CPU here");
        return;
    }
    // What an affinity has taken away is not given back.
    auto narrowed = in_child([&] {
        if (!apply(of_cpus(one_cpu()), {}))
            return std::string("not narrowed");
        auto done = apply(of_cpus(all), {});
        return done ? std::string("widened") : done.error().message;
    });
    CHECK_THAT(narrowed, Contains("are not among those that the IMP itself has ("
                                  + one_cpu() + ")"));
}

TEST_CASE("contain: memory by memory.max", "[contain]")
{
    Place host;
    std::string cpus = "\nCPUs " + format_cpus(*allowed_cpus());
    Containment wanted;
    wanted.memory = 1 << 30;
    CHECK_THAT(
        applied(wanted, host.place),
        StartsWith("done\nwarning: R_local: the memory limit of 1073741824 bytes "
                   "cannot be enforced: cannot open")
            && Contains("/memory.max: No such file"));
    host.write("imp-shell-1/memory.max", "max\n");
    CHECK(applied(wanted, host.place) == "done" + cpus);
    CHECK(host.read("imp-shell-1/memory.max") == "1073741824");
    // Less is fine, more is not.
    wanted.memory = 1 << 20;
    CHECK(applied(wanted, host.place) == "done" + cpus);
    wanted.memory = (1 << 20) + 1;
    CHECK(
        applied(wanted, host.place)
        == "refused: R_local: 1048577 bytes of memory are more than the IMP itself has "
           "(1048576 in "
               + host.path() + "/imp-shell-1/memory.max)" + cpus);
    CHECK(host.read("imp-shell-1/memory.max") == "1048576");
    CHECK(applied(wanted, {})
          == "done\nwarning: R_local: the memory limit of 1048577 bytes cannot be "
             "enforced: the IMP has no cgroup of its own"
                 + cpus);
}

TEST_CASE("contain: require-containment refuses what cannot be enforced", "[contain]")
{
    Place host;
    host.place.require_containment = true;
    const std::string rule =
        "(refused by require-containment in the IMP's configuration)";
    Containment memory;
    memory.memory = 4096;
    CHECK_THAT(applied(memory, host.place), StartsWith("refused: ") && Contains(rule));
    host.place.cgroup.reset();
    CHECK_THAT(applied(memory, host.place),
               Contains("the IMP has no cgroup of its own " + rule));
    Containment reported;
    reported.unenforced = {"gpu 3: 2 GPUs were found on this host"};
    CHECK_THAT(
        applied(reported, host.place),
        StartsWith("refused: R_local: gpu 3: 2 GPUs were found on this host " + rule));
    Containment gpus;
    gpus.device_deny = {"/dev/zero"};
    CHECK_THAT(
        applied(gpus, host.place),
        Contains("GPUs of other jobs are not used cannot be enforced: the IMP has "
                 "no cgroup of its own "
                 + rule));
    host.place.require_containment = false;
    for (const Containment& each : {memory, reported, gpus})
        CHECK_THAT(applied(each, host.place), StartsWith("done\nwarning: R_local: "));
}

TEST_CASE("contain: restrictions of devices are attached or refused", "[contain]")
{
    Place host;
    Containment wanted;
    wanted.device_policy = DevicePolicy::closed;
    wanted.device_allow = {{"/dev/zero", "rw"}, {"/dev/nosuch", "rw"}};
    CHECK_THAT(applied(wanted, host.place),
               StartsWith("done\nwarning: DeviceAllow: \"/dev/nosuch\" is no device of "
                          "this host, and allows nothing\n"));
    auto expected =
        device_program(*device_rules(wanted.device_policy, wanted.device_allow, {}));
    CHECK(host.read("imp-shell-1/attached") == std::to_string(expected.size()));

    // RFC 15 says that they SHALL be applied, whatever the configuration says.
    ContainmentPlace nowhere;
    CHECK_THAT(applied(wanted, nowhere),
               StartsWith("refused: options: DevicePolicy and DeviceAllow cannot be "
                          "enforced: the IMP has no cgroup of its own\n"));
    host.place.attach = [](const std::string&,
                           const std::vector<bpf_insn>&) -> Result<> {
        return fail("the kernel has no such thing");
    };
    CHECK_THAT(applied(wanted, host.place),
               StartsWith("refused: options: ")
                   && Contains("cannot be enforced: the kernel has no such thing"));
    Containment gpus;
    gpus.device_deny = {"/dev/zero"};
    CHECK_THAT(
        applied(gpus, host.place),
        StartsWith("done\nwarning: R_local: that GPUs of other jobs are not used "
                   "cannot be enforced: the kernel has no such thing"));
    // "auto" alone restricts nothing, and so needs nothing.
    Containment automatic;
    automatic.device_policy = DevicePolicy::automatic;
    CHECK_THAT(applied(automatic, nowhere), StartsWith("done\nCPUs"));
    Containment wrong;
    wrong.device_deny = {"/dev/fd"};
    CHECK_THAT(applied(wrong, host.place), Contains("this is no device node"));
}

TEST_CASE("contain: in a real cgroup", "[contain]")
{
    if (auto why = RealCgroup::missing(); !why.empty()) {
        WARN("SKIPPED: " << why);
        return;
    }
    RealCgroup cgroup("imp-shell-contain");
    Containment wanted = of_cpus(one_cpu());
    wanted.device_policy = DevicePolicy::strict;
    wanted.device_allow = {{"/dev/null", "rw"}};
    wanted.device_deny = {"/dev/zero"};
    ContainmentPlace place;
    place.cgroup = *cgroup;
    std::string out = in_child([&] {
        if (!cgroup->write("cgroup.procs", "0"))
            return std::string("not moved");
        auto done = apply(wanted, place);
        if (!done)
            return done.error().message;
        std::string text = format_cpus(*allowed_cpus());
        for (const char* path : {"/dev/null", "/dev/zero", "/dev/full"})
            text += ::open(path, O_RDONLY | O_CLOEXEC) >= 0 ? " yes" : " no";
        return text;
    });
    if (out.starts_with("options:")) {
        WARN("SKIPPED: " << out);
        return;
    }
    CHECK(out == one_cpu() + " yes no no");
}
