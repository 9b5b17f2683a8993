// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The reader `helper`: RFC 15, "Input to the IMP", from the output of a program. Its
// command is the value of FLUX_IMP_EXEC_HELPER, split at blanks and nothing else: no
// shell, no quotes, no variables, as flux-imp does it. The helper gets the IMP's stdin
// not to read but as it is, since that belongs to the job shell.
#include "lib/imp/fd.h"
#include "lib/imp/process.h"
#include "lib/imp/reader/reader.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::imp::reader {

namespace {

std::vector<std::string> split_at_blanks(std::string_view text)
{
    std::vector<std::string> words;
    for (std::size_t at = 0; at < text.size();) {
        auto begin = text.find_first_not_of(" \t\n", at);
        if (begin == text.npos)
            break;
        auto end = std::min(text.find_first_of(" \t\n", begin), text.size());
        words.emplace_back(text.substr(begin, end - begin));
        at = end;
    }
    return words;
}

[[noreturn]] void execute(const std::vector<std::string>& words, int output,
                          pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); // not left running when the IMP gives up
    if (getppid() != parent || dup2(output, STDOUT_FILENO) < 0)
        _exit(126);
    auto arguments = c_strings(words);
    execvp(arguments[0], arguments.data());
    int errnum = errno;
    std::string line =
        "flux-dat-imp-reader: " + words[0] + ": " + std::strerror(errnum) + "\n";
    [[maybe_unused]] auto written = write(STDERR_FILENO, line.data(), line.size());
    _exit(exec_status(errnum));
}

std::string how_it_ended(int status)
{
    if (WIFSIGNALED(status))
        return "was killed by signal " + std::to_string(WTERMSIG(status));
    int code = WEXITSTATUS(status);
    return code == 127 ? "was not found"
                       : "failed with exit status " + std::to_string(code);
}

} // namespace

Result<Kv> read_helper(const Arguments&)
{
    const char* command = std::getenv("FLUX_IMP_EXEC_HELPER");
    if (!command)
        return fail(
            "the reader \"helper\" needs FLUX_IMP_EXEC_HELPER, which is not set",
            EINVAL);
    auto words = split_at_blanks(command);
    if (words.empty())
        return fail("FLUX_IMP_EXEC_HELPER is empty", EINVAL);
    auto source = "the helper " + in_quotes(command);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail(source + ": pipe: " + std::strerror(errno), errno);
    Fd output(ends[0]), input(ends[1]);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0)
        return fail(source + " cannot be started: " + std::strerror(errno), errno);
    if (child == 0)
        execute(words, input.get(), parent);
    input.close();
    auto text = read_all(output.get(), "the output of " + source);
    output.close();
    if (!text)
        kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return fail(source + ": waitpid: " + std::strerror(errno), errno);
    if (!text)
        return std::unexpected(std::move(text.error()));
    // What a helper that failed has printed is not what it meant to print.
    if (status != 0)
        return fail(source + " " + how_it_ended(status));
    return from_json(text->view(), "the output of " + source);
}

} // namespace fluxdat::imp::reader
