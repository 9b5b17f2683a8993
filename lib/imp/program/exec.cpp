// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-imp exec SHELL ARGUMENT...: runs a job shell as the user who signed the job
// (RFC 15). The order is that of suspicion: who called and what for is decided by the
// configuration alone, before anything of the input is looked at; the input is read by
// the reader, without privileges; the signature says who the guest is; the guest list
// and the containment come last. Up to the fork nothing has been changed that needs to
// be undone but the PAM session, which ends with its object.
#include "lib/imp/audit.h"
#include "lib/imp/contain.h"
#include "lib/imp/credentials.h"
#include "lib/imp/environment.h"
#include "lib/imp/grants.h"
#include "lib/imp/notify.h"
#include "lib/imp/pam.h"
#include "lib/imp/process.h"
#include "lib/imp/program/imp.h"
#include "lib/imp/supervise.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

// What has been verified, and by whom it is run.
struct Job {
    User owner;
    User guest;
    std::vector<std::string> shell; // its path and arguments
    Containment containment;
    std::optional<PamSession> pam;
};

// The shell, if the configuration has it.
Result<> check_shell(const Imp& imp, const std::vector<std::string>& words)
{
    if (words.size() < 2)
        return fail("missing arguments to exec subcommand (SHELL and what it gets)");
    const auto& shell = words.front();
    const auto& allowed = imp.config.exec.allowed_shells;
    if (!shell.starts_with('/') || std::ranges::find(allowed, shell) == allowed.end())
        return fail("shell not in allowed-shells: " + in_quotes(shell) + " ("
                        + where("exec.allowed-shells", imp.config.exec.file) + ")",
                    EPERM);
    return {};
}

Result<> check_privileges(const Imp& imp)
{
    if (imp.privileged)
        return {};
    if (!imp.config.exec.allow_unprivileged_exec)
        return fail("flux-dat-imp is not installed setuid root, so it cannot run jobs "
                    "of other users",
                    EPERM);
    warn("Running without privilege, userid switching not available");
    return {};
}

// By name: what the caller's environment asks for, if the configuration allows it.
Result<std::string> choose_reader(const Imp& imp)
{
    const char* variable = "FLUX_DAT_IMP_READER";
    const char* name = std::getenv(variable);
    if (!name) {
        variable = "FLUX_IMP_EXEC_HELPER";
        name = std::getenv(variable) ? "helper" : "json";
    }
    const auto& allowed = imp.config.exec.readers;
    if (std::ranges::find(allowed, name) == allowed.end())
        return fail("the reader " + in_quotes(name) + " is not allowed ("
                        + where("exec.readers", imp.config.exec.file) + ")",
                    EPERM);
    return name;
}

Result<Kv> read_job(const Imp& imp, const std::vector<std::string>& words)
{
    auto name = choose_reader(imp);
    if (!name)
        return std::unexpected(std::move(name.error()));
    Reader reader{
        imp.places.reader, imp.also_trusted(), {*name}, imp.places.reader_seconds_max};
    reader.arguments.insert(reader.arguments.end(), words.begin() + 1, words.end());
    debug(imp, "exec: reader " + *name);
    return read_input(reader, imp.uid, imp.gid);
}

// Who signed J. The payload is the shell's affair.
Result<uid_t> verify(const Imp& imp, const Kv& input)
{
    if (!imp.config.sign.set)
        return fail("signature validation failed: there is no [sign] in "
                    + imp.config.sign.file);
    auto J = input.view_string("J");
    if (!J)
        return fail("the input has no J: " + J.error().message, EINVAL);
    auto verified = sign_unwrap(*J, imp.config.sign.policy);
    if (!verified)
        return fail("signature validation failed: " + verified.error().message + " ["
                        + imp.config.sign.file + "]",
                    EPERM);
    return verified->userid;
}

Result<> check_granted(const Imp& imp, const Job& job)
{
    const char* path = std::getenv("FLUX_DAT_GRANTS");
    if (!path) {
        if (!imp.config.exec.require_grant)
            return {};
        return fail("there is no guest list: FLUX_DAT_GRANTS is not set ("
                        + where("exec.require-grant", imp.config.exec.file) + ")",
                    EPERM);
    }
    auto grants = read_grants(path, imp.uid, imp.gid);
    if (!grants)
        return fail("guest list (FLUX_DAT_GRANTS): " + grants.error().message, EPERM);
    auto groups = groups_of(job.guest);
    if (!groups)
        return std::unexpected(std::move(groups.error()));
    if (!is_granted(*grants, job.guest, *groups))
        return fail("user " + audit_user(job.guest) + " is not on the guest list "
                        + in_quotes(path) + " (FLUX_DAT_GRANTS)",
                    EPERM);
    return {};
}

// All that has to be true before anything is done for the guest.
Result<> verify_job(const Imp& imp, const std::vector<std::string>& words, Job& job)
{
    auto input = read_job(imp, words);
    if (!input)
        return std::unexpected(std::move(input.error()));
    auto userid = verify(imp, *input);
    if (!userid)
        return std::unexpected(std::move(userid.error()));
    if (*userid == 0)
        return fail("switching to user root not supported", EPERM);
    auto guest = user_by_uid(*userid);
    if (!guest)
        return fail("who signed the job: " + guest.error().message,
                    guest.error().errnum);
    job.guest = std::move(*guest);
    if (job.guest.uid != *userid || job.guest.gid == 0)
        return fail("user " + audit_user(job.guest)
                        + " has another uid, or root's group, in the user database",
                    EPERM);
    if (auto granted = check_granted(imp, job); !granted)
        return granted;
    auto containment = Containment::from_kv(*input);
    if (!containment)
        return std::unexpected(std::move(containment.error()));
    job.containment = std::move(*containment);
    return {};
}

