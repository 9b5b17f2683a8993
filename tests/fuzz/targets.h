// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the fuzzers call with bytes of their invention, and the unit tests with every
// seed in tests/fuzz/corpus: all that parses something from outside. Each aborts when a
// promise of the parser does not hold, not only when it crashes.
#pragma once

#include <string_view>

namespace fluxdat::fuzz {

void kv(std::string_view bytes);     // lib/imp/kv.h
void sign(std::string_view bytes);   // lib/imp/sign.h
void config(std::string_view bytes); // lib/imp/config.h
void input(std::string_view bytes);  // lib/imp/reader, and contain.h on what it gives
void grants(std::string_view bytes); // lib/imp/grants.h, against lib/perms/grants.h

} // namespace fluxdat::fuzz
