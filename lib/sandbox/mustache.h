// SPDX-License-Identifier: LGPL-3.0-or-later
//
// "{{name}}" in a job's command: flux-submit(1), "MUSTACHE TEMPLATES".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace fluxdat::sandbox {

// Puts values in the place of names; a name that has none stays as it is.
std::string render_mustache(
    std::string_view text,
    const std::function<std::optional<std::string>(std::string_view)>& value);

} // namespace fluxdat::sandbox
