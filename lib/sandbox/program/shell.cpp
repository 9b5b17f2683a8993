// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-shell JOBID: the job shell of the sandbox, see lib/sandbox/job_shell.h. It
// is compiled twice: with FLUX_DAT_SHELL_TEST for a program that is never installed,
// and takes from its environment where [sign] is. In the installed one nothing that the
// instance's owner can set changes whom it asks about a signature.
#include "lib/imp/sign_site.h"
#include "lib/sandbox/job_shell.h"

#include <cstdlib>

int main(int argc, char** argv)
{
    auto pattern = fluxdat::imp::installed_sign_pattern();
#ifdef FLUX_DAT_SHELL_TEST
    if (const char* other = std::getenv("FLUX_IMP_CONFIG_PATTERN"))
        pattern = other;
#endif
    return fluxdat::sandbox::job_shell_main(argc, argv, pattern);
}
