// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/jobspec.h"

#include "lib/flux/connection.h"
#include "lib/perms/door.h"

#include <fstream>
#include <iterator>

namespace fluxdat::dat {

namespace {

constexpr int file_mode = 0100600; // of files in the job's tmpdir: the owner's only
constexpr std::size_t dat_file_size_max = 4u << 20; // bytes

// Sets a dotted key, making the tables on the way.
Result<> set_at(Json& root, const std::string& key, Json value,
                const std::string& option)
{
    Json* at = &root;
    std::string_view rest = key;
    while (true) {
        auto dot = rest.find('.');
        auto name = std::string(rest.substr(0, dot));
        if (name.empty())
            return fail(Exit::usage, "{}: \"{}\" is no key", option, key);
        if (dot == rest.npos) {
            (*at)[name] = std::move(value);
            return {};
        }
        at = &(*at)[name];
        if (!at->is_null() && !at->is_object())
            return fail(Exit::usage, "{}: \"{}\" goes through a key that holds a value",
                        option, key);
        rest.remove_prefix(dot + 1);
    }
}

// NAME or NAME=VALUE, where VALUE is JSON or else a string, and 1 if there is none.
std::pair<std::string, Json> key_and_value(const std::string& argument)
{
    auto equals = argument.find('=');
    if (equals == argument.npos)
        return {argument, 1};
    auto text = argument.substr(equals + 1);
    auto value = Json::parse(text, nullptr, false);
    return {argument.substr(0, equals), value.is_discarded() ? Json(text) : value};
}

// What ^KEY=FILE names.
Result<Json> read_json_file(const std::string& path, const std::string& option)
{
    std::ifstream stream(path);
    if (!stream)
        return fail(Exit::usage, "{}: cannot read \"{}\": {}", option, path,
                    std::strerror(errno));
    auto json = Json::parse(stream, nullptr, false);
    if (json.is_discarded())
        return fail(Exit::usage, "{}: {} is not JSON", option, path);
    return json;
}

Result<> apply_options(Json& attributes, const Submission& submission)
{
    for (auto& argument : submission.setopts) {
        auto [key, value] = key_and_value(argument);
        auto set = set_at(attributes["system"]["shell"]["options"], key,
                          std::move(value), "-o " + argument);
        if (!set)
            return set;
    }
    for (auto& argument : submission.setattrs) {
        auto [key, value] = key_and_value(argument);
        if (key.starts_with('^')) {
            key.erase(0, 1);
            auto read = read_json_file(
                value.is_string() ? value.get<std::string>() : "", "-S " + argument);
            if (!read)
                return std::unexpected(read.error());
            value = std::move(*read);
        }
        // flux-alloc(1): what begins with a dot is taken from the attributes' root,
        // and so are user. and system.; else the key is one of system's.
        if (key.starts_with('.'))
            key.erase(0, 1);
        else if (!key.starts_with("user.") && !key.starts_with("system."))
            key = "system." + key;
        auto set = set_at(attributes, key, std::move(value), "-S " + argument);
        if (!set)
            return set;
    }
    return {};
}

Json system_attributes(const Submission& submission)
{
    Json system{{"duration", submission.time_limit},
                {"cwd", submission.cwd},
                {"environment", submission.environment}};
    if (!submission.name.empty())
        system["job"] = {{"name", submission.name}};
    if (submission.queue)
        system["queue"] = *submission.queue;
    if (submission.bank)
        system["bank"] = *submission.bank;
    if (submission.begin_time)
        system["dependencies"] =
            Json::array({{{"scheme", "begin-time"},
                          {"value", fmt::format("{:.6f}", *submission.begin_time)}}});
    if (!submission.constraints.is_null())
        system["constraints"] = submission.constraints;
    return system;
}

Json slot(std::uint32_t count, std::uint32_t cores)
{
    return {{"type", "slot"},
            {"count", count},
            {"label", "task"},
            {"with", Json::array({{{"type", "core"}, {"count", cores}}})}};
}

} // namespace

Json to_json(const DatFile& file)
{
    Json json = to_json(file.record);
    if (file.door_dir)
        json["door-dir"] = *file.door_dir;
    if (file.adopted)
        json["adopted"] = true;
    return json;
}

namespace {

Result<DatFile> parse_dat_file(const std::string& text, const std::string& name)
{
    auto json = flux::parse_json(text);
    if (!json)
        return fail("{}: {}", name, json.error().message);
    auto record = record_from_json(*json);
    if (!record)
        return fail("{}: {}", name, record.error().message);
    DatFile file;
    file.record = std::move(*record);
    if (auto dir = json->find("door-dir"); dir != json->end() && dir->is_string())
        file.door_dir = dir->get<std::string>();
    file.adopted = json->contains("adopted") && (*json)["adopted"] == true;
    return file;
}

} // namespace

Result<DatFile> read_dat_file(const std::string& path)
{
    if (path.starts_with('{'))
        return parse_dat_file(path, "the DAT");
    std::ifstream stream(path, std::ios::binary);
    if (!stream)
        return fail_errno(errno, fmt::format("cannot read {}", path));
    std::string text;
    char c;
    while (text.size() <= dat_file_size_max && stream.get(c))
        text.push_back(c);
    if (text.size() > dat_file_size_max)
        return fail("{} is larger than {} bytes", path, dat_file_size_max);
    return parse_dat_file(text, path);
}

Result<Json> dat_jobspec(const Submission& submission, const DatFile& file,
                         const Json& configuration, const std::string& program)
{
    // {{tmpdir}} is put in by the job shell of each node.
    const std::string dat_file = fmt::format("{{{{tmpdir}}}}/{}", dat_file_name);
    Json command{program,
                 "launch",
                 dat_file,
                 "flux",
                 "broker",
                 "-c{{tmpdir}}/conf.json",
                 fmt::format("-Slocal-uri=local://{}/{}", door_placeholder,
                             perms::socket_file_name),
                 program,
                 "supervise",
                 dat_file};
    Json system = system_attributes(submission);
    // A rank that ends early is a node that crashed, not the end of the DAT: without
    // "exit-timeout" the job shell would end the others 30 seconds later.
    system["shell"]["options"] = {{"per-resource", {{"type", "node"}}},
                                  {"mpi", "none"},
                                  {"exit-timeout", "none"}};
    system["files"] = {
        {"conf.json", {{"mode", file_mode}, {"data", configuration}}},
        {dat_file_name, {{"mode", file_mode}, {"data", to_json(file)}}},
    };
    Json attributes{{"system", std::move(system)}};
    if (submission.window)
        attributes["user"]["dat"] = {{"window", *submission.window}};
    auto applied = apply_options(attributes, submission);
    if (!applied)
        return std::unexpected(applied.error());
    return Json{
        {"version", 1},
        {"resources", Json::array({{{"type", "node"},
                                    {"count", submission.nodes},
                                    {"exclusive", true},
                                    {"with", Json::array({slot(1, 1)})}}})},
        {"tasks", Json::array({{{"command", std::move(command)},
                                {"slot", "task"},
                                {"count", {{"per_slot", 1}}}}})},
        {"attributes", std::move(attributes)},
    };
}

bool is_dat_jobspec(const Json& jobspec)
{
    static const Json::json_pointer file(
        fmt::format("/attributes/system/files/{}", dat_file_name));
    return jobspec.is_object() && jobspec.contains(file);
}

Result<Json> command_jobspec(const Submission& submission, const Tasks& tasks,
                             const std::vector<std::string>& command)
{
    Json resources = slot(tasks.tasks, tasks.cores_per_task);
    Json count{{"per_slot", 1}};
    if (tasks.nodes) {
        if (*tasks.nodes > tasks.tasks)
            return fail(Exit::usage, "-N {} is more nodes than -n {} tasks",
                        *tasks.nodes, tasks.tasks);
        bool even = tasks.tasks % *tasks.nodes == 0;
        std::uint32_t per_node =
            even ? tasks.tasks / *tasks.nodes : tasks.tasks / *tasks.nodes + 1;
        resources = {{"type", "node"},
                     {"count", *tasks.nodes},
                     {"with", Json::array({slot(per_node, tasks.cores_per_task)})}};
        if (!even)
            count = {{"total", tasks.tasks}};
    }
    Json attributes{{"system", system_attributes(submission)}};
    auto applied = apply_options(attributes, submission);
    if (!applied)
        return std::unexpected(applied.error());
    return Json{
        {"version", 1},
        {"resources", Json::array({std::move(resources)})},
        {"tasks",
         Json::array(
             {{{"command", command}, {"slot", "task"}, {"count", std::move(count)}}})},
        {"attributes", std::move(attributes)},
    };
}

} // namespace fluxdat::dat
