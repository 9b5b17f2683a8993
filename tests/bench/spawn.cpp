// SPDX-License-Identifier: LGPL-3.0-or-later
// spawn UID GID INPUT PROGRAM ARGUMENT...: runs it as that user and prints the seconds
// it took, its peak memory with that of all its descendants (KiB), and its exit status.
// Small and static, since Linux counts the memory of who calls execve(2) as the new
// program's: under an interpreter every program would seem as large as that.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv)
{
    if (argc < 5)
        return 2;
    timespec began{}, ended{};
    clock_gettime(CLOCK_MONOTONIC, &began);
    pid_t child = fork();
    if (child == 0) {
        int input = open(argv[3], O_RDONLY), null = open("/dev/null", O_WRONLY);
        if (dup2(input, 0) < 0 || dup2(null, 1) < 0 || setgroups(0, nullptr) < 0
            || setgid(static_cast<gid_t>(std::atoi(argv[2]))) < 0
            || setuid(static_cast<uid_t>(std::atoi(argv[1]))) < 0)
            _exit(126);
        execv(argv[4], argv + 4);
        _exit(127);
    }
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    std::printf("%.6f %ld %d\n",
                static_cast<double>(ended.tv_sec - began.tv_sec)
                    + static_cast<double>(ended.tv_nsec - began.tv_nsec) / 1e9,
                usage.ru_maxrss, status);
}
