// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-imp check [--json]: reads the configuration as exec and run would, and tells
// everything that is wrong with it or would be refused, each with its file. It runs
// with the rights of who calls it and no more: what it reads out is then nothing that
// the caller could not read. Root sees all.
//
// Exit status: 0 nothing is wrong, 1 an error or a warning, 2 usage.
#include "lib/imp/credentials.h"
#include "lib/imp/pam.h"
#include "lib/imp/process.h"
#include "lib/imp/program/imp.h"
#include "lib/imp/trusted.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

using Severity = Problem::Severity;

constexpr std::array<std::string_view, 4> known_readers{"json", "helper", "flux", "kv"};

const char* severity_name(Severity severity)
{
    switch (severity) {
    case Severity::error:
        return "error";
    case Severity::warning:
        return "warning";
    case Severity::note:
        return "note";
    }
    return "";
}

class Check
{
public:
    Check(const Imp& imp, std::vector<Problem>& problems)
        : imp_(imp), problems_(problems)
    {
    }

    void all()
    {
        program();
        exec();
        for (const auto& [name, command] : imp_.config.run)
            run(name, command);
        sign();
    }

private:
    void add(Severity severity, const std::string& file, std::string message)
    {
        problems_.push_back({severity, file, 0, std::move(message)});
    }

    void program();
    void exec();
    void shells();
    void run(const std::string& name, const RunCommand& command);
    void sign();
    void users(const std::vector<std::string>& names, const std::string& key,
               const std::string& file);

    const Imp& imp_;
    std::vector<Problem>& problems_;
};

void Check::program()
{
    struct stat status;
    if (stat("/proc/self/exe", &status) == 0
        && (status.st_uid != 0 || !(status.st_mode & S_ISUID))
        && !imp_.config.exec.allow_unprivileged_exec)
        add(Severity::warning, {},
            "flux-dat-imp is not installed setuid root (chown root, chmod 4755): it "
            "cannot run jobs of other users");
    if (auto reader = check_trusted(imp_.places.reader, imp_.also_trusted()); !reader)
        add(Severity::error, {}, "the reader: " + reader.error().message);
    if (imp_.config.allow_sudo)
        add(Severity::warning, imp_.places.imp_pattern,
            "allow-sudo is set, which is for tests only");
}

void Check::users(const std::vector<std::string>& names, const std::string& key,
                  const std::string& file)
{
    if (names.empty())
        add(Severity::warning, file, key + " is missing or empty: nobody may use it");
    for (const auto& name : names)
        if (!user_exists(name))
            add(Severity::warning, file,
                key + ": there is no user " + in_quotes(name) + " on " + host_name());
}

void Check::shells()
{
    const auto& config = imp_.config.exec;
    if (config.allowed_shells.empty())
        add(Severity::warning, config.file,
            "exec.allowed-shells is missing or empty: no job can run");
    for (const auto& shell : config.allowed_shells) {
        struct stat status;
        auto about = "exec.allowed-shells: " + printable(shell);
        if (!shell.starts_with('/'))
            add(Severity::warning, config.file, about + " is not an absolute path");
        else if (stat(shell.c_str(), &status) < 0)
            add(Severity::warning, config.file, about + ": " + std::strerror(errno));
        else if (!S_ISREG(status.st_mode) || !(status.st_mode & S_IXOTH))
            add(Severity::warning, config.file,
                about + " is not a program that everybody can execute");
        else if (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)))
            add(Severity::warning, config.file,
                about
                    + " can be changed by others than root, who would then run what "
                      "they like as any guest");
    }
}

void Check::exec()
{
    const auto& config = imp_.config.exec;
    users(config.allowed_users, "exec.allowed-users", config.file);
    shells();
    for (const auto& reader : config.readers)
        if (std::ranges::find(known_readers, reader) == known_readers.end())
            add(Severity::warning, config.file,
                "exec.readers: no reader is called " + in_quotes(reader));
    if (std::ranges::find(config.readers, "kv") != config.readers.end())
        add(Severity::warning, config.file, "exec.readers has kv, which is for tests");
    if (config.allow_unprivileged_exec)
        add(Severity::warning, config.file,
            "exec.allow-unprivileged-exec is set, which is for tests only");
    if (config.pam_support && access(pam_service_file, R_OK) < 0)
        add(Severity::error, config.file,
            std::string("exec.pam-support is set, and ") + pam_service_file + ": "
                + std::strerror(errno));
}

