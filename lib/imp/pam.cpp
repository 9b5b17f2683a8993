// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/pam.h"

#include <cstdlib>
#include <dlfcn.h>
#include <security/pam_appl.h>

namespace fluxdat::imp {

namespace {

// libpam's functions, loaded where they are needed: linked, it and what it links would
// be in every setuid process of every site, and cost a job start more than all the
// rest. The dynamic linker looks for a name without a slash in the system's directories
// only.
class Library
{
public:
    Library() : handle_(dlopen("libpam.so.0", RTLD_NOW | RTLD_LOCAL)) {}
    ~Library()
    {
        if (handle_)
            dlclose(handle_);
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    bool load()
    {
        return handle_ && find(start, "pam_start") && find(end, "pam_end")
               && find(authenticate, "pam_authenticate") && find(setcred, "pam_setcred")
               && find(open_session, "pam_open_session")
               && find(close_session, "pam_close_session")
               && find(getenvlist, "pam_getenvlist") && find(strerror, "pam_strerror");
    }

    decltype(&pam_start) start = nullptr;
    decltype(&pam_end) end = nullptr;
    decltype(&pam_authenticate) authenticate = nullptr;
    decltype(&pam_setcred) setcred = nullptr;
    decltype(&pam_open_session) open_session = nullptr;
    decltype(&pam_close_session) close_session = nullptr;
    decltype(&pam_getenvlist) getenvlist = nullptr;
    decltype(&pam_strerror) strerror = nullptr;

private:
    template <class Function>
    bool find(Function& function, const char* name)
    {
        function = reinterpret_cast<Function>(dlsym(handle_, name));
        return function != nullptr;
    }

    void* handle_;
};

// Nobody is there to be asked for a password: a module that asks is refused.
int nobody_to_ask(int, const pam_message**, pam_response**, void*)
{
    return PAM_CONV_ERR;
}

const pam_conv conversation{nobody_to_ask, nullptr};

} // namespace

struct PamSession::Handle {
    Library library;
    pam_handle_t* pam = nullptr;
    int status = PAM_SUCCESS;
    bool has_credentials = false;
    bool is_open = false;

    ~Handle()
    {
        if (is_open)
            status = library.close_session(pam, 0);
        if (has_credentials)
            status = library.setcred(pam, PAM_DELETE_CRED);
        if (pam)
            library.end(pam, status);
    }

    Result<> step(const char* what, int result)
    {
        status = result;
        if (result == PAM_SUCCESS)
            return {};
        return fail(std::string("PAM (exec.pam-support, ") + pam_service_file
                    + "): " + what + ": " + library.strerror(pam, result));
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
    auto& pam = h.library;
    if (!pam.load())
        return fail("PAM (exec.pam-support): libpam.so.0 is not there, or not libpam");
    auto done =
        h.step("start", pam.start(pam_service, user.c_str(), &conversation, &h.pam));
    // The signature has authenticated the user; the auth modules are still asked, since
    // they have a say in whether this account may come in here (pam_localuser).
    if (done)
        done = h.step("auth", pam.authenticate(h.pam, PAM_SILENT));
    if (done) {
        done = h.step("credentials", pam.setcred(h.pam, PAM_ESTABLISH_CRED));
        h.has_credentials = done.has_value();
    }
    if (done) {
        done = h.step("session", pam.open_session(h.pam, 0));
        h.is_open = done.has_value();
    }
    if (!done)
        return std::unexpected(std::move(done.error()));
    return PamSession(std::move(handle));
}

std::vector<std::string> PamSession::environment() const
{
    std::vector<std::string> variables;
    char** list = handle_->library.getenvlist(handle_->pam);
    for (char** entry = list; entry && *entry; entry++) {
        variables.emplace_back(*entry);
        std::free(*entry);
    }
    std::free(list);
    return variables;
}

} // namespace fluxdat::imp
