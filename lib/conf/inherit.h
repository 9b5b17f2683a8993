// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What a DAT takes over from the configuration of the instance it runs in.
#pragma once

#include "lib/conf/conf.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::conf {

struct Inherited {
    Value tables; // a layer to merge
    std::vector<std::string> notices;
};

// The tables that `what` names. Left out with a notice is what is only right in the
// parent: its hosts and ranks, and what runs as a systemd unit, since a DAT's units
// would have the names of the parent's on the same nodes.
Result<Inherited> inherit(const Json& parent, const std::string& parent_label,
                          const Inherit& what);

// The parent's exec.imp as a layer; none if it has none.
Result<std::optional<Value>> inherit_imp(const Json& parent,
                                         const std::string& parent_label);
// The same for exec.job-shell: a site that has a job shell of its own has it in the
// IMP's allowed-shells, and no other.
Result<std::optional<Value>> inherit_job_shell(const Json& parent,
                                               const std::string& parent_label);

} // namespace fluxdat::conf
