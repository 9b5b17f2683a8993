// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The part of toml++ that is compiled once, which Debian has as a shared library only.
// See meson.build next to this file for why it is wanted inside the program.
// What toml++ 3.3 asserts in its parser, it also refuses a few lines later with a
// message
// ("[, x]"). A person's text must not end the program without one.
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
