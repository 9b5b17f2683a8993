// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the engine and the job shells of guests' jobs say to each other, on the broker
// connection that a job shell has anyway. Flux's own shell gets the same from its
// broker's services and the job's shells; the sandbox's is private to this program.
//
//     sandbox-shell.plan    streaming, {"id"}: one job shell a node asks, once it has
//         verified J. Answers, in this order:
//         {"plan": {...}}   when the shells of all nodes have asked: start the tasks
//         {"go": true}      when all nodes have: now report what they do
//         {"signal": N}     to the tasks, at any time after the plan
//         {"stdin": {"rank", "data", "encoding", "eof"}}   likewise
//         ENODATA           all tasks are known to have ended: exit
//     sandbox-shell.report  no answer, {"id"} and one of
//         "started": [{"task", "errnum", "error"}]   with those that could not be
//         "task", "stream", "data", "encoding"       output as it comes
//         "task", "stream", "eof"
//         "task", "pid", "status"                    a wait status
//         "level", "message"                         for the job's user (RFC 24, log)
//
// Rejected: the signal as an event to all (as Flux does it), which needs a
// subscription; the tasks' command and environment in the plan, because a job shell
// takes those only from what its user has signed.
#pragma once

#include "lib/flux/json.h"
#include "lib/sandbox/task_place.h"

#include <vector>

namespace fluxdat::sandbox {

using flux::Json;

constexpr const char* plan_topic = "sandbox-shell.plan";
constexpr const char* report_topic = "sandbox-shell.report";

// The tasks that one plan may have.
constexpr std::size_t plan_tasks_max = 65536;
// Bytes of output that a job shell passes on; more of a job is not kept anyway.
constexpr std::size_t job_output_max = 10u << 20;

// Which of the job's tasks are on this node.
struct ShellPlan {
    std::uint32_t nnodes = 0, ntasks = 0; // of the job
    std::uint32_t shell_rank = 0;
    std::string host;
    std::string jobid_path; // of the job
    Idset cores;
    std::vector<TaskPlace> tasks;
};

Json to_json(const ShellPlan& plan);
Result<ShellPlan> parse_plan(const Json& json);

} // namespace fluxdat::sandbox
