// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/reader/contained.h"

#include "lib/imp/contain.h"
#include "tests/unit/imp/support.h"

using namespace fluxdat::imp;
using namespace fluxdat::imp::reader;
using namespace fluxdat::imp::test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using Json = nlohmann::json;

namespace {

// A machine as hwloc(7) describes it, instead of this one.
class Machine
{
public:
    explicit Machine(const char* synthetic)
    {
        ::setenv("HWLOC_SYNTHETIC", synthetic, 1);
    }
    ~Machine() { ::unsetenv("HWLOC_SYNTHETIC"); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;
};

Kv kv_of(const char* text, const std::string& root = {})
{
    Kv kv;
    auto put = put_contained(Json::parse(text), kv, root);
    if (!put)
        FAIL(put.error().message);
    // What one half writes, the other understands.
    auto understood = Containment::from_kv(kv);
    if (!understood)
        FAIL(understood.error().message);
    return kv;
}

std::string refused(const std::string& text)
{
    Kv kv;
    auto put = put_contained(Json::parse(text), kv);
    return put ? "not refused" : put.error().message;
}

std::string refused_R(const std::string& resources)
{
    return refused("{\"R_local\": " + resources + "}");
}

// A GPU in a directory in the place of /sys and /proc.
void add_gpu(const TemporaryDirectory& root, const std::string& address,
             const std::string& driver, const std::vector<std::string>& drm,
             const std::string& pci_class = "0x030200")
{
    std::string device = "sys/bus/pci/devices/" + address;
    root.write(device + "/class", pci_class + "\n");
    if (!driver.empty())
        std::filesystem::create_symlink("../../../bus/pci/drivers/" + driver,
                                        root / (device + "/driver"));
    for (const std::string& name : drm)
        root.write(device + "/drm/" + name + "/dev", "226:0\n");
}

std::vector<std::string> list(const Kv& kv, const std::string& prefix)
{
    return *kv_to_argv(kv_split(kv, prefix + "."));
}

} // namespace

TEST_CASE("contained: an input without them", "[contained]")
{
    CHECK(kv_of(R"({"J": "x"})").size() == 0);
    CHECK(kv_of(R"({"options": {}, "R_local": {}})").size() == 0);
}

TEST_CASE("contained: options", "[contained]")
{
    auto kv = kv_of(R"({"options": {"DevicePolicy": "closed", "nosuch": [{}],
                        "DeviceAllow": [["/dev/nvidia0", "rw"], ["char-pts", "r"]]}})");
    CHECK(kv.size() == 3);
    CHECK(kv.get_string("options.DevicePolicy") == "closed");
    CHECK(kv.get_string("options.DeviceAllow.0") == "rw /dev/nvidia0");
    CHECK(kv.get_string("options.DeviceAllow.1") == "r char-pts");
    CHECK(kv_of(R"({"options": {"DeviceAllow": []}})").size() == 0);
}

TEST_CASE("contained: options of a wrong type", "[contained]")
{
    for (const char* options : {"null", "[]", "\"closed\"", "1"})
        CHECK(refused("{\"options\": " + std::string(options) + "}")
              == "options: must be an object");
    for (const char* policy : {"null", "1", "[\"closed\"]"})
        CHECK(refused("{\"options\": {\"DevicePolicy\": " + std::string(policy) + "}}")
              == "options.DevicePolicy: must be a string");
    CHECK(refused(R"({"options": {"DevicePolicy": "clo\u0000sed"}})")
              .starts_with("options.DevicePolicy: "));
    for (const char* allow : {"null", "\"/dev/null\"", "{}"})
        CHECK(refused("{\"options\": {\"DeviceAllow\": " + std::string(allow) + "}}")
              == "options.DeviceAllow: must be an array of [specifier, access]");
    for (const char* entry :
         {"\"/dev/null\"", "[]", "[\"/dev/null\"]", "[\"/dev/null\", 6]", "[1, \"rw\"]",
          "[\"/dev/null\", \"rw\", \"\"]"})
        CHECK(refused("{\"options\": {\"DeviceAllow\": [[\"a\", \"b\"], "
                      + std::string(entry) + "]}}")
              == "options.DeviceAllow[1]: must be [specifier, access], two strings");
    CHECK(refused(R"({"options": {"DeviceAllow": [["/dev/\u0000", "rw"]]}})")
              .starts_with("options.DeviceAllow[0]: "));
}

