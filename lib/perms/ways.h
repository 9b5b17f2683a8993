// SPDX-License-Identifier: LGPL-3.0-or-later
//
// A private directory that leads to the sockets of adopted instances (passage.h): of
// one, of several, or of several ranks of one. It lets pass whom any of them lets in,
// and has its own mode again when none of them is left; so no adoption, change or
// undoing of one shuts the guests of another out, nor leaves more open than before.
// Which they are stands in a file in it:
//
//     flux-dat-ways 1
//     mode 0700
//     way /tmp/private/flux-AbCdEf
//     end
//
// `mode` is what it was before; a `way` is the directory of a socket. Whom that lets in
// its own access says, and a way that is adopted no more, since the instance has ended,
// does not count.
//
// Rejected: to refuse the second one, where two brokers of one instance on a node may
// have a TMPDIR like that; the lists in the file, which are two truths.
#pragma once

#include "lib/perms/guestlist.h"
#include "lib/result.h"

#include <optional>
#include <string>
#include <sys/types.h>

namespace fluxdat::perms {

constexpr const char* ways_file_name = "flux-dat-ways";

// The mode of a directory before it was opened for the first way; nothing where it has
// not been. `path` is what messages call the directory that is open, here and below.
// Errors: as read_own() (level.h); a file that is damaged.
Result<std::optional<mode_t>> mode_before_ways(int directory, const std::string& path);

// Lets pass who is on this list, by this way, and whom other ways let in. `mode` is
// what it is, if this is the first. `adopted_file`: what a way has in it for as long as
// it is one. Errors: as set_access(); of the file.
Result<> open_way(int directory, const std::string& path, const std::string& way,
                  const GuestList& guests, mode_t mode, const char* adopted_file);

// Lets pass only whom other ways let in; where there are none, as it was before.
// `mode`: that, where no file tells.
Result<> close_way(int directory, const std::string& path, const std::string& way,
                   mode_t mode, const char* adopted_file);

// Whom it should let pass: who is on this list, and whom other ways let in.
Result<GuestList> guests_of_ways(int directory, const std::string& path,
                                 const std::string& way, const GuestList& guests,
                                 const char* adopted_file);

} // namespace fluxdat::perms
