// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/early.h"

namespace fluxdat::dat {

Timeliness timeliness(const FixedWindow& window, double now)
{
    if (now < window.begin - window.early)
        return Timeliness::early;
    bool late = now > window.begin && window.time_limit > 0;
    if (late && limit_from(window, now) < window_left_min)
        return Timeliness::over;
    return Timeliness::now;
}

double limit_from(const FixedWindow& window, double now)
{
    if (window.time_limit <= 0 || now <= window.begin)
        return window.time_limit;
    return window.begin + window.time_limit - now;
}

} // namespace fluxdat::dat
