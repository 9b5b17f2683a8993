// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Where configuration text comes from: files, the site's directory, and the arguments
// of
// --conf in the forms of flux-alloc(1).
#pragma once

#include "lib/conf/value.h"
#include "lib/result.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::conf {

// A whole regular file of at most file_size_max bytes. A file whose name ends in .json
// is JSON, any other TOML; at its top is a table. Errors name the path and, where the
// text is at fault, line and column; errnum ENOENT tells that there is no such file.
Result<Value> read_file(const std::string& path, Origin::Kind kind, bool command_line);

// The *.toml of a directory in order of name, hidden ones excepted. No directory: none.
Result<std::vector<Value>> read_site(const std::string& directory);

// One argument of --conf, the index-th counting from 1.
Result<Value> read_argument(const std::string& argument, std::size_t index,
                            const std::vector<std::string>& search_path);

// The directories where --conf NAME is looked up: $XDG_CONFIG_HOME or ~/.config, then
// $XDG_CONFIG_DIRS or /etc/xdg, each with /flux/config.
std::vector<std::string> search_path_from_environment();

} // namespace fluxdat::conf
