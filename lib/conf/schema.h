// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The types of the keys that Flux and flux-dat know. A broker with a value of the wrong
// type does not come up, on all nodes, minutes later, and says so in a log; here it
// costs nothing and the line is known.
#pragma once

#include "lib/conf/value.h"
#include "lib/result.h"

namespace fluxdat::conf {

// Checks a merged configuration: "FILE:3:1: exec.imp must be a string, not an integer".
// Keys that it does not know pass: Flux's tables differ from version to version, and
// plugins add theirs.
Result<> check_types(const Value& root);

} // namespace fluxdat::conf
