// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tests/unit/imp/munged.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int poll_interval_us = 10'000;
constexpr int polls_max = 3000; // 30 seconds: only reached when munged hangs

bool takes_connections(const std::string& path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    bool connected =
        connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    return connected;
}

} // namespace

Munged::Munged()
{
    if (access("/usr/sbin/munged", X_OK) != 0) {
        missing_ = "there is no /usr/sbin/munged (Debian package munge)";
        return;
    }
    char directory[] = "/tmp/fluxdat-munged-XXXXXX";
    if (!mkdtemp(directory)) {
        missing_ = std::string("mkdtemp: ") + std::strerror(errno);
        return;
    }
    directory_ = directory;
    chmod(directory, 0755); // munged insists that its socket can be reached by all

    char key[1024];
    if (getrandom(key, sizeof(key), 0) != sizeof(key))
        std::abort();
    int key_file = open((directory_ + "/key").c_str(), O_CREAT | O_WRONLY, 0600);
    if (write(key_file, key, sizeof(key)) != sizeof(key))
        std::abort();
    close(key_file);

    pid_ = fork();
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        int output = open((directory_ + "/output").c_str(), O_CREAT | O_WRONLY, 0600);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        auto option = [&](const char* name) {
            return "--" + std::string(name) + "-file=" + directory_ + "/" + name;
        };
        execl("/usr/sbin/munged", "munged", "--foreground", "--num-threads=1",
              ("--socket=" + socket()).c_str(), option("key").c_str(),
              option("pid").c_str(), option("log").c_str(), option("seed").c_str(),
              nullptr);
        _exit(127);
    }
    for (int i = 0; i < polls_max; i++) {
        if (takes_connections(socket()))
            return;
        if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
            pid_ = -1;
            std::ifstream output(directory_ + "/output");
            missing_.assign(std::istreambuf_iterator<char>(output), {});
            missing_ = "munged ended at once: " + missing_;
            return;
        }
        usleep(poll_interval_us);
    }
    missing_ = "munged takes no connections";
}

Munged::~Munged()
{
    if (pid_ > 0) {
        kill(pid_, SIGTERM);
        waitpid(pid_, nullptr, 0);
    }
    if (!directory_.empty())
        std::filesystem::remove_all(directory_);
}
