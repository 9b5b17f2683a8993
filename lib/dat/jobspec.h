// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Jobspecs (RFC 14, RFC 25 version 1): that of a DAT's job, and that of a guest's.
#pragma once

#include "lib/dat/environment.h"
#include "lib/dat/record.h"
#include "lib/result.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::dat {

// What the submission options that are flux-alloc(1)'s say about a job.
struct Submission {
    std::uint32_t nodes = 1;
    std::string name;
    std::optional<std::string> queue;
    std::optional<std::string> bank;
    double time_limit = 0;            // seconds; 0: the system's default
    std::optional<double> begin_time; // seconds since the epoch
    // Of a window that stands in the calendar (early.h), all of it, in seconds from
    // begin_time on: time_limit is what is left of it. For flux-dat report.
    std::optional<double> window;
    Json constraints;                  // RFC 31; null: none
    std::vector<std::string> setopts;  // -o NAME[=VALUE]
    std::vector<std::string> setattrs; // -S KEY[=VALUE]
    std::string cwd = "/";
    Environment environment;
};

// The file that tells launcher and supervisor what DAT they belong to: in the job's
// {{tmpdir}} on every node, from attributes.system.files.
constexpr const char* dat_file_name = "dat.json";

// What is in it.
struct DatFile {
    Record record;
    std::optional<std::string> door_dir; // --door-dir, or the site's dat.door-dir
    // The instance was started by hand: no launcher of ours has made a door (adopt.h).
    bool adopted = false;
};
Json to_json(const DatFile& file);
// `path` may also be what would be in the file, where there can be none.
Result<DatFile> read_dat_file(const std::string& path);

// What stands for the door's path in the brokers' command line, until the launcher of
// each node has made the door.
constexpr std::string_view door_placeholder = "@DOOR@";

// The jobspec of a DAT: one broker a node, whole nodes, no end before its initial
// program's. `program` is the path of flux-dat, the same on every node. A usage error
// where a -o or -S cannot be applied.
Result<Json> dat_jobspec(const Submission& submission, const DatFile& file,
                         const Json& configuration, const std::string& program);

// Whether this jobspec is one that dat_jobspec() made.
bool is_dat_jobspec(const Json& jobspec);

// How many tasks a guest's job has, and on what.
struct Tasks {
    std::optional<std::uint32_t> nodes;
    std::uint32_t tasks = 1;
    std::uint32_t cores_per_task = 1;
};
// The jobspec of a command to run. A usage error for more nodes than tasks.
Result<Json> command_jobspec(const Submission& submission, const Tasks& tasks,
                             const std::vector<std::string>& command);

} // namespace fluxdat::dat
