// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/leftovers.h"

#include "lib/clock.h"
#include "lib/sandbox/pidfd.h"
#include "lib/sandbox/rundir.h"

#include <algorithm>
#include <csignal>
#include <dirent.h>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace fluxdat::sandbox {

namespace {

bool belongs_to(pid_t pid, const std::string& session)
{
    std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    auto mark = fmt::format("{}={}", session_variable, session);
    for (std::string entry; std::getline(text, entry, '\0');)
        if (entry == mark)
            return true;
    return false;
}

// The session's processes, each held by a descriptor so that its pid cannot become
// another's between looking and killing.
std::vector<int> find(const std::string& session)
{
    std::vector<int> out;
    DIR* proc = opendir("/proc");
    if (!proc)
        return out;
    while (const auto* entry = readdir(proc)) {
        char* end;
        auto pid = static_cast<pid_t>(std::strtol(entry->d_name, &end, 10));
        if (*end || pid <= 1 || pid == getpid() || !belongs_to(pid, session))
            continue;
        int fd = open_process(pid);
        if (fd < 0)
            continue;
        if (belongs_to(pid, session))
            out.push_back(fd);
        else
            ::close(fd);
    }
    closedir(proc);
    return out;
}

// Waits until the processes have ended, or the time is over.
void wait_for(const std::vector<int>& processes, double seconds)
{
    double end = machine_clock() + seconds;
    for (int process : processes) {
        struct pollfd ended = {process, POLLIN, 0};
        poll(&ended, 1, static_cast<int>(std::max(0.0, end - machine_clock()) * 1000));
    }
}

} // namespace

void end_leftovers(const std::string& session, double grace)
{
    for (int signum : {0, SIGTERM, SIGKILL}) {
        // Until there are no new ones: they may fork.
        for (int round = 0; round < (signum == SIGKILL ? 100 : 1); round++) {
            auto processes = find(session);
            if (processes.empty())
                return;
            for (int process : processes)
                if (signum)
                    signal_process(process, signum);
            wait_for(processes, grace);
            for (int process : processes)
                ::close(process);
        }
    }
}

} // namespace fluxdat::sandbox
