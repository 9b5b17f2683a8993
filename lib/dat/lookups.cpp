// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/lookups.h"

#include "lib/fd.h"
#include "lib/imp/user.h"

#include <cmath>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// Threads at a time, those that nobody waits for any more among them.
constexpr int threads_max = 16;
// Seconds between two looks whether there is room for another one.
constexpr double room_pause = 0.02;

// What a thread and the loop share.
struct Call {
    Fd done; // an eventfd(2), which the thread writes to at its end
    std::atomic<bool> answered = false;
    Account account;
};

// Raises the interrupt once the descriptor is readable.
class Readable
{
public:
    Readable(flux::Loop& loop, int fd, flux::Interrupt& interrupt)
        : poll_(new uv_poll_t) // freed when libuv has closed it
    {
        if (uv_poll_init(loop.uv(), poll_, fd) != 0) {
            delete std::exchange(poll_, nullptr);
            return;
        }
        poll_->data = &interrupt;
        uv_poll_start(poll_, UV_READABLE, [](uv_poll_t* handle, int, int) {
            uv_poll_stop(handle);
            static_cast<flux::Interrupt*>(handle->data)->raise({"answered"});
        });
    }
    ~Readable()
    {
        if (poll_)
            uv_close(reinterpret_cast<uv_handle_t*>(poll_), [](uv_handle_t* handle) {
                delete reinterpret_cast<uv_poll_t*>(handle);
            });
    }
    Readable(const Readable&) = delete;
    Readable& operator=(const Readable&) = delete;

private:
    uv_poll_t* poll_;
};

bool start_thread(const std::shared_ptr<Call>& call, const Lookups::LookUp& look_up,
                  uid_t uid, const std::shared_ptr<std::atomic<int>>& threads)
{
    (*threads)++;
    try {
        std::thread([call, look_up, uid, threads] {
            call->account = look_up(uid);
            call->answered = true;
            (*threads)--;
            (void)eventfd_write(call->done.get(), 1); // nobody may be waiting
        }).detach();
    } catch (const std::system_error&) {
        (*threads)--;
        return false;
    }
    return true;
}

} // namespace

Account look_up_account(uid_t uid)
{
    Account account{std::to_string(uid), {}};
    auto user = imp::user_by_uid(uid);
    if (!user && user.error().errnum == ENOENT)
        account.groups.emplace();
    if (!user)
        return account;
    account.name = user->name;
    if (auto groups = imp::groups_of(*user))
        account.groups = std::move(*groups);
    return account;
}

std::optional<std::vector<gid_t>> groups_of(uid_t uid)
{
    return look_up_account(uid).groups;
}

Lookups::Lookups(flux::Loop& loop, LookUp look_up, double seconds)
    : loop_(loop), look_up_(std::move(look_up)), seconds_(seconds),
      threads_(std::make_shared<std::atomic<int>>(0))
{
}

flux::Task<Account> Lookups::of(uid_t uid, flux::Interrupt* end)
{
    flux::Deadline limit(loop_, seconds_, {"no answer in time", ETIMEDOUT}, end);
    auto& over = limit.interrupt();
    Account unknown{std::to_string(uid), {}};
    while (*threads_ >= threads_max && !over.reason())
        (void)co_await loop_.sleep(room_pause, &over);
    auto call = std::make_shared<Call>();
    call->done = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (over.reason() || !call->done || !start_thread(call, look_up_, uid, threads_))
        co_return unknown;
    {
        Readable readable(loop_, call->done.get(), over);
        (void)co_await loop_.sleep(INFINITY, &over); // one of them comes
    }
    if (!call->answered)
        co_return unknown;
    co_return std::move(call->account);
}

} // namespace fluxdat::dat
