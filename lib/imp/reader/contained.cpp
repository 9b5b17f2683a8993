// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/reader/contained.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <hwloc.h>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace fluxdat::imp::reader {

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Logical ids are below this: no node has a million of anything.
constexpr std::int64_t ids_max = 1 << 20;

std::unexpected<Error> fail_at(const std::string& where, const std::string& why)
{
    return fail(where + ": " + why, EINVAL);
}

// An item of a list, as a message names it.
std::string item(const std::string& list, std::size_t index)
{
    return list + "[" + std::to_string(index) + "]";
}

// JSON from outside as a message repeats it.
std::string shown(const Json& json)
{
    return in_quotes(json.is_string()
                         ? json.get<std::string>()
                         : json.dump(-1, ' ', true, Json::error_handler_t::replace));
}

Result<> put_device_allow(const Json& list, Kv& out)
{
    const std::string where = "options.DeviceAllow";
    if (!list.is_array())
        return fail_at(where, "must be an array of [specifier, access]");
    for (std::size_t i = 0; i < list.size(); i++) {
        const Json& entry = list[i];
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()
            || !entry[1].is_string())
            return fail_at(item(where, i), "must be [specifier, access], two strings");
        if (auto put = out.put_string(where + "." + std::to_string(i),
                                      entry[1].get<std::string>() + " "
                                          + entry[0].get<std::string>());
            !put)
            return fail_at(item(where, i), put.error().message);
    }
    return {};
}

Result<> put_options(const Json& options, Kv& out)
{
    if (!options.is_object())
        return fail_at("options", "must be an object");
    if (auto policy = options.find("DevicePolicy"); policy != options.end()) {
        const std::string where = "options.DevicePolicy";
        if (!policy->is_string())
            return fail_at(where, "must be a string");
        if (auto put = out.put_string(where, policy->get<std::string>()); !put)
            return fail_at(where, put.error().message);
    }
    if (auto allow = options.find("DeviceAllow"); allow != options.end())
        return put_device_allow(*allow, out);
    return {};
}

Result<std::set<unsigned>> logical_ids(const std::string& where, const Json& list)
{
    if (!list.is_array())
        return fail_at(where, "must be an array of logical ids");
    std::set<unsigned> ids;
    for (std::size_t i = 0; i < list.size(); i++) {
        const Json& id = list[i];
        // What does not fit into 64 signed bits is an unsigned or a float here.
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0
            || id.get<std::int64_t>() >= ids_max)
            return fail_at(item(where, i),
                           shown(id)
                               + " is no logical id: it must be a number "
                                 "from 0 to "
                               + std::to_string(ids_max - 1));
        if (!ids.insert(id.get<unsigned>()).second)
            return fail_at(item(where, i), "the id " + shown(id) + " is there twice");
    }
    return ids;
}

struct FreeTopology {
    void operator()(hwloc_topology* topology) const
    {
        hwloc_topology_destroy(topology);
    }
};
using Topology = std::unique_ptr<hwloc_topology, FreeTopology>;

struct FreeBitmap {
    void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};

// Everything between machine and core is left in, though nothing is asked of it: the
// order of cores follows packages, NUMA nodes and caches.
Result<Topology> load_topology()
{
    // hwloc's plugins look for devices only, and loading them (OpenCL, CUDA) takes
    // longer than all the rest of a job's start here.
    ::setenv("HWLOC_PLUGINS_PATH", "/dev/null", 1);
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) < 0)
        return fail("R_local.cpu: cannot look at this host's topology", errno);
    Topology topology(raw);
    if (hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) < 0
        || hwloc_topology_load(raw) < 0)
        return fail("R_local.cpu: cannot look at this host's topology", errno);
    return topology;
}

