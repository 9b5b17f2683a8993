// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/launcher.h"

#include "lib/dat/door_service.h"
#include "lib/dat/jobspec.h"
#include "lib/flux/services.h"
#include "lib/perms/door.h"
#include "lib/perms/sweep.h"
#include "lib/perms/watcher.h"
#include "lib/program.h"
#include "lib/say.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

constexpr int exit_not_found = 127; // as a shell has it
constexpr int exit_cannot_run = 126;
constexpr double report_time_max = 10; // seconds to raise the exception

// Which rank of which job this process is, from the environment that the job shell
// gives its tasks.
struct Place {
    flux::JobId job = 0;
    std::uint32_t rank = 0;
};

Result<Place> this_place()
{
    const char* id = std::getenv("FLUX_JOB_ID");
    const char* rank = std::getenv("FLUX_TASK_RANK");
    if (!id || !rank)
        return fail("FLUX_JOB_ID or FLUX_TASK_RANK is not set: this command is for the "
                    "job of a DAT only");
    auto job = flux::parse_jobid(id);
    if (!job)
        return fail("FLUX_JOB_ID: {}", job.error().message);
    Place place;
    place.job = *job;
    auto [end, status] = std::from_chars(rank, rank + std::strlen(rank), place.rank);
    if (status != std::errc{} || *end != '\0')
        return fail("FLUX_TASK_RANK \"{}\" is no rank", rank);
    return place;
}

std::string host_name()
{
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

Result<perms::Door> make_door(const Place& place, const DatFile& file)
{
    perms::DoorDirChoice choice;
    choice.given = file.door_dir;
    auto dir = perms::choose_door_dir(choice);
    if (!dir)
        return std::unexpected(dir.error());
    // What is left of DATs that are gone takes no part in this one: a failure to clean
    // up is told, and no reason to stop.
    if (auto swept = perms::sweep(*dir); !swept)
        say(stderr, "flux-dat launch: warning: {}\n", swept.error().message);
    else
        for (auto& failure : swept->failed)
            say(stderr, "flux-dat launch: warning: {}: {}\n", failure.path,
                failure.reason);
    auto door = perms::Door::create(
        *dir, {flux::format_jobid_ascii(place.job), place.rank}, file.record.guests);
    if (!door)
        perms::leave_door_dir(std::move(*dir));
    return door;
}

void set_environment(const std::string& door)
{
    setenv("FLUX_DAT_GRANTS",
           fmt::format("{}/{}", door, perms::grants_file_name).c_str(), 1);
    auto runtime = fmt::format("/run/user/{}", getuid());
    auto bus = runtime + "/bus";
    struct stat status {
    };
    if (stat(bus.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)
        && status.st_uid == getuid()) {
        setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
        setenv("DBUS_SESSION_BUS_ADDRESS", ("unix:path=" + bus).c_str(), 1);
    }
}

flux::Task<Result<>> raise_fatal(flux::Loop& loop, flux::JobId job, std::string note)
{
    flux::Interrupt limit;
    flux::InterruptSources sources(loop, limit, report_time_max,
                                   Error{"no answer from the broker", ETIMEDOUT});
    const char* uri = std::getenv("FLUX_URI");
    auto parent = co_await flux::Connection::open(loop, uri ? uri : "", &limit);
    if (!parent)
        co_return std::unexpected(parent.error());
    co_return co_await flux::raise(**parent, job, "exec", flux::severity_fatal,
                                   std::move(note));
}

bool is_this_program(const char* name)
{
    auto found = find_program(name);
    char real[PATH_MAX];
    return found && ::realpath(found->c_str(), real) && program_path() == real;
}

// Tells the job's owner, by way of the job, why this rank will not be.
void report(const Result<Place>& place, const std::string& message)
{
    auto note = place
                    ? fmt::format("{} (rank {}): {}", host_name(), place->rank, message)
                    : fmt::format("{}: {}", host_name(), message);
    say(stderr, "flux-dat launch: {}\n", note);
    std::fflush(stderr);
    if (!place)
        return;
    flux::Loop loop;
    auto raised = loop.run(raise_fatal(loop, place->job, note));
    if (!raised)
        say(stderr, "flux-dat launch: cannot raise an exception on the job: {}\n",
            raised.error().message);
}

} // namespace

int launch(const std::string& dat_file, std::vector<std::string> command,
           Program as_broker)
{
    auto place = this_place();
    auto give_up = [&](const Error& error, int status = 1) {
        report(place, error.message);
        return status;
    };
    if (!place)
        return give_up(place.error());
    auto file = read_dat_file(dat_file);
    if (!file)
        return give_up(file.error());
    auto door = perms::spawn_watcher([&] { return make_door(*place, *file); }, getpid(),
                                     serve_door);
    if (!door)
        return give_up(door.error());
    set_environment(*door);

    std::vector<char*> argv;
    for (auto& argument : command) {
        if (auto at = argument.find(door_placeholder); at != argument.npos)
            argument.replace(at, door_placeholder.size(), *door);
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);

    if (is_this_program(argv[0]))
        return as_broker(static_cast<int>(command.size()), argv.data());
    execvp(argv[0], argv.data());
    int errnum = errno;
    return give_up({fmt::format("cannot run {}: {}", argv[0], std::strerror(errnum))},
                   errnum == ENOENT ? exit_not_found : exit_cannot_run);
}

} // namespace fluxdat::dat
