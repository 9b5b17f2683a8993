// SPDX-License-Identifier: LGPL-3.0-or-later
// The main() of every unit test program.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
