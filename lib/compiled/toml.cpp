// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The part of toml++ that is compiled once, which Debian has as a shared library only.
// See meson.build next to this file for why it is wanted inside the program.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