void Check::run(const std::string& name, const RunCommand& command)
{
    auto key = "run." + name;
    users(command.allowed_users, key + ".allowed-users", command.file);
    if (!command.path.starts_with('/')) {
        add(Severity::warning, command.file, key + ".path is missing or not absolute");
    } else if (auto fit = check_trusted(command.path, imp_.also_trusted()); !fit) {
        add(Severity::warning, command.file, key + ".path: " + fit.error().message);
    } else {
        struct stat status;
        if (stat(command.path.c_str(), &status) < 0 || !(status.st_mode & S_IXUSR))
            add(Severity::warning, command.file,
                key + ".path: " + command.path + " is not executable");
    }
    if (!command.allowed_environment)
        add(Severity::note, command.file,
            key + ".allowed-environment is missing: not even FLUX_JOB_ID is passed on");
}

void Check::sign()
{
    const auto& sign = imp_.config.sign;
    if (!sign.set) {
        add(Severity::warning, sign.file,
            "there is no [sign]: no signature is accepted");
        return;
    }
    if (std::ranges::find(sign.allowed_types, "none") != sign.allowed_types.end())
        add(Severity::note, sign.file,
            "sign.allowed-types has none, which is worth nothing but for one's own "
            "jobs");
    if (!sign.allowed_types.empty() && sign.policy.allowed.empty())
        add(Severity::warning, sign.file,
            "sign.allowed-types has nothing that is known here: no signature is "
            "accepted");
}

// RFC 8259, section 7. Bytes that are no ASCII go out as they are where they are UTF-8;
// paths that are not become "?", since JSON has no way to say them.
std::string json_string(const std::string& text)
{
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out = "\"";
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += {'\\', c};
        } else if (byte < 0x20) {
            out += "\\u00";
            out += {hex[byte >> 4], hex[byte & 15]};
        } else {
            out += byte < 0x7f ? c : '?';
        }
    }
    return out + "\"";
}

// Whether exec would do anything for the caller. JSON's null: the configuration could
// not be read as a whole, so nobody but root can tell.
const char* allowed(const Imp& imp, const std::vector<Problem>& problems)
{
    for (const auto& problem : problems)
        if (problem.severity == Severity::error)
            return "null";
    const auto& config = imp.config.exec;
    auto caller =
        allowed_caller(imp, config.allowed_users, "exec.allowed-users", config.file);
    return caller ? "true" : "false";
}

std::string as_json(const std::vector<Problem>& problems, bool good,
                    const char* allowed)
{
    std::string out = std::string("{\"ok\": ") + (good ? "true" : "false")
                      + ", \"allowed\": " + allowed + ", \"problems\": [";
    const char* comma = "";
    for (const auto& problem : problems) {
        out += comma;
        out += std::string("{\"severity\": \"") + severity_name(problem.severity)
               + "\", \"file\": "
               + (problem.file.empty() ? "null" : json_string(problem.file))
               + ", \"line\": " + (problem.line ? std::to_string(problem.line) : "null")
               + ", \"message\": " + json_string(problem.message) + "}";
        comma = ", ";
    }
    return out + "]}\n";
}

std::string as_text(const std::vector<Problem>& problems, bool good)
{
    std::string out;
    for (const auto& problem : problems)
        out += std::string(severity_name(problem.severity)) + ": "
               + printable(problem_text(problem)) + "\n";
    return good ? out + "no errors or warnings\n" : out;
}

bool parse_options(const std::vector<std::string>& words)
{
    bool json = false;
    for (const auto& word : words) {
        if (word != "--json")
            die(2, "check: unknown argument " + in_quotes(word)
                       + " (usage: flux-dat-imp check [--json])");
        json = true;
    }
    return json;
}

} // namespace

void check_command(const Imp& caller, const std::vector<std::string>& words)
{
    bool json = parse_options(words);
    Imp imp = caller;
    if (geteuid() != imp.uid)
        if (auto dropped = drop_for_good(imp.uid, imp.gid); !dropped)
            die(1, "check: " + dropped.error().message);
    // What the installed program would say: only root's files count.
    imp.privileged = true;
    std::vector<Problem> problems;
    imp.config =
        read_config({imp.places.imp_pattern, imp.places.security_pattern, 0}, problems);
    Check(imp, problems).all();
    bool good = std::ranges::all_of(
        problems, [](const auto& one) { return one.severity == Severity::note; });
    auto text = json ? as_json(problems, good, allowed(imp, problems))
                     : as_text(problems, good);
    for (std::string_view rest = text; !rest.empty();) {
        auto written = write(STDOUT_FILENO, rest.data(), rest.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            _exit(1);
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
    _exit(good ? 0 : 1);
}

} // namespace fluxdat::imp
