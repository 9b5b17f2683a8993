// SPDX-License-Identifier: LGPL-3.0-or-later
// A directory of a test's own, that trusted.h accepts and that goes with the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/stat.h>

class Place
{
public:
    Place()
    {
        directory_ = std::filesystem::temp_directory_path() / "imp-XXXXXX";
        if (!mkdtemp(directory_.data()))
            std::abort();
        chmod(directory_.c_str(), 0755);
    }
    ~Place() { std::filesystem::remove_all(directory_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    std::string path(std::string_view name = {}) const
    {
        return name.empty() ? directory_ : directory_ + "/" + std::string(name);
    }

    std::string write(std::string_view name, std::string_view text,
                      mode_t mode = 0644) const
    {
        auto file = path(name);
        std::ofstream(file) << text;
        chmod(file.c_str(), mode);
        return file;
    }

private:
    std::string directory_;
};
