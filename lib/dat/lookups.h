// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Accounts, looked up without holding up the loop: a name service (NSS,
// nsswitch.conf(5)) may be a directory server that takes minutes to say that it is not
// there, and none of its functions can be interrupted. So each look runs in a thread of
// its own, and who asked goes on without the answer after some seconds.
//
// Rejected: uv_queue_work(), whose threads are few, and are waited for when the process
// ends; a cache, since who was put into a group shall not have to wait.
#pragma once

#include "lib/flux/loop.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace fluxdat::dat {

struct Account {
    std::string name; // the number where this node knows none, or cannot tell
    // All groups; none for a user whom this node does not know; nothing if that cannot
    // be told at the moment.
    std::optional<std::vector<gid_t>> groups;
};

// In this thread, for as long as it takes.
Account look_up_account(uid_t uid);
std::optional<std::vector<gid_t>> groups_of(uid_t uid);

class Lookups
{
public:
    using LookUp = std::function<Account(uid_t)>;
    // `look_up` is called in other threads, and may be after this is gone. `seconds`:
    // what takes longer cannot be told.
    explicit Lookups(flux::Loop& loop, LookUp look_up = look_up_account,
                     double seconds = 5);

    // Also where it cannot be told, since `end` was raised, too.
    flux::Task<Account> of(uid_t uid, flux::Interrupt* end = nullptr);

private:
    flux::Loop& loop_;
    LookUp look_up_;
    double seconds_;
    std::shared_ptr<std::atomic<int>> threads_; // that run; they outlive this
};

} // namespace fluxdat::dat
