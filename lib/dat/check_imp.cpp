// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/check_imp.h"

#include "lib/conf/conf.h"
#include "lib/imp/sign_site.h"
#include "lib/program.h"
#include "paths.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

constexpr const char* config_id = "imp-config";
constexpr const char* name_an_imp =
    "name an IMP with --imp: flux-dat's is called flux-dat-imp, that of flux-security "
    "flux-imp";

// "PREFIX" of PREFIX/libexec/flux/flux-imp; nothing where it is not installed so.
std::optional<std::string> prefix_of(const std::string& imp)
{
    auto at = imp.find("/libexec/");
    if (at == std::string::npos || imp == FLUX_DAT_LIBEXECDIR "/flux-dat/flux-dat-imp")
        return {};
    return imp.substr(0, at);
}

std::string under_etc(const std::string& imp, const std::string& file)
{
    auto prefix = prefix_of(imp);
    if (!prefix)
        return FLUX_DAT_SYSCONFDIR + file;
    return (*prefix == "/usr" ? "" : *prefix) + "/etc" + file;
}

bool contains(const std::vector<std::string>& list, const std::string& what)
{
    return std::find(list.begin(), list.end(), what) != list.end();
}

// "FILE:LINE: " and the message, as the IMP tells them and as we do.
std::string text_of(const Json& problem)
{
    auto file = flux::text_at(problem, "file");
    auto line = flux::integer_at<unsigned>(problem, "line");
    return imp::problem_text(
        {imp::Problem::Severity::note, file, line, flux::text_at(problem, "message")});
}

// One problem as it counts for a DAT. A table that takes the place of another one is
// only warned of by the IMP. Of these two, what was in the first file is then gone, and
// nobody meant that; two [sign] may well say the same.
Verdict problem_verdict(std::string_view severity, const std::string& text)
{
    constexpr const char* one_file =
        "put both into one file; a later file replaces whole tables";
    if (text.find("[exec] takes the place of ") != std::string::npos
        || text.find("[run] takes the place of ") != std::string::npos)
        return failed(config_id, text, one_file);
    if (severity == "error")
        return failed(config_id, text, "mend that file: flux-dat-imp check tells more");
    if (text.find(" takes the place of ") != std::string::npos)
        return warned(config_id, text, one_file);
    return warned(config_id, text);
}

// check_imp_program() tells that the program is not setuid root.
bool is_of_program(const Json& problem)
{
    return flux::text_at(problem, "message").find("setuid root (chown")
           != std::string::npos;
}

std::vector<Verdict> problem_verdicts(const ImpConfig& read, const Json& answer)
{
    std::vector<Verdict> out;
    if (answer.is_object() && answer.contains("problems")
        && answer["problems"].is_array()) {
        for (const auto& problem : answer["problems"])
            if (auto severity = flux::text_at(problem, "severity");
                severity != "note" && !is_of_program(problem))
                out.push_back(problem_verdict(severity, text_of(problem)));
        return out;
    }
    using Severity = imp::Problem::Severity;
    for (const auto& problem : read.problems)
        if (problem.severity != Severity::note)
            out.push_back(problem_verdict(
                problem.severity == Severity::error ? "error" : "warning",
                imp::problem_text(problem)));
    return out;
}

Verdict user_verdict(const ImpConfig& read, const Json& answer, const std::string& user)
{
    const auto& config = read.config.exec;
    bool denied = answer.is_object() && answer.value("allowed", Json()) == false;
    if (contains(config.allowed_users, user) && !denied)
        return passed(config_id, fmt::format("{} may run guests' jobs", user));
    return failed(
        config_id,
        fmt::format("exec.allowed-users in {} has no {}, who so cannot run "
                    "guests' jobs",
                    config.file, user),
        fmt::format("add \"{}\" to exec.allowed-users in {}", user, config.file));
}

// Nothing where all is right.
std::optional<Verdict> shell_verdict(const ImpConfig& read,
                                     const std::string& job_shell)
{
    const auto& config = read.config.exec;
    if (!job_shell.empty() && !contains(config.allowed_shells, job_shell))
        return failed(
            config_id,
            fmt::format("exec.allowed-shells in {} has no {}, the DAT's job shell",
                        config.file, job_shell),
            fmt::format("add \"{}\" to exec.allowed-shells in {}", job_shell,
                        config.file));
    if (std::none_of(config.allowed_shells.begin(), config.allowed_shells.end(),
                     is_program))
        return failed(config_id,
                      fmt::format("exec.allowed-shells in {} has no program that is "
                                  "there",
                                  config.file),
                      fmt::format("add the path of flux-shell to exec.allowed-shells "
                                  "in {}",
                                  config.file));
    return {};
}

// [sign] decides whose signatures count; guests have munge's.
std::optional<Verdict> sign_verdict(const ImpConfig& read)
{
    const auto& sign = read.config.sign;
    if (sign.set && contains(sign.allowed_types, "munge"))
        return {};
    auto what = sign.set ? "sign.allowed-types has no munge" : "there is no [sign]";
    return failed(
        config_id,
        fmt::format("{}: {}, so that no guest's job is accepted", sign.file, what),
        fmt::format("put allowed-types = [\"munge\"] under [sign] in {}", sign.file));
}

bool is_imp(const std::string& program, const std::string& imp)
{
    return program == imp || conf::is_named_as_imp(program);
}

