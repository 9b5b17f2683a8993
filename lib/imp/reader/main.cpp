// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-imp-reader NAME [ARGUMENT...], started by flux-dat-imp and by nobody else:
// runs the reader NAME (reader.h) and writes what it read, or why it could not, as one
// Kv to descriptor 3.
#include "lib/imp/privsep.h"
#include "lib/imp/reader/reader.h"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <string_view>
#include <unistd.h>

namespace fluxdat::imp::reader {

namespace {

struct Named {
    std::string_view name;
    Result<Kv> (*read)(const Arguments&);
};

constexpr Named readers[] = {
    {"json", read_json},
    {"helper", read_helper},
    {"flux", read_flux_job},
    {"kv", read_kv},
};

Result<Kv> read(const Arguments& words)
{
    for (const auto& reader : readers)
        if (!words.empty() && words.front() == reader.name)
            return reader.read({words.begin() + 1, words.end()});
    return fail("no reader is called " + in_quotes(words.empty() ? "" : words.front())
                    + " (there are json, helper, flux, kv)",
                EINVAL);
}

bool write_all(std::string_view bytes)
{
    while (!bytes.empty()) {
        auto written = ::write(reader_output_fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

// std::bad_alloc would end in a core dump and a message that says nothing.
[[noreturn]] void out_of_memory()
{
    constexpr std::string_view text = "flux-dat-imp-reader: out of memory\n";
    [[maybe_unused]] auto told = ::write(STDERR_FILENO, text.data(), text.size());
    _exit(2);
}

int run(const Arguments& words)
{
    // No helper gets it, so that the IMP sees the end of it when this process ends.
    if (fcntl(reader_output_fd, F_SETFD, FD_CLOEXEC) < 0) {
        constexpr std::string_view text =
            "flux-dat-imp-reader is started by flux-dat-imp, not by hand\n";
        [[maybe_unused]] auto told = ::write(STDERR_FILENO, text.data(), text.size());
        return 2;
    }
    auto kv = read(words);
    if (kv)
        return write_all(kv->encode()) ? 0 : 1;
    Kv refusal;
    auto put = refusal.put_string("error", kv.error().message);
    return put && write_all(refusal.encode()) ? 1 : 2;
}

} // namespace

bool keep_output()
{
    return fcntl(reader_output_fd, F_SETFD, 0) == 0;
}

} // namespace fluxdat::imp::reader

int main(int argc, char** argv)
{
    std::set_new_handler(fluxdat::imp::reader::out_of_memory);
    return fluxdat::imp::reader::run({argv + (argc > 0 ? 1 : 0), argv + argc});
}
