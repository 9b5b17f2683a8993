// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/signature.h"

#include "lib/imp/sign.h"
#include "lib/imp/sign_site.h"

#include <unistd.h>

namespace fluxdat::sandbox {

Result<SignedRequest> unwrap(std::string_view J, std::uint32_t requestor,
                             std::uint32_t owner)
{
    auto refuse = [](int errnum, std::string message) {
        return std::unexpected(Error{std::move(message), errnum});
    };
    // What it claims first: whether a claim needs proof depends on it.
    auto claim = imp::sign_read(J);
    if (!claim)
        return refuse(EINVAL, "sign-unwrap: " + claim.error().message);
    if (claim->userid != requestor)
        return refuse(
            EPERM, fmt::format("signer={} != requestor={}", claim->userid, requestor));
    if (claim->mechanism == imp::Mechanism::none) {
        // The connection's credentials are all that the owner's request needs.
        if (requestor != owner)
            return refuse(EPERM, "only instance owner can use sign-type=none");
        return SignedRequest{claim->userid, "none", std::move(claim->payload)};
    }
    auto site = imp::read_sign_config(imp::sign_pattern(), getuid());
    if (!site)
        return refuse(EPERM, "sign-unwrap: " + site.error().message);
    auto proven = imp::sign_unwrap(J, site->policy);
    if (!proven)
        return refuse(EPERM, "sign-unwrap: " + proven.error().message);
    return SignedRequest{proven->userid, "munge", std::move(proven->payload)};
}

} // namespace fluxdat::sandbox
