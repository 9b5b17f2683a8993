// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/audit.h"

#include "lib/imp/process.h"

#include <syslog.h>

namespace fluxdat::imp {

namespace {

// A quote or a backslash inside would make the end of a value a matter of opinion.
std::string quoted(std::string_view value)
{
    std::string text = printable(value.substr(0, audit_value_bytes_max));
    for (char& c : text)
        if (c == '"' || c == '\\')
            c = '\'';
    return "\"" + text + "\"";
}

} // namespace

std::string audit_user(const User& user)
{
    return printable(user.name) + "(" + std::to_string(user.uid) + ")";
}

std::string audit_line(std::string_view command, bool accepted,
                       const std::vector<std::pair<std::string, std::string>>& fields)
{
    std::string line(command);
    line += accepted ? ": accepted" : ": refused";
    for (const auto& [name, value] : fields)
        line += " " + name + "=" + quoted(value);
    return line;
}

void audit(std::string_view command, bool accepted,
           const std::vector<std::pair<std::string, std::string>>& fields)
{
    openlog("flux-dat-imp", LOG_PID | LOG_NDELAY, LOG_AUTHPRIV);
    syslog(accepted ? LOG_INFO : LOG_WARNING, "%s",
           audit_line(command, accepted, fields).c_str());
    closelog();
}

} // namespace fluxdat::imp
