// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A PAM session for the guest (exec.pam-support): the service "flux", whose stack has
// at least one auth and one session module, flux-config-security-imp(5). It is opened
// and closed by the privileged process that outlives the job shell; limits that its
// modules set on that process are inherited by the shell.
#pragma once

#include "lib/imp/result.h"

#include <memory>
#include <string>
#include <vector>

namespace fluxdat::imp {

constexpr const char* pam_service = "flux";
constexpr const char* pam_service_file = "/etc/pam.d/flux";

class PamSession
{
public:
    // Refused where a module refuses; the message says which step and what PAM says.
    static Result<PamSession> open(const std::string& user);
    ~PamSession(); // closes it
    PamSession(PamSession&&) noexcept;
    PamSession& operator=(PamSession&&) noexcept;

    // Variables that modules want in the shell's environment, as NAME=VALUE.
    std::vector<std::string> environment() const;

private:
    struct Handle;
    explicit PamSession(std::unique_ptr<Handle> handle);
    std::unique_ptr<Handle> handle_;
};

} // namespace fluxdat::imp
