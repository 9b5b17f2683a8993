// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/shell_wire.h"

namespace fluxdat::sandbox {

namespace {

std::optional<std::uint32_t> number(const Json& object, const char* key)
{
    if (!object.is_object() || !object.contains(key)
        || !object[key].is_number_unsigned()
        || object[key].get<std::uint64_t>() > UINT32_MAX)
        return std::nullopt;
    return object[key].get<std::uint32_t>();
}

} // namespace

Json to_json(const ShellPlan& plan)
{
    Json tasks = Json::array();
    for (const auto& task : plan.tasks)
        tasks.push_back({{"rank", task.rank}, {"local_id", task.local_id}});
    return {{"nnodes", plan.nnodes},         {"ntasks", plan.ntasks},
            {"shell_rank", plan.shell_rank}, {"host", plan.host},
            {"jobid_path", plan.jobid_path}, {"cores", flux::format_idset(plan.cores)},
            {"tasks", std::move(tasks)}};
}

Result<ShellPlan> parse_plan(const Json& json)
{
    auto wrong = [](const char* what) {
        return std::unexpected(
            Error{fmt::format("the engine's plan of the job has {}", what), EPROTO});
    };
    auto nnodes = number(json, "nnodes"), ntasks = number(json, "ntasks");
    auto shell_rank = number(json, "shell_rank");
    if (!nnodes || !ntasks || !shell_rank)
        return wrong("no sizes");
    ShellPlan plan;
    plan.nnodes = *nnodes;
    plan.ntasks = *ntasks;
    plan.shell_rank = *shell_rank;
    plan.host = flux::text_at(json, "host");
    plan.jobid_path = flux::text_at(json, "jobid_path");
    auto cores = flux::parse_idset(flux::text_at(json, "cores"));
    if (!cores)
        return wrong("no set of cores");
    plan.cores = std::move(*cores);
    if (!json.contains("tasks") || !json["tasks"].is_array()
        || json["tasks"].size() > plan_tasks_max)
        return wrong("no list of tasks");
    for (const auto& entry : json["tasks"]) {
        auto rank = number(entry, "rank"), local_id = number(entry, "local_id");
        if (!rank || !local_id || *rank >= *ntasks)
            return wrong("a task that cannot be");
        plan.tasks.push_back({*rank, *local_id});
    }
    return plan;
}

} // namespace fluxdat::sandbox
