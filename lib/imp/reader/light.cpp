// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the small reader program leaves to flux-dat-imp-reader-full, which is beside it
// (reader.h says why there are two).
#include "lib/imp/process.h"
#include "lib/imp/reader/reader.h"

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace fluxdat::imp::reader {

namespace {

Error cannot(const char* what)
{
    int errnum = errno;
    return {std::string("cannot hand over to flux-dat-imp-reader-full: ") + what + ": "
                + std::strerror(errnum),
            errnum};
}

} // namespace

Error become_full(const char* name, std::string_view text, const Arguments& arguments)
{
    std::array<char, PATH_MAX> self{};
    if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0)
        return cannot("/proc/self/exe");
    int input = memfd_create("input", 0);
    if (input < 0)
        return cannot("memfd_create");
    while (!text.empty()) {
        auto written = write(input, text.data(), text.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return cannot("write");
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (lseek(input, 0, SEEK_SET) < 0 || dup2(input, STDIN_FILENO) < 0)
        return cannot("dup2");
    close(input);
    // The pipe to the IMP was closed for programs that are executed.
    if (!keep_output())
        return cannot("fcntl");
    std::vector<std::string> words{std::string(self.data()) + "-full", name};
    words.insert(words.end(), arguments.begin(), arguments.end());
    execv(words[0].c_str(), c_strings(words).data());
    return cannot(words[0].c_str());
}

Result<> contain(std::string_view text, Kv&)
{
    return std::unexpected(become_full("json", text, {}));
}

Result<Kv> read_flux_job(const Arguments& arguments)
{
    return std::unexpected(become_full("flux", {}, arguments));
}

} // namespace fluxdat::imp::reader
