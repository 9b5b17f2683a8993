// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A DAT in an instance in private mode (access.private-mode, flux-config-access(5)),
// where people see no jobs but their own. Its supervisor tells those who may come in,
// and the managers, of it, if they give the job id that they were told. Only a DAT of
// the instance's owner can be asked: the name of another's service has a uid in it that
// is not known here.
#pragma once

#include "lib/dat/find.h"

namespace fluxdat::dat {

struct Unseen {
    Dat dat;           // as far as its supervisor told
    flux::Json answer; // the supervisor's, to `admission`
};

// Where find_dat() gave `not_found`. That is the error, with a word on private mode
// where it is on; exit 7 where the supervisor refuses the caller.
flux::Task<Result<Unseen>> find_unseen(flux::Loop& loop, flux::Connection& parent,
                                       std::string selector, Error not_found);

// find_dat(), and find_unseen() where that finds none.
flux::Task<Result<Dat>> find_dat_to_use(flux::Loop& loop, flux::Connection& parent,
                                        std::optional<std::string> selector);

} // namespace fluxdat::dat
