// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Signed job requests, as job-ingest unwraps them: RFC 39.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fluxdat::sandbox {

struct SignedRequest {
    std::uint32_t userid; // of the signer
    std::string mechanism;
    std::string payload; // the jobspec
};

// Unwraps HEADER.PAYLOAD.SIGNATURE that `requestor` sent. Mechanism "none" is taken
// from the instance's owner only. The messages and errnums are job-ingest's.
Result<SignedRequest> unwrap(std::string_view J, std::uint32_t requestor,
                             std::uint32_t owner);

} // namespace fluxdat::sandbox
