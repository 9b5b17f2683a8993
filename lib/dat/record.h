// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The record of a DAT: everything about it that must outlive a process. It is the memo
// `dat` on the DAT's job in the parent instance (RFC 21, "Memo Event"), where job-list
// shows it to everybody as annotations.user.dat; there is no other database.
//
// Flux merges memos deeply, and a key goes only by being set to null: so the keys of a
// record are always all there, but those that once set are never taken away.
//
// And `flux jobs` stops with an error at a key that is no identifier: no hyphens.
//
// `start` writes it when the job is submitted. Once the DAT runs, only its supervisor
// does. Desired state and applied state stand side by side: `guests` with its
// generation is what should be, `applied` the generation that all ranks have.
#pragma once

#include "lib/dat/window.h"
#include "lib/perms/guestlist.h"
#include "lib/result.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::dat {

using Json = nlohmann::json;

constexpr std::size_t name_length_max = 64; // bytes

enum class State {
    submitted, // its job is pending, or its ranks are coming up
    ready,     // guests can work
    stopping,  // closed to new jobs, or ending
};
std::string_view to_string(State state);

struct Record {
    std::string name;
    State state = State::submitted;
    perms::GuestList guests;
    std::uint64_t applied = 0;      // generation; 0: none yet
    std::vector<uid_t> managers;    // may change the guest list
    std::string service_name;       // of the supervisor, in the parent; empty: none yet
    std::uint32_t service_rank = 0; // the parent's rank where it is registered
    // How many ranks are up, as the supervisor saw it last. Until it says so: 0.
    std::uint32_t ranks_up = 0;
    double stop_at = 0;      // when it is to end at the latest; seconds since the epoch
    std::string adoption;    // tells one adoption (adopt.h) from another; empty: none
    std::string stop_reason; // why it is stopping, for people; else empty
    // When it warns, closes and ends, and what of that was done: "window" of the JSON,
    // window.h. The window of a DAT that is not ready yet has no times, only what was
    // asked for.
    Window window;
};

Json to_json(const Record& record);
// The error says which key is wrong. Unknown keys are for later versions and ignored.
Result<Record> record_from_json(const Json& json);

// The part of it that is the guest list. Its users and groups are not checked to be
// such as a DAT can have (perms::validate).
Json to_json(const perms::GuestList& guests);
Result<perms::GuestList> guests_from_json(const Json& json);

// What a DAT may be called: 1 to 64 letters, digits, "-_.", the first a letter or
// digit, and nothing that reads as a job id. Exit 2.
Result<> check_name(std::string_view name);

// The dynamic service of a DAT's supervisor in the parent, "<owneruid>-dat-<fID>".
std::string service_name(uid_t owner, std::uint64_t jobid);

} // namespace fluxdat::dat
