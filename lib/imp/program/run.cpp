// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-imp run NAME: runs what the configuration calls so, as root; prolog and
// epilog most of all (RFC 15, "Privileged administrative actions"). Nothing of the
// caller's gets into it but the environment that the configuration allows.
#include "lib/imp/audit.h"
#include "lib/imp/credentials.h"
#include "lib/imp/environment.h"
#include "lib/imp/process.h"
#include "lib/imp/program/imp.h"
#include "lib/imp/supervise.h"
#include "lib/imp/trusted.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

constexpr mode_t run_umask = 022;

struct Command {
    std::string name;
    User caller;
    const RunCommand* configured = nullptr;
};

Result<> authorize(const Imp& imp, const std::vector<std::string>& words,
                   Command& command)
{
    if (words.empty())
        return fail("nothing to run (a name that [run.NAME] configures)");
    command.name = words.front();
    auto found = imp.config.run.find(command.name);
    if (found == imp.config.run.end())
        return fail(printable(command.name.substr(0, quoted_bytes_max))
                    + ": no configuration found (" + imp.places.imp_pattern + ")");
    command.configured = &found->second;
    auto key = "run." + found->first;
    auto caller = allowed_caller(imp, found->second.allowed_users,
                                 key + ".allowed-users", found->second.file);
    if (!caller)
        return fail("permission denied: " + caller.error().message, EPERM);
    command.caller = std::move(*caller);
    const auto& path = found->second.path;
    if (!path.starts_with('/'))
        return fail(found->first + ": path is missing or invalid ("
                    + where(key + ".path", found->second.file) + ")");
    if (auto fit = check_trusted(path, imp.also_trusted()); !fit)
        return fail(fit.error().message + " ("
                        + where(key + ".path", found->second.file) + ")",
                    fit.error().errnum);
    return {};
}

[[noreturn]] void execute(const Imp& imp, const Command& command, const User& as,
                          const Signals& signals)
{
    const auto& path = command.configured->path;
    std::vector<std::string> words{path};
    auto environment = run_environment(environ, *command.configured, imp.uid, as);
    if (imp.privileged)
        if (auto root = become_root(); !root)
            die(1, "run: " + root.error().message);
    // What root's command creates shall not be everybody's because the caller said so.
    umask(run_umask);
    // A process group of its own, so that what a script has started is reached as well.
    if (setpgid(0, 0) < 0 || chdir("/") < 0)
        die(1, std::string("run: setpgid or chdir: ") + std::strerror(errno));
    auto arguments = c_strings(words);
    auto variables = c_strings(environment);
    signals.restore();
    execve(path.c_str(), arguments.data(), variables.data());
    int errnum = errno;
    die(exec_status(errnum), path + ": " + std::strerror(errnum));
}

void audit_run(const Imp& imp, const Command& command, const std::string& refusal)
{
    std::vector<std::pair<std::string, std::string>> fields{
        {"owner", command.caller.name.empty() ? "uid(" + std::to_string(imp.uid) + ")"
                                              : audit_user(command.caller)},
        {"name", command.name}};
    for (const char* variable : {"FLUX_JOB_ID", "FLUX_JOB_USERID"})
        if (const char* value = std::getenv(variable))
            fields.emplace_back(variable, value);
    if (!refusal.empty())
        fields.emplace_back("reason", refusal);
    audit("run", refusal.empty(), fields);
}

[[noreturn]] void refuse(const Imp& imp, const Command& command, const Error& error)
{
    audit_run(imp, command, error.message);
    die(1, "run: " + error.message);
}

} // namespace

void run_command(const Imp& imp, const std::vector<std::string>& words)
{
    Command command;
    if (auto authorized = authorize(imp, words, command); !authorized)
        refuse(imp, command, authorized.error());
    auto as = user_by_uid(geteuid());
    if (!as)
        refuse(imp, command, as.error());
    auto signals = Signals::block();
    if (!signals)
        refuse(imp, command, signals.error());
    audit_run(imp, command, {});
    Supervised supervised;
    supervised.group = true;
    supervised.child = fork();
    if (supervised.child < 0)
        refuse(imp, command,
               {std::string("cannot start it: ") + std::strerror(errno), errno});
    if (supervised.child == 0)
        execute(imp, command, *as, *signals);
    // Here as well, so that a signal that comes at once finds the group.
    setpgid(supervised.child, supervised.child);
    auto status = supervise(supervised, *signals);
    if (!status)
        die(1, "run: " + status.error().message);
    end_like(*status);
}

} // namespace fluxdat::imp
