// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/trusted.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <vector>

namespace fluxdat::imp {

namespace {

std::unexpected<Error> refuse(const std::string& path, const std::string& why)
{
    return fail(path + ": " + why, EPERM);
}

std::string octal(mode_t mode)
{
    std::string text = "0000";
    for (std::size_t i = 0; i < text.size(); i++)
        text[text.size() - 1 - i] = static_cast<char>('0' + (mode >> 3 * i & 7));
    return text;
}

// What holds for files and directories alike.
Result<> check_component(int fd, const std::string& path, uid_t also, bool last)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return fail(path + ": " + std::strerror(errno), errno);
    if (S_ISLNK(status.st_mode))
        return refuse(path, "is a symbolic link; use the path that it leads to");
    if (last && !S_ISREG(status.st_mode))
        return refuse(path, "is not a regular file");
    if (!last && !S_ISDIR(status.st_mode))
        return refuse(path, "is not a directory");
    if (status.st_uid != 0 && status.st_uid != also)
        return refuse(path, "belongs to uid " + std::to_string(status.st_uid)
                                + " and not to root");
    bool writable = (status.st_mode & S_IWOTH)
                    || ((status.st_mode & S_IWGRP) && status.st_gid != 0);
    bool excused = !last && (status.st_mode & S_ISVTX);
    if (writable && !excused)
        return refuse(path, "can be written by others than root (mode "
                                + octal(status.st_mode & 07777) + "); chmod go-w");
    return {};
}

Result<std::vector<std::string>> components(const std::string& path)
{
    if (!path.starts_with('/'))
        return refuse(in_quotes(path), "is not an absolute path");
    std::vector<std::string> names;
    for (std::size_t at = 1; at <= path.size();) {
        auto end = std::min(path.find('/', at), path.size());
        auto name = path.substr(at, end - at);
        if (name == "." || name == "..")
            return refuse(in_quotes(path), "has . or .. in it");
        if (!name.empty())
            names.push_back(std::move(name));
        at = end + 1;
    }
    if (names.empty())
        return refuse(in_quotes(path), "is not a regular file");
    return names;
}

// Walks down to the file and leaves it open as O_PATH, with its directory.
struct Walked {
    Fd directory;
    Fd file;
    std::string name;
};

Result<Walked> walk(const std::string& path, uid_t also)
{
    auto names = components(path);
    if (!names)
        return std::unexpected(std::move(names.error()));
    Walked walked{Fd(), Fd(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), {}};
    if (!walked.file)
        return fail(std::string("/: ") + std::strerror(errno), errno);
    if (auto root = check_component(walked.file.get(), "/", also, false); !root)
        return std::unexpected(std::move(root.error()));
    std::string so_far;
    for (std::size_t i = 0; i < names->size(); i++) {
        walked.name = (*names)[i];
        so_far += "/" + walked.name;
        walked.directory = std::move(walked.file);
        walked.file = Fd(openat(walked.directory.get(), walked.name.c_str(),
                                O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!walked.file)
            return fail(so_far + ": " + std::strerror(errno), errno);
        bool last = i + 1 == names->size();
        if (auto fit = check_component(walked.file.get(), so_far, also, last); !fit)
            return std::unexpected(std::move(fit.error()));
    }
    return walked;
}

} // namespace

Result<Fd> open_trusted(const std::string& path, uid_t also)
{
    auto walked = walk(path, also);
    if (!walked)
        return std::unexpected(std::move(walked.error()));
    // Nobody else can have replaced it since: its directory was checked.
    Fd file(openat(walked->directory.get(), walked->name.c_str(),
                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file)
        return fail(path + ": " + std::strerror(errno), errno);
    if (auto fit = check_component(file.get(), path, also, true); !fit)
        return std::unexpected(std::move(fit.error()));
    return file;
}

Result<> check_trusted(const std::string& path, uid_t also)
{
    auto walked = walk(path, also);
    if (!walked)
        return std::unexpected(std::move(walked.error()));
    return {};
}

} // namespace fluxdat::imp
