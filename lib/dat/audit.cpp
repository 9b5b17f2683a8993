// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/audit.h"

#include "lib/say.h"

#include <cstdio>
#include <syslog.h>

namespace fluxdat::dat {

namespace {

template <class Id>
void list(std::string& out, const char* what, const std::vector<Id>& ids)
{
    if (ids.empty())
        return;
    out += fmt::format("{}{}{}", out.empty() ? "" : ", ", what,
                       ids.size() == 1 ? "" : "s");
    for (std::size_t i = 0; i < ids.size() && i < summary_ids_max; i++)
        out += fmt::format(" {}", ids[i]);
    if (ids.size() > summary_ids_max)
        out += fmt::format(" and {} more", ids.size() - summary_ids_max);
}

std::string list(const Named& named)
{
    std::string out;
    list(out, "user", named.users);
    list(out, "group", named.groups);
    list(out, "manager", named.managers);
    return out;
}

} // namespace

std::string summary(const Desired::Effect& effect)
{
    std::string out;
    auto add = [&](const std::string& text) {
        out += (out.empty() ? "" : "; ") + text;
    };
    if (!effect.granted.empty())
        add("granted " + list(effect.granted));
    if (!effect.revoked.empty())
        add("revoked " + list(effect.revoked));
    if (effect.open)
        add(*effect.open ? "opened" : "closed");
    if (out.empty() && effect.kept)
        add("ended the jobs that were kept");
    return out;
}

namespace {

std::string spoken_for; // with what separates it from the rest

void log(int priority, std::string text)
{
    text.insert(0, spoken_for);
    say(stderr, "flux-dat supervise: {}\n", text);
    std::fflush(stderr);
    // The ident is given with each line: openlog(3) would hold on to a pointer.
    syslog(priority, "flux-dat: %s", text.c_str());
}

} // namespace

void speak_for(const std::string& name, flux::JobId id)
{
    spoken_for =
        fmt::format("the DAT \"{}\" ({}): ", name, flux::format_jobid_ascii(id));
}

void audit(const std::string& text)
{
    log(LOG_AUTHPRIV | LOG_NOTICE, text);
}

void complain(const std::string& text)
{
    log(LOG_DAEMON | LOG_ERR, text);
}

} // namespace fluxdat::dat
