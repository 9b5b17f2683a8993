// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A task of a job in its place: what its command line and environment say of it, and
// the files that its job brings along. RFC 50, flux-shell(1), RFC 37. Used by the
// engine for its owner's jobs and by the job shell for guests'.
#pragma once

#include "lib/flux/idset.h"
#include "lib/flux/jobid.h"
#include "lib/sandbox/jobspec.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::sandbox {

using flux::Idset;
using flux::JobId;

constexpr int exit_not_found = 127, exit_not_executable = 126; // sh(1)

// What all tasks of a job on one node have in common.
struct NodePlace {
    JobId job = 0;
    std::string job_name;
    std::string jobid_path; // of the job
    std::uint32_t nnodes = 0;
    std::uint32_t ntasks = 0;
    std::uint32_t shell_rank = 0; // the node, in the job
    std::string host;
    Idset cores;
    std::string tmpdir; // FLUX_JOB_TMPDIR
    std::string uri;    // of the broker here
};

struct TaskPlace {
    std::uint32_t rank = 0;     // in the job
    std::uint32_t local_id = 0; // on its node
};

// A job's command line, with what it has in {{...}} filled in.
std::vector<std::string> task_command(const std::vector<std::string>& words,
                                      const NodePlace& node, TaskPlace task);
// Sets the FLUX_* variables of a task.
void set_task_environment(Environment& environment, const NodePlace& node,
                          TaskPlace task);

// Writes the files of the jobspec into the job's temporary directory on one node.
Result<> write_job_files(const std::vector<JobFile>& files,
                         const std::string& directory);

// "task 0 (host HOST): start failed: No such file or directory", and with which exit
// status the task then counts.
std::string start_failure(std::uint32_t task, const std::string& host,
                          const std::string& why);
int start_failure_status(int errnum); // a wait status

// The directory to start tasks in: /tmp where the job's cannot be entered, with what is
// to be said about it.
struct WorkingDirectory {
    std::string path;
    std::string complaint; // empty where there is none
};
WorkingDirectory working_directory(const std::string& wanted, const std::string& host);

} // namespace fluxdat::sandbox