// The kernel's ids of all hardware threads of these cores, "0-3,8".
Result<std::string> threads_of(const std::set<unsigned>& cores)
{
    auto topology = load_topology();
    if (!topology)
        return std::unexpected(topology.error());
    // Some virtual machines show hardware threads only; Flux counts these, then.
    int count = hwloc_get_nbobjs_by_type(topology->get(), HWLOC_OBJ_CORE);
    auto type = count > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    if (count <= 0)
        count = hwloc_get_nbobjs_by_type(topology->get(), HWLOC_OBJ_PU);
    std::unique_ptr<hwloc_bitmap_s, FreeBitmap> threads(hwloc_bitmap_alloc());
    for (unsigned core : cores) {
        hwloc_obj_t object = hwloc_get_obj_by_type(topology->get(), type, core);
        if (!object)
            return fail_at("R_local.cpu", "this host has no core "
                                              + std::to_string(core) + ": it has "
                                              + std::to_string(count));
        hwloc_bitmap_or(threads.get(), threads.get(), object->cpuset);
    }
    char* text = nullptr;
    if (hwloc_bitmap_list_asprintf(&text, threads.get()) < 0)
        return fail("R_local.cpu: out of memory", ENOMEM);
    std::string out(text);
    std::free(text);
    return out;
}

Result<> put_cpus(const Json& list, Kv& out)
{
    auto cores = logical_ids("R_local.cpu", list);
    if (!cores)
        return std::unexpected(cores.error());
    if (cores->empty())
        return fail_at("R_local.cpu", "a job cannot run on no core");
    auto threads = threads_of(*cores);
    if (!threads)
        return std::unexpected(threads.error());
    return out.put_string("R_local.cpus", *threads);
}

struct Gpu {
    std::string address;            // PCI: "0000:3b:00.0"
    std::vector<std::string> nodes; // its own device nodes; empty where not found
};

std::string first_line(const fs::path& path)
{
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// /dev/nvidiaN, by what NVIDIA's driver says in /proc/driver/nvidia/gpus.
std::optional<std::string> nvidia_node(const std::string& address,
                                       const std::string& root)
{
    std::ifstream file(root + "/proc/driver/nvidia/gpus/" + address + "/information");
    constexpr std::string_view label = "Device Minor:";
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(label)) {
            auto digits = line.find_first_of("0123456789", label.size());
            if (digits != line.npos)
                return "/dev/nvidia" + line.substr(digits);
        }
    return {};
}

std::vector<std::string> nodes_of(const fs::path& device, const std::string& driver,
                                  const std::string& root)
{
    std::vector<std::string> nodes;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(device / "drm", ignored)) {
        std::string name = entry.path().filename();
        if (name.starts_with("card") || name.starts_with("renderD"))
            nodes.push_back("/dev/dri/" + name);
    }
    std::sort(nodes.begin(), nodes.end());
    if (driver == "nvidia") {
        auto node = nvidia_node(device.filename(), root);
        // The DRM nodes alone do not keep anybody from an NVIDIA GPU.
        if (!node)
            return {};
        nodes.push_back(*node);
    }
    return nodes;
}

// The GPUs of this host in the order of their PCI addresses.
std::vector<Gpu> find_gpus(const std::string& root)
{
    std::vector<Gpu> gpus;
    std::error_code ignored;
    for (const auto& entry :
         fs::directory_iterator(root + "/sys/bus/pci/devices", ignored)) {
        // PCI classes 03, display, and 12, processing accelerator. What drives a
        // console of the management controller (ast, mgag200) is no GPU.
        std::string pci_class = first_line(entry.path() / "class");
        if (!pci_class.starts_with("0x03") && !pci_class.starts_with("0x12"))
            continue;
        std::error_code none;
        std::string driver = fs::read_symlink(entry.path() / "driver", none).filename();
        if (driver != "nvidia" && driver != "amdgpu" && driver != "i915"
            && driver != "xe")
            continue;
        gpus.push_back({entry.path().filename(), nodes_of(entry.path(), driver, root)});
    }
    // A domain has four hexadecimal digits, or more, with larger numbers.
    std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) {
        return std::pair(a.address.size(), a.address)
               < std::pair(b.address.size(), b.address);
    });
    return gpus;
}

