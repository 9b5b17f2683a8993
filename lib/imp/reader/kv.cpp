// SPDX-License-Identifier: LGPL-3.0-or-later
// The reader `kv`: an encoded Kv from stdin, as a compromised reader could write it.
// For tests; a configuration that does not name it in exec.readers does not have it.
#include "lib/imp/reader/reader.h"

#include <unistd.h>

namespace fluxdat::imp::reader {

Result<Kv> read_kv(const Arguments&)
{
    auto bytes = read_all(STDIN_FILENO, "stdin");
    if (!bytes)
        return std::unexpected(std::move(bytes.error()));
    return Kv::decode(bytes->view());
}

} // namespace fluxdat::imp::reader
