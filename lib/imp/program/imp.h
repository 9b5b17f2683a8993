// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-imp(8), the setuid program: what its commands share. Each command is a file
// here that reads from top to bottom; what they are made of is in lib/imp.
#pragma once

#include "lib/imp/config.h"
#include "lib/imp/privsep.h"
#include "lib/imp/user.h"

#include <string>
#include <vector>

namespace fluxdat::imp {

// Fixed when the program is built. Only the test build (program/main.cpp), which is
// never installed, takes them from its environment.
struct Places {
    std::string imp_pattern;
    std::string security_pattern;
    std::string reader; // path of the reader program
    int reader_seconds_max = fluxdat::imp::reader_seconds_max;
};

struct Imp {
    Places places;
    Config config;
    // Who called: the real ids. Under a simulated setuid (allow-sudo) those of sudo.
    uid_t uid = 0;
    gid_t gid = 0;
    // Effective uid root, and called by somebody else.
    bool privileged = false;

    // Who may own the configuration and the reader besides root: without privileges,
    // who called, for nobody else is at risk.
    uid_t also_trusted() const { return privileged ? 0 : uid; }
};

// Where a refusal by configuration is set, for its message: "KEY in FILE".
std::string where(const std::string& key, const std::string& file);

// Messages go to stderr, each in one write: "flux-dat-imp: Fatal: text".
void warn(const std::string& text);
void debug(const Imp& imp, const std::string& text);
[[noreturn]] void die(int status, const std::string& text);

// Reads the configuration. Ends the program on an error in it, prints its warnings.
void load(Imp& imp);

// The commands. `words` are the arguments after the command's name.
[[noreturn]] void exec_command(const Imp& imp, const std::vector<std::string>& words);
[[noreturn]] void run_command(const Imp& imp, const std::vector<std::string>& words);
[[noreturn]] void check_command(const Imp& imp, const std::vector<std::string>& words);

// The user who called, if in `allowed`. `command` and `key` are for the message.
Result<User> allowed_caller(const Imp& imp, const std::vector<std::string>& allowed,
                            const std::string& key, const std::string& file);

} // namespace fluxdat::imp
