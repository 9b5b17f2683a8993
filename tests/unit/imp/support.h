// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the tests of the IMP's confinement share: directories that go away, real cgroups
// that go away, and doing things in a child process.
#pragma once

#include "lib/imp/cgroup.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::imp::test {

// A directory that is removed with all that is in it.
class TemporaryDirectory
{
public:
    TemporaryDirectory()
    {
        std::string name = std::filesystem::temp_directory_path() / "imp-test.XXXXXX";
        REQUIRE(::mkdtemp(name.data()));
        path_ = name;
    }
    ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

    // A file below it, with the directories that it needs.
    void write(const std::string& name, const std::string& text) const
    {
        std::filesystem::path file = path_ + "/" + name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    std::string read(const std::string& name) const
    {
        std::ifstream file(path_ + "/" + name);
        return {std::istreambuf_iterator<char>(file), {}};
    }

private:
    std::string path_;
};

// What `work` gives, done in a child process.
inline std::string in_child(const std::function<std::string()>& work)
{
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        std::string text = work();
        std::size_t done = 0;
        while (done < text.size()) {
            auto n = ::write(ends[1], text.data() + done, text.size() - done);
            if (n <= 0)
                break;
            done += static_cast<std::size_t>(n);
        }
        ::_exit(0);
    }
    ::close(ends[1]);
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        out.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    return out;
}

// A real cgroup of version 2, made for a test and removed after it with all below it.
// Nobody may be left in it.
class RealCgroup
{
public:
    // Why there is none here; empty when one can be made.
    static std::string missing()
    {
        if (::geteuid() != 0)
            return "a cgroup can be made by root only";
        auto here = find_cgroup();
        if (!here)
            return here.error().message;
        std::string probe =
            here->path() + "/imp-test-probe." + std::to_string(::getpid());
        if (::mkdir(probe.c_str(), 0755) < 0)
            return "cannot make a cgroup in " + here->path();
        ::rmdir(probe.c_str());
        return {};
    }

    explicit RealCgroup(const std::string& name)
        : cgroup_(find_cgroup()->path() + "/" + name + "." + std::to_string(::getpid()))
    {
        REQUIRE(::mkdir(cgroup_.path().c_str(), 0755) == 0);
    }
    ~RealCgroup()
    {
        // Below first; the files in them are the kernel's.
        std::vector<std::string> directories{cgroup_.path()};
        std::error_code ignored;
        for (const auto& entry :
             std::filesystem::recursive_directory_iterator(cgroup_.path(), ignored))
            if (entry.is_directory())
                directories.push_back(entry.path());
        for (auto i = directories.rbegin(); i != directories.rend(); ++i)
            CHECK(::rmdir(i->c_str()) == 0);
    }
    RealCgroup(const RealCgroup&) = delete;
    RealCgroup& operator=(const RealCgroup&) = delete;

    const Cgroup& operator*() const { return cgroup_; }
    const Cgroup* operator->() const { return &cgroup_; }

private:
    Cgroup cgroup_;
};

} // namespace fluxdat::imp::test
