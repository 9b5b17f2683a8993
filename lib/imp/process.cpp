// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/process.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace fluxdat::imp {

std::vector<char*> c_strings(const std::vector<std::string>& words)
{
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    // execve(2) promises not to write to them.
    for (const auto& word : words)
        pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

std::string printable(std::string_view text)
{
    std::string line(text);
    for (char& c : line)
        if (c < ' ' || c > '~')
            c = '?';
    return line;
}

Result<> open_standard_fds()
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int opened = open("/dev/null", O_RDWR);
        if (opened != fd)
            return fail("cannot open /dev/null in the place of descriptor "
                            + std::to_string(fd) + ": "
                            + (opened < 0 ? std::strerror(errno) : "it is another one"),
                        errno);
    }
    return {};
}

int exec_status(int errnum)
{
    return errnum == ENOENT ? 127 : 126;
}

} // namespace fluxdat::imp
