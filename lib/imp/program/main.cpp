// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-imp(8): the bundled IMP (RFC 15), a drop-in for flux-imp of flux-security.
// Installed setuid root. This file decides who called and which command is meant; it is
// also the only one that is compiled twice: with FLUX_DAT_IMP_TEST for a program that
// is never installed, and takes from its environment where configuration and reader
// are.
#include "lib/imp/credentials.h"
#include "lib/imp/process.h"
#include "lib/imp/program/imp.h"
#include "paths.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

// libstdc++ would name the exception that nobody caught, for which it brings along a
// demangler of 40 KiB. Nothing here throws; what the library throws in spite of that
// ends the program, and a core dump tells where.
namespace __gnu_cxx {
void __verbose_terminate_handler()
{
    std::abort();
}
} // namespace __gnu_cxx

namespace fluxdat::imp {

namespace {

constexpr const char* program_name = "flux-dat-imp";

void say(const char* severity, const std::string& text)
{
    std::string line = std::string(program_name) + ": " + severity + text + "\n";
    // Where stderr is gone there is nobody to tell.
    [[maybe_unused]] auto written = write(STDERR_FILENO, line.data(), line.size());
}

// std::bad_alloc would end in a core dump and a message that says nothing.
[[noreturn]] void out_of_memory()
{
    constexpr std::string_view text = "flux-dat-imp: Fatal: out of memory\n";
    [[maybe_unused]] auto written = write(STDERR_FILENO, text.data(), text.size());
    _exit(1);
}

std::optional<unsigned> number_in(const char* variable)
{
    const char* text = std::getenv(variable);
    if (!text)
        return {};
    unsigned value = 0;
    auto end = text + std::strlen(text);
    auto [stop, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || stop != end || text == end)
        return {};
    return value;
}

Places places()
{
    Places places{FLUX_DAT_SYSCONFDIR "/flux/imp/conf.d/*.toml",
                  FLUX_DAT_SYSCONFDIR "/flux/security/conf.d/*.toml",
                  FLUX_DAT_LIBEXECDIR "/flux-dat/flux-dat-imp-reader"};
#ifdef FLUX_DAT_IMP_TEST
    if (const char* pattern = std::getenv("FLUX_IMP_CONFIG_PATTERN"))
        places.imp_pattern = places.security_pattern = pattern;
    const char* reader = std::getenv("FLUX_DAT_IMP_TEST_READER");
    places.reader = reader ? reader : FLUX_DAT_IMP_TEST_READER_DEFAULT;
    if (auto seconds = number_in("FLUX_DAT_IMP_TEST_READER_SECONDS"))
        places.reader_seconds_max = static_cast<int>(*seconds);
#endif
    return places;
}

// Under sudo(8), and only if the configuration allows it (allow-sudo, for tests): the
// ids that a setuid program would have had, called by the user of sudo.
void simulate_setuid(Imp& imp)
{
    auto uid = number_in("SUDO_UID");
    auto gid = number_in("SUDO_GID");
    if (!uid || !gid || *uid == 0)
        die(1, "Refusing to run as root");
    if (!imp.config.allow_sudo)
        die(1, "sudo support not enabled (allow-sudo, " + imp.places.imp_pattern + ")");
    if (setresgid(*gid, 0, 0) < 0 || setresuid(*uid, 0, 0) < 0 || getuid() != *uid
        || getgid() != *gid || geteuid() != 0)
        die(1, "cannot simulate a setuid installation for uid " + std::to_string(*uid));
    imp.uid = *uid;
    imp.gid = *gid;
    imp.privileged = true;
}

void print_ids(const char* which)
{
    std::string line =
        std::string(program_name) + ": " + which + ": uid=" + std::to_string(getuid())
        + " euid=" + std::to_string(geteuid()) + " gid=" + std::to_string(getgid())
        + " egid=" + std::to_string(getegid()) + "\n";
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0)
        _exit(1);
}

// Each half tells of itself, so that the unprivileged line is what the reader will be.
[[noreturn]] void whoami_command(const Imp& imp)
{
    if (!imp.privileged) {
        print_ids("unprivileged");
        _exit(0);
    }
    pid_t child = fork();
    if (child < 0)
        die(1, std::string("whoami: fork: ") + std::strerror(errno));
    if (child == 0) {
        if (auto dropped = drop_for_good(imp.uid, imp.gid); !dropped)
            die(1, "whoami: " + dropped.error().message);
        print_ids("unprivileged");
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            die(1, std::string("whoami: waitpid: ") + std::strerror(errno));
    if (status != 0)
        _exit(1);
    print_ids("privileged");
    _exit(0);
}

[[noreturn]] void version_command()
{
    std::string line = std::string(program_name) + " v" FLUX_DAT_VERSION "\n";
    _exit(write(STDOUT_FILENO, line.data(), line.size()) < 0 ? 1 : 0);
}

[[noreturn]] void help_command()
{
    constexpr std::string_view text =
        "usage: flux-dat-imp version | whoami | check [--json]\n"
        "       flux-dat-imp exec SHELL ARGUMENT...   (a multi-user Flux instance "
        "does)\n"
        "       flux-dat-imp run NAME                 (likewise)\n"
        "See flux-dat-imp(8).\n";
    _exit(write(STDOUT_FILENO, text.data(), text.size()) < 0 ? 1 : 0);
}

// Who called, and what for.
[[noreturn]] void dispatch(std::vector<std::string> words)
{
    if (words.empty())
        die(1, "command required (version, whoami, exec, run or check; see "
               "flux-dat-imp help)");
    auto command = words.front();
    words.erase(words.begin());
    Imp imp;
    imp.places = places();
    imp.uid = getuid();
    imp.gid = getgid();
    imp.privileged = geteuid() == 0 && imp.uid != 0;
    if (command == "version")
        version_command();
    if (command == "--help" || command == "-h" || command == "help")
        help_command();
    if (command == "check")
        check_command(imp, words);
    if (command != "whoami" && command != "exec" && command != "run")
        die(1, "Unknown IMP command: " + printable(command.substr(0, quoted_bytes_max))
                   + " (see flux-dat-imp help)");
    if (geteuid() != 0 && geteuid() != imp.uid)
        die(1, "is setuid to uid " + std::to_string(geteuid())
                   + ", which is neither root nor you; install it setuid root");
    bool as_root = imp.uid == 0;
    if (command == "whoami" && !as_root)
        whoami_command(imp);
    load(imp);
    if (as_root)
        simulate_setuid(imp);
    if (command == "whoami")
        whoami_command(imp);
    if (command == "exec")
        exec_command(imp, words);
    run_command(imp, words);
}

} // namespace

std::string where(const std::string& key, const std::string& file)
{
    return key + " in " + file;
}

void warn(const std::string& text)
{
    say("Warning: ", text);
}

void debug(const Imp& imp, const std::string& text)
{
    if (imp.config.log_level == LogLevel::debug)
        say("Debug: ", text);
}

void die(int status, const std::string& text)
{
    say("Fatal: ", text);
    _exit(status);
}

void load(Imp& imp)
{
    std::vector<Problem> problems;
    imp.config = read_config(
        {imp.places.imp_pattern, imp.places.security_pattern, imp.also_trusted()},
        problems);
    bool usable = true;
    for (const auto& problem : problems) {
        if (problem.severity == Problem::Severity::note)
            continue;
        warn("configuration: " + problem_text(problem));
        usable = usable && problem.severity != Problem::Severity::error;
    }
    if (!usable)
        die(1, "Failed to load configuration");
}

Result<User> allowed_caller(const Imp& imp, const std::vector<std::string>& allowed,
                            const std::string& key, const std::string& file)
{
    auto caller = user_by_uid(imp.uid);
    if (!caller)
        return caller;
    for (const auto& name : allowed)
        if (name == caller->name)
            return caller;
    return fail("user " + caller->name + " not in allowed-users list ("
                    + where(key, file) + ")",
                EPERM);
}

} // namespace fluxdat::imp

int main(int argc, char** argv)
{
    std::set_new_handler(fluxdat::imp::out_of_memory);
    if (auto open = fluxdat::imp::open_standard_fds(); !open)
        fluxdat::imp::die(1, open.error().message);
    // A caller may have left it ignored, and then no child's status is had.
    std::signal(SIGCHLD, SIG_DFL);
    // execve(2) allows a program to be called without even a name.
    fluxdat::imp::dispatch({argv + (argc > 0 ? 1 : 0), argv + argc});
}
