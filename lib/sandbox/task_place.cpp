// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/task_place.h"

#include "lib/sandbox/mustache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

// What {{name}} stands for: flux-shell(1), "MUSTACHE TEMPLATES".
std::optional<std::string> mustache(const NodePlace& node, TaskPlace task,
                                    std::string_view name)
{
    if (name == "id" || name == "id.f58" || name == "jobid")
        return flux::format_jobid(node.job);
    if (name == "id.f58plain")
        return flux::format_jobid_ascii(node.job);
    if (name == "id.dec")
        return std::to_string(node.job);
    if (name == "id.hex")
        return fmt::format("0x{:x}", node.job);
    if (name == "tmpdir")
        return node.tmpdir;
    if (name == "name")
        return node.job_name;
    if (name == "nnodes")
        return std::to_string(node.nnodes);
    if (name == "size" || name == "ntasks")
        return std::to_string(node.ntasks);
    if (name == "taskid" || name == "task.id" || name == "task.rank")
        return std::to_string(task.rank);
    if (name == "task.index" || name == "task.localid")
        return std::to_string(task.local_id);
    if (name == "node.id")
        return std::to_string(node.shell_rank);
    if (name == "node.name")
        return node.host;
    if (name == "node.cores")
        return flux::format_idset(node.cores);
    if (name == "node.ncores")
        return std::to_string(node.cores.size());
    return std::nullopt;
}

Result<> write_file(const JobFile& file, const std::string& path)
{
    if (file.symlink) {
        if (symlink(file.content.c_str(), path.c_str()) < 0)
            return fail_errno(errno, fmt::format("cannot create {}", path));
        return {};
    }
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (fd < 0)
        return fail_errno(errno, fmt::format("cannot create {}", path));
    std::string_view rest = file.content;
    bool good = fchmod(fd, file.mode) == 0;
    while (good && !rest.empty()) {
        auto n = ::write(fd, rest.data(), rest.size());
        good = n > 0;
        if (good)
            rest.remove_prefix(static_cast<std::size_t>(n));
    }
    int errnum = errno;
    ::close(fd);
    if (!good)
        return fail_errno(errnum, fmt::format("cannot write {}", path));
    return {};
}

} // namespace

std::vector<std::string> task_command(const std::vector<std::string>& words,
                                      const NodePlace& node, TaskPlace task)
{
    std::vector<std::string> out;
    for (const auto& word : words)
        out.push_back(render_mustache(
            word, [&](std::string_view name) { return mustache(node, task, name); }));
    return out;
}

void set_task_environment(Environment& environment, const NodePlace& node,
                          TaskPlace task)
{
    auto set = [&](std::string_view name, std::string_view value) {
        set_variable(environment, name, value);
    };
    set("FLUX_URI", node.uri);
    set("FLUX_JOB_ID", flux::format_jobid(node.job));
    set("FLUX_JOB_ID_PATH", node.jobid_path);
    set("FLUX_JOB_SIZE", std::to_string(node.ntasks));
    set("FLUX_JOB_NNODES", std::to_string(node.nnodes));
    set("FLUX_JOB_TMPDIR", node.tmpdir);
    set("FLUX_TASK_RANK", std::to_string(task.rank));
    set("FLUX_TASK_LOCAL_ID", std::to_string(task.local_id));
}

Result<> write_job_files(const std::vector<JobFile>& files,
                         const std::string& directory)
{
    for (const auto& file : files)
        if (auto rc = write_file(file, directory + "/" + file.path); !rc)
            return rc;
    return {};
}

std::string start_failure(std::uint32_t task, const std::string& host,
                          const std::string& why)
{
    return fmt::format("task {} (host {}): start failed: {}", task, host, why);
}

int start_failure_status(int errnum)
{
    return (errnum == ENOENT ? exit_not_found : exit_not_executable) << 8;
}

WorkingDirectory working_directory(const std::string& wanted, const std::string& host)
{
    if (wanted.empty() || access(wanted.c_str(), X_OK) == 0)
        return {wanted, {}};
    return {
        "/tmp",
        fmt::format("host {}: Could not change dir to {}: {}. Going to /tmp instead",
                    host, wanted, std::strerror(errno))};
}

} // namespace fluxdat::sandbox
