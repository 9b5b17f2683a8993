// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What flux-dat-imp-reader-full does of options and R_local (reader.h says why there
// are two programs).
#include "lib/imp/reader/contained.h"
#include "lib/imp/reader/reader.h"

#include <cerrno>
#include <nlohmann/json.hpp>

namespace fluxdat::imp::reader {

Result<> contain(std::string_view text, Kv& out)
{
    auto input = nlohmann::json::parse(text, nullptr, false);
    if (!input.is_object())
        return fail("is not an object", EINVAL);
    return put_contained(input, out);
}

} // namespace fluxdat::imp::reader
