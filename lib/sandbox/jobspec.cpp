// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/jobspec.h"

#include "lib/flux/fsd.h"
#include "lib/imp/base64.h"

namespace fluxdat::sandbox {

namespace {

constexpr std::uint32_t count_max = 1u << 20; // nodes, slots, cores a slot
constexpr mode_t permission_bits = 07777;

// What Flux's validator finds is told with EPERM (Flux 0.88).
template <class... Args>
std::unexpected<Error> invalid(fmt::format_string<Args...> format, Args&&... args)
{
    return std::unexpected(Error{
        "invalid jobspec: " + fmt::format(format, std::forward<Args>(args)...), EPERM});
}

std::unexpected<Error> plain(std::string message, int errnum)
{
    return std::unexpected(Error{std::move(message), errnum});
}

const Json* find(const Json& object, const char* key)
{
    if (!object.is_object())
        return nullptr;
    auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

std::optional<std::string> text_at(const Json& object, const char* key)
{
    const auto* value = find(object, key);
    if (!value || !value->is_string())
        return std::nullopt;
    return value->get<std::string>();
}

Result<std::uint32_t> count_of(const Json& vertex)
{
    const auto* count = find(vertex, "count");
    if (!count)
        return invalid("missing count");
    if (!count->is_number_integer())
        return invalid("count string must be a valid idset or range");
    auto value = count->get<std::int64_t>();
    if (value <= 0)
        return invalid("node, slot, or core count must be > 0");
    if (value > count_max)
        return invalid("count must be at most {}", count_max);
    return static_cast<std::uint32_t>(value);
}

Result<> parse_slot(const Json& slot, ResourceRequest& request)
{
    auto slots = count_of(slot);
    if (!slots)
        return std::unexpected(std::move(slots.error()));
    request.slots = *slots;
    const auto* with = find(slot, "with");
    if (!with || !with->is_array())
        return invalid("a slot must have resources");
    bool cores = false;
    for (const auto& child : *with) {
        auto type = text_at(child, "type");
        auto count = count_of(child);
        if (!count)
            return std::unexpected(std::move(count.error()));
        if (type == "core") {
            request.cores = *count;
            cores = true;
        } else if (type == "gpu") {
            request.gpus = *count;
        } else {
            return invalid("a slot may have cores and gpus only");
        }
    }
    if (!cores)
        return plain("Unable to determine slot size", EINVAL);
    return {};
}

Result<> parse_resources(const Json& resources, ResourceRequest& request)
{
    if (!resources.is_array())
        return invalid("resources must be a list");
    if (resources.size() != 1)
        return plain("Unable to determine slot count", EINVAL);
    const auto& top = resources[0];
    auto type = text_at(top, "type");
    if (type == "slot")
        return parse_slot(top, request);
    if (type != "node")
        return plain("Unable to determine slot count", EINVAL);
    auto nodes = count_of(top);
    if (!nodes)
        return std::unexpected(std::move(nodes.error()));
    request.nodes = *nodes;
    if (const auto* exclusive = find(top, "exclusive"); exclusive)
        request.exclusive = exclusive->is_boolean() && exclusive->get<bool>();
    const auto* with = find(top, "with");
    if (!with || !with->is_array() || with->size() != 1
        || text_at((*with)[0], "type") != "slot")
        return plain("Unable to determine slot count", EINVAL);
    return parse_slot((*with)[0], request);
}

Result<> parse_tasks(const Json& tasks, Jobspec& spec)
{
    if (!tasks.is_array() || tasks.size() != 1 || !tasks[0].is_object())
        return invalid("tasks must be a list of one task");
    const auto* command = find(tasks[0], "command");
    if (!command || !command->is_array())
        return invalid("command must be a list of strings");
    if (command->empty())
        return invalid("command array cannot have length of zero");
    for (const auto& word : *command) {
        if (!word.is_string())
            return invalid("command must be a list of strings");
        spec.command.push_back(word.get<std::string>());
        if (spec.command.back().find('\0') != std::string::npos)
            return invalid("command has a NUL character");
    }
    const auto* count = find(tasks[0], "count");
    if (!count || !count->is_object())
        return invalid("count must be a mapping");
    auto positive = [&](const char* key) -> Result<std::uint32_t> {
        const auto& value = (*count)[key];
        if (!value.is_number_integer() || value.get<std::int64_t>() <= 0
            || value.get<std::int64_t>() > count_max)
            return invalid("count {} must be > 0", key);
        return value.get<std::uint32_t>();
    };
    if (count->contains("per_slot")) {
        auto value = positive("per_slot");
        if (!value)
            return std::unexpected(std::move(value.error()));
        if (*value != 1)
            return invalid("count per_slot must be 1");
    } else if (count->contains("total")) {
        auto value = positive("total");
        if (!value)
            return std::unexpected(std::move(value.error()));
        spec.total_tasks = *value;
    } else {
        return invalid("count must have per_slot or total");
    }
    return {};
}

Result<JobFile> parse_file(const std::string& path, const Json& entry)
{
    auto bad = [&](std::string_view why) {
        return invalid("attributes.system.files: {}: {}", path, why);
    };
    if (path.empty() || path.find('/') != path.npos || path == "." || path == ".."
        || path.find('\0') != path.npos)
        return bad("must be the name of a file");
    const auto* mode = find(entry, "mode");
    if (!mode || !mode->is_number_unsigned())
        return bad("mode must be an integer");
    JobFile file{path, mode->get<mode_t>(), {}};
    const auto* data = find(entry, "data");
    if (S_ISLNK(file.mode)) {
        if (!data || !data->is_string())
            return bad("a symbolic link's data must be a string");
        file.symlink = true;
        file.content = data->get<std::string>();
        return file;
    }
    if (!S_ISREG(file.mode))
        return bad("must be a regular file or a symbolic link");
    file.mode &= permission_bits;
    auto encoding = text_at(entry, "encoding");
    if (!data)
        return file;
    if (!encoding) {
        file.content = data->dump(-1, ' ', false, Json::error_handler_t::replace);
    } else if (encoding == "utf-8" && data->is_string()) {
        file.content = data->get<std::string>();
    } else if (encoding == "base64" && data->is_string()) {
        auto content = imp::base64_decode(data->get_ref<const std::string&>());
        if (!content)
            return bad("data is no base64");
        file.content = std::move(*content);
    } else {
        return bad("encoding must be utf-8 or base64");
    }
    return file;
}

Result<> parse_dependencies(const Json& list, Jobspec& spec)
{
    if (!list.is_array())
        return invalid("attributes.system.dependencies must be a list");
    for (const auto& entry : list) {
        if (!entry.is_object())
            return invalid("a dependency must be a mapping");
        for (const char* key : {"scheme", "value"}) {
            if (!entry.contains(key))
                return invalid("Missing key ({})", key);
            if (!entry[key].is_string())
                return invalid("dependency {} must be a string", key);
        }
        spec.dependencies.push_back(
            {entry["scheme"].get<std::string>(), entry["value"].get<std::string>()});
    }
    return {};
}

Result<> parse_shell_options(const Json& options, Jobspec& spec)
{
    if (const auto* per = find(options, "per-resource"); per) {
        if (text_at(*per, "type") == "node") {
            spec.tasks_per_node = 1;
            const auto* count = find(*per, "count");
            if (count && count->is_number_unsigned() && count->get<std::uint64_t>() > 0
                && count->get<std::uint64_t>() <= count_max)
                spec.tasks_per_node = count->get<std::uint32_t>();
        }
    }
    if (const auto* timeout = find(options, "exit-timeout"); timeout) {
        spec.exit_timeout =
            timeout->is_string() ? timeout->get<std::string>() : timeout->dump();
        if (spec.exit_timeout != "none" && !flux::parse_fsd(spec.exit_timeout))
            return invalid("exit-timeout is not a valid Flux Standard Duration");
    }
    if (const auto* flag = find(options, "exit-on-error"); flag)
        spec.exit_on_error = *flag != Json(0) && *flag != Json(false);
    return {};
}

Result<> parse_system(const Json& system, Jobspec& spec)
{
    const auto* duration = find(system, "duration");
    if (!duration)
        return plain("attributes.system.duration is a required key", EPERM);
    if (!duration->is_number())
        return plain("attributes.system.duration must be a number", EPERM);
    spec.duration = std::max(0.0, duration->get<double>());
    spec.cwd = text_at(system, "cwd").value_or("");
    spec.bank = text_at(system, "bank");
    spec.project = text_at(system, "project");
    if (const auto* queue = find(system, "queue"); queue)
        spec.queue = queue->is_string() ? queue->get<std::string>() : queue->dump();
    if (const auto* job = find(system, "job"); job)
        spec.name = text_at(*job, "name").value_or("");
    if (const auto* environment = find(system, "environment"); environment) {
        if (!environment->is_object())
            return invalid("attributes.system.environment must be a mapping");
        for (const auto& [name, value] : environment->items())
            if (value.is_string() && !name.empty() && name.find('=') == name.npos)
                spec.environment.push_back(
                    fmt::format("{}={}", name, value.get_ref<const std::string&>()));
    }
    if (const auto* constraints = find(system, "constraints"); constraints) {
        auto constraint = Constraint::parse(*constraints);
        if (!constraint)
            return invalid("{}", constraint.error().message);
        spec.request.constraint = std::move(*constraint);
    }
    if (const auto* dependencies = find(system, "dependencies"); dependencies)
        if (auto rc = parse_dependencies(*dependencies, spec); !rc)
            return rc;
    if (const auto* files = find(system, "files"); files) {
        if (!files->is_object())
            return invalid("attributes.system.files must be a mapping");
        for (const auto& [path, entry] : files->items()) {
            auto file = parse_file(path, entry);
            if (!file)
                return std::unexpected(std::move(file.error()));
            spec.files.push_back(std::move(*file));
        }
    }
    if (const auto* shell = find(system, "shell"); shell)
        if (const auto* options = find(*shell, "options"); options)
            return parse_shell_options(*options, spec);
    return {};
}

} // namespace

Result<Jobspec> parse_jobspec(std::string_view text)
{
    auto json = flux::parse_json(text, flux::json_depth_flux);
    if (!json)
        return plain("jobspec: invalid JSON: " + json.error().message, EINVAL);
    Jobspec spec;
    for (const char* key : {"resources", "tasks", "attributes", "version"})
        if (!json->contains(key))
            return invalid("missing key ({})", key);
    for (const auto& [key, value] : json->items())
        if (key != "resources" && key != "tasks" && key != "attributes"
            && key != "version")
            return invalid("unexpected key ({})", key);
    if ((*json)["version"] != 1)
        return plain("version must be 1", EPERM);
    const auto* system = find((*json)["attributes"], "system");
    if (!system || !system->is_object())
        return invalid("attributes.system must be a mapping");
    if (auto rc = parse_tasks((*json)["tasks"], spec); !rc)
        return std::unexpected(std::move(rc.error()));
    if (auto rc = parse_resources((*json)["resources"], spec.request); !rc)
        return std::unexpected(std::move(rc.error()));
    if (auto rc = parse_system(*system, spec); !rc)
        return std::unexpected(std::move(rc.error()));
    if (spec.total_tasks && *spec.total_tasks > spec.request.total_slots())
        return invalid("count total must be at most the number of slots");
    if (spec.name.empty()) {
        const auto& program = spec.command[0];
        spec.name = program.substr(program.rfind('/') + 1);
    }
    spec.document = std::move(*json);
    spec.document["attributes"]["system"].erase("environment");
    return spec;
}

} // namespace fluxdat::sandbox
