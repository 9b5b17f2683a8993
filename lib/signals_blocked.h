// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Blocks every signal that can be blocked; the mask before comes back with the scope.
#pragma once

#include <csignal>

namespace fluxdat {

class SignalsBlocked
{
public:
    SignalsBlocked()
    {
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

} // namespace fluxdat