TEST_CASE("contained: cores become all their hardware threads", "[contained]")
{
    // Threads of a core are numbered one after the other here.
    Machine machine("package:2 core:4 pu:2");
    CHECK(kv_of(R"({"R_local": {"cpu": [0]}})").get_string("R_local.cpus") == "0-1");
    CHECK(kv_of(R"({"R_local": {"cpu": [7, 0, 1]}})").get_string("R_local.cpus")
          == "0-3,14-15");
    CHECK(refused_R(R"({"cpu": [0, 8]})")
          == "R_local.cpu: this host has no core 8: it has 8");
}

TEST_CASE("contained: logical ids are not the kernel's", "[contained]")
{
    // The kernel's ids go around the packages, as they do on many real machines.
    Machine machine("package:2 core:2 pu:1(indexes=0,2,1,3)");
    CHECK(kv_of(R"({"R_local": {"cpu": [0, 1]}})").get_string("R_local.cpus") == "0,2");
    CHECK(kv_of(R"({"R_local": {"cpu": [2]}})").get_string("R_local.cpus") == "1");
}

TEST_CASE("contained: this machine", "[contained]")
{
    auto kv = kv_of(R"({"R_local": {"cpu": [0]}})");
    CHECK(parse_cpus(*kv.get_string("R_local.cpus")));
}

TEST_CASE("contained: ids that are none", "[contained]")
{
    Machine machine("core:4 pu:1");
    for (std::string type : {"cpu", "gpu"}) {
        for (const char* wrong : {"null", "0", "\"0-3\"", "{}"})
            CHECK(refused_R("{\"" + type + "\": " + wrong + "}")
                  == "R_local." + type + ": must be an array of logical ids");
        for (const char* wrong :
             {"-1", "1.5", "\"0\"", "true", "null", "[0]", "1048576",
              "18446744073709551615", "1e300", "-9223372036854775808"})
            CHECK_THAT(
                refused_R("{\"" + type + "\": [1, " + wrong + "]}"),
                StartsWith("R_local." + type + "[1]: ")
                    && EndsWith("is no logical id: it must be a number from 0 to "
                                "1048575"));
        CHECK(refused_R("{\"" + type + "\": [0, 2, 0]}")
              == "R_local." + type + "[2]: the id \"0\" is there twice");
    }
    CHECK(refused_R(R"({"cpu": []})") == "R_local.cpu: a job cannot run on no core");
}

TEST_CASE("contained: memory", "[contained]")
{
    auto bytes = [](const std::string& amounts) {
        return kv_of(("{\"R_local\": {\"memory\": " + amounts + "}}").c_str())
            .get_integer("R_local.memory");
    };
    CHECK(bytes("[\"2G\"]") == 2147483648);
    CHECK(bytes("[\"1K\", \"1M\", 5, \"7\"]") == 1024 + 1048576 + 12);
    CHECK(bytes("[\"8388607T\"]") == 8388607LL << 40);
    CHECK(bytes("[9223372036854775807]") == INT64_MAX);
    for (const char* wrong : {"null", "\"2G\"", "{}", "2048"})
        CHECK(refused_R("{\"memory\": " + std::string(wrong) + "}")
              == "R_local.memory: must be an array of amounts such as \"2G\"");
    for (const char* wrong :
         {"\"\"", "\"G\"", "\"-2G\"", "-1", "1.5", "\"1.5G\"", "\"2 G\"", "\"2GB\"",
          "\"2g\"", "\"8388608T\"", "9223372036854775808", "\"99999999999999999999\"",
          "true", "null", "[]"})
        CHECK_THAT(refused_R("{\"memory\": [1, " + std::string(wrong) + "]}"),
                   StartsWith("R_local.memory[1]: ")
                       && Contains("is no amount: it must"));
    CHECK(refused_R(R"({"memory": [9223372036854775807, 1]})")
          == "R_local.memory: more than 8 EiB");
    for (const char* none : {"[]", "[0]", "[\"0G\"]"})
        CHECK(refused_R("{\"memory\": " + std::string(none) + "}")
              == "R_local.memory: a job cannot run in no memory");
}

