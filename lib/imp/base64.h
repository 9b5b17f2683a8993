// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Base64: RFC 4648 section 4, the standard alphabet, with padding.
#pragma once

#include "lib/imp/result.h"

#include <string>
#include <string_view>

namespace fluxdat::imp {

std::string base64_encode(std::string_view bytes);

// Only what base64_encode() can have made: a multiple of four characters of the
// alphabet, padding at the end, unused bits zero (RFC 4648 section 3.5). White space is
// refused like any other character. So no two texts decode to the same bytes, and a
// signature over the text is one over the bytes.
Result<std::string> base64_decode(std::string_view text);

} // namespace fluxdat::imp
