// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Where the brokers of a job that is an instance meet. In Flux each broker tells the
// others its endpoint through PMI, which the job shell serves; here rank 0 hosts all
// ranks, so each other rank only has to tell rank 0 that it is there.
//
// The job shell listens before it starts any task, and gives the listening end to task
// 0 as file descriptor 3. It is in the first node's FLUX_JOB_TMPDIR, mode 0700: only
// the job's owner gets there.
#pragma once

#include "lib/result.h"

#include <string>

namespace fluxdat::sandbox {

// The environment variable with the path, in every task.
constexpr const char* boot_variable = "FLUX_SANDBOX_BOOT";
constexpr int boot_fd = 3; // of task 0

std::string boot_socket_path(const std::string& job_directory);
Result<int> listen_for_boot(const std::string& path);
Result<int> connect_for_boot(const std::string& path);

} // namespace fluxdat::sandbox