Result<> authorize(const Imp& imp, const std::vector<std::string>& words, Job& job)
{
    auto caller = allowed_caller(imp, imp.config.exec.allowed_users,
                                 "exec.allowed-users", imp.config.exec.file);
    if (!caller)
        return std::unexpected(std::move(caller.error()));
    job.owner = std::move(*caller);
    if (auto shell = check_shell(imp, words); !shell)
        return shell;
    job.shell = words;
    if (auto privileges = check_privileges(imp); !privileges)
        return privileges;
    return verify_job(imp, words, job);
}

// Without privileges there is neither a session nor a change of user, and only what a
// process may do to itself of containment.
Result<> open_session(const Imp& imp, Job& job)
{
    if (!imp.privileged || !imp.config.exec.pam_support)
        return {};
    auto session = PamSession::open(job.guest.name);
    if (!session)
        return std::unexpected(std::move(session.error()));
    job.pam = std::move(*session);
    return {};
}

// In the child: everything between the fork and the shell.
Result<> become_guest(const Imp& imp, const Job& job,
                      const std::optional<Cgroup>& cgroup)
{
    ContainmentPlace place;
    place.cgroup = cgroup;
    place.require_containment = imp.config.exec.require_containment;
    auto warnings = apply(job.containment, place);
    if (!warnings)
        return std::unexpected(std::move(warnings.error()));
    for (const auto& text : *warnings)
        warn("exec: " + text);
    if (imp.privileged) {
        // Asked for here, since it may load all that nsswitch.conf(5) names.
        auto groups = groups_of(job.guest);
        if (!groups)
            return std::unexpected(std::move(groups.error()));
        if (auto became = become(job.guest, *groups); !became)
            return became;
    }
    // The caller's directory may be one that the guest cannot even be in.
    if (chdir("/") < 0)
        return fail(std::string("cannot change to /: ") + std::strerror(errno), errno);
    return {};
}

std::vector<std::string> environment_of(const Job& job)
{
    auto environment = shell_environment(environ);
    if (!job.pam)
        return environment;
    for (auto& variable : job.pam->environment()) {
        auto name = variable.substr(0, variable.find('=') + 1);
        std::erase_if(environment,
                      [&](const auto& entry) { return entry.starts_with(name); });
        environment.push_back(std::move(variable));
    }
    return environment;
}

[[noreturn]] void run_shell(const Imp& imp, const Job& job, const Signals& signals,
                            const std::optional<Cgroup>& cgroup)
{
    auto environment = environment_of(job);
    if (auto ready = become_guest(imp, job, cgroup); !ready)
        die(1, "exec: " + ready.error().message);
    auto words = c_strings(job.shell);
    auto variables = c_strings(environment);
    signals.restore();
    execve(words[0], words.data(), variables.data());
    int errnum = errno;
    die(exec_status(errnum), job.shell.front() + ": " + std::strerror(errnum));
}

void audit_exec(const Job& job, const std::string& refusal)
{
    std::vector<std::pair<std::string, std::string>> fields{
        {"owner", audit_user(job.owner)}};
    if (!job.guest.name.empty())
        fields.emplace_back("user", audit_user(job.guest));
    if (job.shell.size() > 1)
        fields.insert(fields.end(),
                      {{"shell", job.shell[0]}, {"argument", job.shell[1]}});
    if (!refusal.empty())
        fields.emplace_back("reason", refusal);
    audit("exec", refusal.empty(), fields);
}

[[noreturn]] void refuse(const Job& job, const Error& error)
{
    audit_exec(job, error.message);
    die(1, "exec: " + error.message);
}

} // namespace

void exec_command(const Imp& imp, const std::vector<std::string>& words)
{
    Job job;
    job.owner = {imp.uid, imp.gid, "uid", {}};
    if (auto authorized = authorize(imp, words, job); !authorized)
        refuse(job, authorized.error());
    auto tell = [&imp](const std::string& state) { notify(state, imp.uid, imp.gid); };

    auto signals = Signals::block();
    if (!signals)
        refuse(job, signals.error());
    if (auto session = open_session(imp, job); !session)
        refuse(job, session.error());
    Supervised supervised;
    supervised.cgroup = find_own_cgroup();
    audit_exec(job, {});
    supervised.child = fork();
    if (supervised.child < 0) {
        Error error{std::string("cannot start the job shell: ") + std::strerror(errno),
                    errno};
        job.pam.reset();
        refuse(job, error);
    }
    if (supervised.child == 0)
        run_shell(imp, job, *signals, supervised.cgroup);

    tell("READY=1\nSTATUS=IMP is monitoring child and forwarding signals");
    auto status = supervise(supervised, *signals);
    tell("STOPPING=1\nSTATUS=IMP child ended, waiting for cgroup");
    if (auto empty = wait_for_cgroup(supervised, *signals); !empty)
        warn("exec: " + empty.error().message);
    job.pam.reset();
    if (!status)
        die(1, "exec: " + status.error().message);
    tell("STATUS=cgroup is now empty, exiting");
    end_like(*status);
}

} // namespace fluxdat::imp
