// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat status --history: who changed the guest list of a DAT, when, and how.
#pragma once

#include "cli/command.h"

namespace fluxdat::cli {

flux::Task<Result<int>> show_history(const Common& common, flux::Loop& loop,
                                     flux::Connection& parent,
                                     std::optional<std::string> selector,
                                     bool with_header);

} // namespace fluxdat::cli
