// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/pam.h"

#include <cstdlib>
#include <security/pam_appl.h>

namespace fluxdat::imp {

namespace {

// Nobody is there to be asked for a password: a module that asks is refused.
int nobody_to_ask(int, const pam_message**, pam_response**, void*)
{
    return PAM_CONV_ERR;
}

const pam_conv conversation{nobody_to_ask, nullptr};

} // namespace

struct PamSession::Handle {
    pam_handle_t* pam = nullptr;
    int status = PAM_SUCCESS;
    bool has_credentials = false;
    bool is_open = false;

    ~Handle()
    {
        if (is_open)
            status = pam_close_session(pam, 0);
        if (has_credentials)
            status = pam_setcred(pam, PAM_DELETE_CRED);
        if (pam)
            pam_end(pam, status);
    }

    Result<> step(const char* what, int result)
    {
        status = result;
        if (result == PAM_SUCCESS)
            return {};
        return fail(std::string("PAM (exec.pam-support, ") + pam_service_file
                    + "): " + what + ": " + pam_strerror(pam, result));
    }
};

PamSession::PamSession(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
PamSession::~PamSession() = default;
PamSession::PamSession(PamSession&&) noexcept = default;
PamSession& PamSession::operator=(PamSession&&) noexcept = default;

Result<PamSession> PamSession::open(const std::string& user)
{
    auto handle = std::make_unique<Handle>();
    auto& h = *handle;
    auto done =
        h.step("start", pam_start(pam_service, user.c_str(), &conversation, &h.pam));
    // The signature has authenticated the user; the auth modules are still asked, since
    // they have a say in whether this account may come in here (pam_localuser).
    if (done)
        done = h.step("auth", pam_authenticate(h.pam, PAM_SILENT));
    if (done) {
        done = h.step("credentials", pam_setcred(h.pam, PAM_ESTABLISH_CRED));
        h.has_credentials = done.has_value();
    }
    if (done) {
        done = h.step("session", pam_open_session(h.pam, 0));
        h.is_open = done.has_value();
    }
    if (!done)
        return std::unexpected(std::move(done.error()));
    return PamSession(std::move(handle));
}

std::vector<std::string> PamSession::environment() const
{
    std::vector<std::string> variables;
    char** list = pam_getenvlist(handle_->pam);
    for (char** entry = list; entry && *entry; entry++) {
        variables.emplace_back(*entry);
        std::free(*entry);
    }
    std::free(list);
    return variables;
}

} // namespace fluxdat::imp
