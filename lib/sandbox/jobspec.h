// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Jobspecs as they are ingested: RFC 25 (version 1), with the attributes of RFC 14 and
// the shell options that the engine's job shell knows.
#pragma once

#include "lib/sandbox/process.h"
#include "lib/sandbox/resources.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::sandbox {

// RFC 26
struct Dependency {
    std::string scheme;
    std::string value;
};

// RFC 37, one entry of attributes.system.files.
struct JobFile {
    std::string path; // relative to the job's temporary directory
    mode_t mode;      // permission bits
    std::string content;
    bool symlink = false; // content is the target
};

struct Jobspec {
    ResourceRequest request;
    std::vector<std::string> command;
    std::optional<std::uint32_t> total_tasks; // tasks[0].count.total
    double duration = 0;                      // seconds; 0: unlimited
    std::string cwd;
    Environment environment;
    std::string name;
    std::optional<std::string> queue;
    std::optional<std::string> bank, project;
    std::vector<Dependency> dependencies;
    std::vector<JobFile> files;
    // attributes.system.shell.options
    std::optional<std::uint32_t> tasks_per_node; // per-resource.type=node
    std::string exit_timeout = "30s";            // "none", or FSD
    bool exit_on_error = false;

    // The document itself, without the environment, with defaults filled in: what
    // job-info.lookup gives.
    Json document;
    // Its duration before it was changed, if it was.
    std::optional<double> submitted_duration;
};

// The message is what job-ingest answers; errnum is EINVAL or EPERM as Flux has it.
Result<Jobspec> parse_jobspec(std::string_view text);

} // namespace fluxdat::sandbox
