// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The part of fmt that is compiled once, which Debian has as a shared library only. See
// meson.build next to this file for why it is wanted inside the program.
#include <fmt/format-inl.h>

// format.h declares these, and leaves it to the one who compiles it to make them.
template fmt::v9::detail::thousands_sep_result<char>
    fmt::v9::detail::thousands_sep_impl(fmt::v9::detail::locale_ref);
template char fmt::v9::detail::decimal_point_impl(fmt::v9::detail::locale_ref);
