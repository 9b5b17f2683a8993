// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The IMP's configuration: flux-config-security-imp(5), flux-config-security-sign(5),
// and what flux-config-dat(5) adds to it. Two sets of files,
//
//     SYSCONFDIR/flux/imp/conf.d/*.toml        [exec], [run.NAME], allow-sudo,
//     log-level SYSCONFDIR/flux/security/conf.d/*.toml   [sign]
//
// each in alphabetical order. A table of a later file takes the place of the whole
// table of an earlier one, as in flux-security; since that has bitten people, it is
// told.
//
// Every file must be root's alone (trusted.h), so it is the privileged half that reads
// it, with toml++, as flux-imp does with its TOML library. The rejected alternative, a
// child without privileges that parses: that child would be a process of the user who
// called, who could trace it and write what the answer says; the rules for that user
// would be that user's.
#pragma once

#include "lib/imp/result.h"
#include "lib/imp/sign.h"

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace fluxdat::imp {

// Files that one pattern may match, and bytes in each.
constexpr std::size_t config_files_max = 256;
constexpr std::size_t config_bytes_max = 1u << 20;

enum class LogLevel { warning, info, debug };

struct RunCommand {
    std::string path;
    std::vector<std::string> allowed_users;
    // Names of variables or patterns (glob(7)). Nothing where the key is not there.
    std::optional<std::vector<std::string>> allowed_environment;
    std::string file; // where it is set
};

struct ExecConfig {
    std::vector<std::string> allowed_users;
    std::vector<std::string> allowed_shells;
    std::vector<std::string> readers{"json", "helper", "flux"};
    bool allow_unprivileged_exec = false;
    bool pam_support = false;
    bool require_grant = false;
    bool require_containment = false;
    std::string file; // where it is set; the pattern where no file has it
};

struct SignConfig {
    SignPolicy policy;
    std::vector<std::string> allowed_types; // as written
    std::string default_type = "munge";
    std::string file;
    bool set = false; // there is a [sign]
};

struct Config {
    ExecConfig exec;
    std::map<std::string, RunCommand, std::less<>> run;
    SignConfig sign;
    bool allow_sudo = false;
    LogLevel log_level = LogLevel::info;
};

// What is wrong with the configuration.
struct Problem {
    enum class Severity {
        error,   // the IMP does nothing with such a configuration
        warning, // told at every start
        note,    // told by `check` only: nothing is refused for it
    };
    Severity severity;
    std::string file;  // or the pattern
    unsigned line = 0; // 0 where it is no line's
    std::string message;
};

// "FILE:LINE: message".
std::string problem_text(const Problem& problem);

struct ConfigPlaces {
    std::string imp;      // glob(7) patterns
    std::string security; // may be the same
    uid_t also = 0;       // second accepted owner of files, see trusted.h
};

// Reads all of it, and goes on after a problem to find the others. If one of them is an
// error, the Config is not to be used.
Config read_config(const ConfigPlaces& places, std::vector<Problem>& problems);

// The same of a text that is the only file of both sets, "text" in messages.
Config read_config_text(std::string_view text, std::vector<Problem>& problems);

} // namespace fluxdat::imp
