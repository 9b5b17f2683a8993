// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A line for those who are logged in on the nodes of a DAT and have something to lose
// there: its guests and its owner. As wall(1) does it, without its privilege: the line
// comes on those terminals that the DAT's owner may write to, and whose user has
// mesg(1) on. Who is logged in, utmp(5) says.
#pragma once

#include "lib/flux/services.h"
#include "lib/perms/guestlist.h"

#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace fluxdat::dat {

constexpr std::size_t terminals_max = 256; // of one node; more are passed over
constexpr std::size_t terminal_line_max =
    300; // bytes of one line; it is cut after that

// Writes to the terminals of this node, of users for whom `is_told` is true. `utmp` is
// the file that says who is logged in; empty: the system's. Never waits for a terminal
// that takes nothing. Gives to how many it wrote.
std::size_t tell_terminals(std::string_view text,
                           const std::function<bool(uid_t)>& is_told,
                           const std::string& utmp = {});

// The hidden command `flux-dat terminals TEXT LIST`, LIST being the guest list as JSON.
int tell_terminals_of(const std::string& text, const std::string& guests);

// Runs that on all ranks of a DAT (RFC 42). What fails is only less told.
flux::Task<void> tell_on_all_ranks(flux::Connection& dat, std::uint32_t size,
                                   std::string text, perms::GuestList guests);

} // namespace fluxdat::dat