Verdict run_verdict(const std::string& id, const std::string& name,
                    const ImpConfig& read, const std::string& user)
{
    if (!read.unreadable.empty())
        return skipped(id, fmt::format("[run.{}] is in files that {} cannot read: {}",
                                       name, user, read.unreadable));
    auto found = read.config.run.find(name);
    if (found == read.config.run.end())
        return failed(
            id, fmt::format("the IMP knows no [run.{}] in {}", name, read.pattern),
            fmt::format("add [run.{}] there, with path, allowed-users = "
                        "[\"{}\"] and allowed-environment = [\"FLUX_*\"]",
                        name, user));
    const auto& command = found->second;
    if (!contains(command.allowed_users, user))
        return failed(id,
                      fmt::format("run.{}.allowed-users in {} has no {}", name,
                                  command.file, user),
                      fmt::format("add \"{}\" to run.{}.allowed-users in {}", user,
                                  name, command.file));
    struct stat status;
    // What is below a directory of root's alone cannot be seen, and may well be right.
    if (stat(command.path.c_str(), &status) < 0 && errno == EACCES)
        return passed(id, fmt::format("[run.{}] in {}", name, command.file));
    if (!is_program(command.path))
        return failed(id,
                      fmt::format("run.{}.path in {}: {} is not there or not "
                                  "executable",
                                  name, command.file, command.path),
                      fmt::format("install it, chmod 755 {}", command.path));
    return passed(id,
                  fmt::format("{}, [run.{}] in {}", command.path, name, command.file));
}

} // namespace

std::string imp_pattern_of(const std::string& imp)
{
    const char* other = secure_getenv(imp_pattern_variable);
    return other && *other ? other : under_etc(imp, "/flux/imp/conf.d/*.toml");
}

ImpConfig read_imp_config(const std::string& path)
{
    ImpConfig read;
    read.pattern = imp_pattern_of(path);
    const char* other = secure_getenv(imp::sign_pattern_variable);
    auto sign =
        other && *other ? other : under_etc(path, "/flux/security/conf.d/*.toml");
    read.config = imp::read_config({read.pattern, sign, 0}, read.problems);
    for (const auto& problem : read.problems)
        if (problem.severity == imp::Problem::Severity::error
            && problem.message.ends_with(std::strerror(EACCES)))
            read.unreadable = imp::problem_text(problem);
    return read;
}

Verdict check_imp_program(const std::string& path)
{
    auto fit = conf::probe_setuid_imp(path);
    if (fit && !conf::is_named_as_imp(path))
        return warned("imp", path + ", setuid root, but by its name no IMP",
                      name_an_imp);
    if (fit)
        return passed("imp", path + ", setuid root");
    const auto& why = fit.error();
    if (why.errnum == ENOENT || why.errnum == ENOTDIR)
        return failed("imp", why.message,
                      "install it there: flux-dat has flux-dat-imp, flux-security "
                      "flux-imp; or name another one with --imp");
    // Whatever it is, nobody is to be told to make it setuid root.
    if (!conf::is_named_as_imp(path))
        return failed("imp", why.message, name_an_imp);
    if (!conf::is_installed_imp(path))
        return failed(
            "imp", why.message,
            "install it as root, where nobody else may write; or name another "
            "one with --imp");
    if (why.errnum == EPERM)
        return failed("imp", why.message, "chmod 4755 " + path);
    if (why.errnum == ENOTSUP)
        return failed("imp", why.message,
                      fmt::format("mount -o remount,suid \"$(findmnt -no TARGET -T "
                                  "{})\", or put the IMP elsewhere",
                                  path));
    return failed("imp", why.message,
                  fmt::format("let the DAT's owner execute it: chmod 4755 {}, or chgrp "
                              "a group of the owner's and chmod 4750",
                              path));
}

std::vector<Verdict> check_imp_config(const ImpConfig& read, const Json& answer,
                                      const std::string& user,
                                      const std::string& job_shell)
{
    if (!read.unreadable.empty())
        return {skipped(config_id,
                        fmt::format("{} cannot read it: {}", user, read.unreadable),
                        "look as root: flux-dat-imp check")};
    auto out = problem_verdicts(read, answer);
    auto broken = [](const Verdict& verdict) { return verdict.found == Found::failed; };
    // What a configuration that is not read as a whole says of the rest is not so.
    if (std::any_of(out.begin(), out.end(), broken))
        return out;
    out.push_back(user_verdict(read, answer, user));
    if (auto shell = shell_verdict(read, job_shell))
        out.push_back(std::move(*shell));
    if (auto sign = sign_verdict(read))
        out.push_back(std::move(*sign));
    return out;
}

std::optional<Verdict> imp_refusal(const std::string& imp, const std::string& user)
{
    auto read = read_imp_config(imp);
    bool is_broken = std::any_of(
        read.problems.begin(), read.problems.end(), [](const imp::Problem& problem) {
            return problem.severity == imp::Problem::Severity::error;
        });
    // The nodes of the DAT may have what this one, where people log in, has not.
    if (is_broken || !read.unreadable.empty() || read.config.exec.file.empty()
        || read.config.exec.file == read.pattern)
        return {};
    auto verdict = user_verdict(read, Json(), user);
    if (verdict.found == Found::ok)
        return {};
    return verdict;
}

Verdict check_perilog(const std::string& id, const std::vector<std::string>& command,
                      const std::string& imp, const ImpConfig& read,
                      const std::string& user)
{
    auto program = find_program(command[0]);
    if (!program)
        return failed(id, fmt::format("{} is not there or not executable", command[0]),
                      "install it, or change job-manager." + id + ".command");
    // An IMP that need not be the DAT's, and has a configuration of its own then.
    if (command.size() == 3 && is_imp(command[0], imp) && command[1] == "run")
        return run_verdict(id, command[2],
                           *program == imp ? read : read_imp_config(*program), user);
    return passed(id, *program);
}

} // namespace fluxdat::dat