TEST_CASE("contained: resources that nobody enforces", "[contained]")
{
    for (const char* wrong : {"null", "[]", "\"cpu\"", "1"})
        CHECK(refused_R(wrong) == "R_local: must be an object");
    CHECK(refused_R(R"({"fpga": [0]})")
          == "R_local: the type of resource \"fpga\" is not known: there are cpu, gpu "
             "and "
             "memory");
    CHECK_THAT(refused_R(R"({"": [0]})"), Contains("is not known"));
}

TEST_CASE("contained: GPUs are enforced by denying the others", "[contained]")
{
    TemporaryDirectory root;
    // In another order than that of their addresses.
    add_gpu(root, "10000:01:00.0", "xe", {"renderD132"});
    add_gpu(root, "0000:c1:00.0", "amdgpu", {"card2", "renderD130", "version"},
            "0x120000");
    add_gpu(root, "0000:3b:00.0", "nvidia", {"card1", "renderD128"});
    root.write("proc/driver/nvidia/gpus/0000:3b:00.0/information",
               "Model: \t\t A100\nDevice Minor: \t 3\n");
    // None of these is a GPU.
    add_gpu(root, "0000:02:00.0", "ast", {"card0"}, "0x030000");
    add_gpu(root, "0000:04:00.0", "nvidia", {}, "0x040300"); // its audio
    add_gpu(root, "0000:05:00.0", "", {}, "0x030000");
    add_gpu(root, "0000:06:00.0", "vfio-pci", {}, "0x030200");

    auto denied = [&](const char* ids) {
        auto kv = kv_of(ids, root.path());
        CHECK(list(kv, "R_local.unenforced").empty());
        return list(kv, "R_local.DeviceDeny");
    };
    using Paths = std::vector<std::string>;
    CHECK(denied(R"({"R_local": {"gpu": [0, 1, 2]}})").empty());
    CHECK(denied(R"({"R_local": {"gpu": [0, 2]}})")
          == Paths{"/dev/dri/card2", "/dev/dri/renderD130"});
    CHECK(denied(R"({"R_local": {"gpu": [1]}})")
          == Paths{"/dev/dri/card1", "/dev/dri/renderD128", "/dev/nvidia3",
                   "/dev/dri/renderD132"});
    CHECK(denied(R"({"R_local": {"gpu": []}})").size() == 6);
    // What is not said is not restricted.
    CHECK(kv_of(R"({"R_local": {}})", root.path()).size() == 0);
}

TEST_CASE("contained: GPUs that cannot be enforced are reported", "[contained]")
{
    TemporaryDirectory root;
    auto reports = [&](const char* ids) {
        return list(kv_of(ids, root.path()), "R_local.unenforced");
    };
    using Lines = std::vector<std::string>;
    CHECK(reports(R"({"R_local": {"gpu": []}})").empty());
    CHECK(reports(R"({"R_local": {"gpu": [0, 3]}})")
          == Lines{"gpu 0: 0 GPUs were found on this host",
                   "gpu 3: 0 GPUs were found on this host"});
    // NVIDIA's own node is not known: denying the others would be of no use.
    add_gpu(root, "0000:3b:00.0", "nvidia", {"card1", "renderD128"});
    add_gpu(root, "0000:3c:00.0", "amdgpu", {});
    CHECK(
        reports(R"({"R_local": {"gpu": []}})")
        == Lines{"gpu 0 (PCI 0000:3b:00.0) is not the job's, but its device nodes are "
                 "not known",
                 "gpu 1 (PCI 0000:3c:00.0) is not the job's, but its device nodes are "
                 "not known"});
    CHECK(reports(R"({"R_local": {"gpu": [0, 1]}})").empty());
}
