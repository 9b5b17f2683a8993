// SPDX-License-Identifier: LGPL-3.0-or-later
// The reader `flux`, in flux-dat-imp-reader-full: flux.h.
#include "lib/imp/reader/flux.h"
#include "lib/imp/reader/reader.h"

#include <nlohmann/json.hpp>

namespace fluxdat::imp::reader {

Result<Kv> read_flux_job(const Arguments& arguments)
{
    auto job = find_flux_job(arguments);
    if (!job)
        return std::unexpected(std::move(job.error()));
    auto input = read_flux(*job);
    if (!input)
        return std::unexpected(std::move(input.error()));
    return from_json(input->dump(), "what the instance gave");
}

} // namespace fluxdat::imp::reader