Result<> put_gpus(const Json& list, Kv& out, const std::string& root)
{
    auto ids = logical_ids("R_local.gpu", list);
    if (!ids)
        return std::unexpected(ids.error());
    auto gpus = find_gpus(root);
    std::size_t denied = 0;
    std::vector<std::string> reports;
    for (unsigned id : *ids)
        if (id >= gpus.size())
            reports.push_back("gpu " + std::to_string(id) + ": "
                              + std::to_string(gpus.size())
                              + " GPUs were found on this host");
    for (std::size_t i = 0; i < gpus.size(); i++) {
        if (ids->contains(static_cast<unsigned>(i)))
            continue;
        if (gpus[i].nodes.empty())
            reports.push_back(
                "gpu " + std::to_string(i) + " (PCI " + gpus[i].address
                + ") is not the job's, but its device nodes are not known");
        for (const std::string& node : gpus[i].nodes)
            if (auto put = out.put_string(
                    "R_local.DeviceDeny." + std::to_string(denied++), node);
                !put)
                return put;
    }
    for (std::size_t i = 0; i < reports.size(); i++)
        if (auto put =
                out.put_string("R_local.unenforced." + std::to_string(i), reports[i]);
            !put)
            return put;
    return {};
}

// "2G", or a number of bytes.
std::optional<std::uint64_t> amount(const Json& json)
{
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    if (json.is_number_integer()) {
        if (json.is_number_unsigned() ? json.get<std::uint64_t>() > most
                                      : json.get<std::int64_t>() < 0)
            return {};
        return json.get<std::uint64_t>();
    }
    if (!json.is_string())
        return {};
    const auto& text = json.get_ref<const std::string&>();
    std::uint64_t number = 0;
    const char* last = text.data() + text.size();
    auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc{} || last - end > 1)
        return {};
    constexpr std::string_view suffixes = "KMGT";
    auto power = end == last ? 0 : suffixes.find(*end) + 1;
    if (end != last && suffixes.find(*end) == suffixes.npos)
        return {};
    if (number > most >> (10 * power))
        return {};
    return number << (10 * power);
}

Result<> put_memory(const Json& list, Kv& out)
{
    const std::string where = "R_local.memory";
    if (!list.is_array())
        return fail_at(where, "must be an array of amounts such as \"2G\"");
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < list.size(); i++) {
        auto bytes = amount(list[i]);
        if (!bytes)
            return fail_at(
                item(where, i),
                shown(list[i])
                    + " is no amount: it must be a number of bytes, or a text "
                      "such as \"2G\" (K, M, G, T of 1024)");
        if (*bytes > std::numeric_limits<std::int64_t>::max() - sum)
            return fail_at(where, "more than 8 EiB");
        sum += *bytes;
    }
    if (sum == 0)
        return fail_at(where, "a job cannot run in no memory");
    return out.put_integer(where, static_cast<std::int64_t>(sum));
}

Result<> put_local_resources(const Json& resources, Kv& out, const std::string& root)
{
    if (!resources.is_object())
        return fail_at("R_local", "must be an object");
    for (const auto& [type, list] : resources.items()) {
        Result<> put;
        if (type == "cpu")
            put = put_cpus(list, out);
        else if (type == "gpu")
            put = put_gpus(list, out, root);
        else if (type == "memory")
            put = put_memory(list, out);
        else
            return fail_at("R_local", "the type of resource " + in_quotes(type)
                                          + " is not known: there are cpu, gpu and "
                                            "memory");
        if (!put)
            return put;
    }
    return {};
}

} // namespace

Result<> put_contained(const Json& input, Kv& out, const std::string& root)
{
    if (auto options = input.find("options"); options != input.end())
        if (auto put = put_options(*options, out); !put)
            return put;
    if (auto resources = input.find("R_local"); resources != input.end())
        return put_local_resources(*resources, out, root);
    return {};
}

} // namespace fluxdat::imp::reader
