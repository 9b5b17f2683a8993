// SPDX-License-Identifier: LGPL-3.0-or-later
//
// How a later source of configuration goes over an earlier one.
#pragma once

#include "lib/conf/value.h"

namespace fluxdat::conf {

// Tables merge key by key. Two arrays of jobtap plugin directives
// (flux-config-job-manager(5): tables with `load` or `remove`) merge: a directive that
// loads what the base loads already is merged into that one, where it stands; any other
// is appended. Everything else replaces; so does an empty array, which is the way to be
// rid of all directives.
void merge(Value& base, Value overlay);

// Would a job manager that obeys these directives in their order have the plugin? A
// `load` may be a path; only its last part counts. `remove` may be a glob(7) or "all".
bool loads_plugin(const Value* directives, const std::string& plugin);

} // namespace fluxdat::conf
