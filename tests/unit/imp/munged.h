// SPDX-License-Identifier: LGPL-3.0-or-later
// A munged of the tests' own, with a key of its own: nothing of the system's is used.
#pragma once

#include <string>
#include <sys/types.h>

class Munged
{
public:
    // Starts one in a new directory and waits until it takes connections.
    Munged();
    ~Munged();
    Munged(const Munged&) = delete;
    Munged& operator=(const Munged&) = delete;

    // Why it could not be started; empty if it runs.
    const std::string& missing() const { return missing_; }
    std::string socket() const { return directory_ + "/socket"; }

private:
    std::string directory_;
    std::string missing_;
    pid_t pid_ = -1;
};
