// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The IMP of a node (RFC 15) and its configuration, for check_node.h: the bundled one
// is asked, `flux-dat-imp check --json`; of flux-imp there is only what can be read of
// its configuration, flux-config-security-imp(5).
#pragma once

#include "lib/dat/check.h"
#include "lib/imp/config.h"

namespace fluxdat::dat {

// Names other files than flux/imp/conf.d/*.toml in which the IMP's configuration is
// looked for; for a site that keeps them elsewhere, and for tests. It changes what the
// check reads, and nothing else.
constexpr const char* imp_pattern_variable = "FLUX_DAT_IMP_PATTERN";

// The pattern of the configuration of an IMP that is installed at this path, by its
// prefix: /usr/libexec/flux/flux-imp has /etc/flux/imp/conf.d/*.toml.
std::string imp_pattern_of(const std::string& imp);

// The configuration as this user can read it, and what is wrong with it.
struct ImpConfig {
    imp::Config config;
    std::vector<imp::Problem> problems;
    std::string pattern;    // where it is
    std::string unreadable; // what could not be read; empty: nothing
};
ImpConfig read_imp_config(const std::string& path);

// "imp": is it there, setuid, executable.
Verdict check_imp_program(const std::string& path);

// "imp-config", at least one. `answer`: what the bundled IMP answered; null for another
// one. `user` is the name of who is to be an IMP user.
std::vector<Verdict> check_imp_config(const ImpConfig& read, const Json& answer,
                                      const std::string& user,
                                      const std::string& job_shell);

// Why this IMP will run no guests' jobs of this user's, as far as its configuration on
// this node tells: nothing where there is none, or where it cannot be read.
std::optional<Verdict> imp_refusal(const std::string& imp, const std::string& user);

// "prolog" or "epilog": can this command be run, by `user`? It may be a program, or one
// that an IMP runs ("PATH run NAME"); `imp` is the DAT's.
Verdict check_perilog(const std::string& id, const std::vector<std::string>& command,
                      const std::string& imp, const ImpConfig& read,
                      const std::string& user);

} // namespace fluxdat::dat
