// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A broker's configuration, from where "-c" points: flux-config(5).
#pragma once

#include "lib/flux/json.h"

#include <string>

namespace fluxdat::sandbox {

using flux::Json;

// A larger file is a mistake.
constexpr std::size_t config_bytes_max = 4u << 20;

// A TOML file, a JSON file, or a directory with *.toml, of which a later one's table
// replaces an earlier one's. The messages name file, line and column.
Result<Json> load_config(const std::string& path);

// TOML, or JSON where it begins with "{". `name` is what the messages call it.
Result<Json> parse_config(const std::string& text, const std::string& name);

// Puts what `more` has into `config`: tables merge, everything else replaces.
void merge_config(Json& config, const Json& more);

} // namespace fluxdat::sandbox
