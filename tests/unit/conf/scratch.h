// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A directory of a test's own, and inputs that depend on nothing of this machine.
#pragma once

#include "lib/conf/conf.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>

struct Scratch {
    std::filesystem::path path;

    Scratch()
    {
        std::string name =
            (std::filesystem::temp_directory_path() / "flux-dat-conf-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()));
        path = name;
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { std::filesystem::remove_all(path); }

    // Writes a file, making its directory; its path.
    std::string file(const std::string& name, const std::string& text,
                     mode_t mode = 0644) const
    {
        const std::filesystem::path full = path / name;
        std::filesystem::create_directories(full.parent_path());
        std::ofstream(full) << text;
        REQUIRE(chmod(full.c_str(), mode) == 0);
        return full.string();
    }
    std::string operator/(const std::string& name) const
    {
        return (path / name).string();
    }
};

// No installed template, no parent, no site, and a bundled IMP (a program that is there
// on every machine) that counts as fit.
inline fluxdat::conf::Inputs plain_inputs(const Scratch& scratch)
{
    fluxdat::conf::Inputs inputs;
    inputs.template_path.clear(); // the copy in the program
    inputs.bundled_imp = "/bin/true";
    inputs.probe_bundled_imp =
        inputs.probe_imp = [](const std::string&) { return fluxdat::Result<>{}; };
    inputs.site_directory = scratch / "conf.d";
    inputs.search_path = {scratch / "home", scratch / "xdg"};
    return inputs;
}

// The message of a composition that must fail with this exit status.
inline std::string compose_error(const fluxdat::conf::Inputs& inputs,
                                 fluxdat::Exit exit)
{
    auto composed = fluxdat::conf::compose(inputs);
    REQUIRE_FALSE(composed);
    CHECK(composed.error().exit == exit);
    CHECK(composed.error().message.find('\n') == std::string::npos);
    return composed.error().message;
}
