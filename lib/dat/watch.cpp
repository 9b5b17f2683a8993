// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/watch.h"

#include "lib/clock.h"
#include "lib/dat/audit.h"

namespace fluxdat::dat {

namespace {

// Seconds between two lines about jobs of the same user that were cancelled.
constexpr double cancelled_line_pause = 10;

} // namespace

Watch::Watch(Links& links, Book& book, Lookups& lookups)
    : links_(links), book_(book), lookups_(lookups),
      evictor_(links.loop, *links.dat, lookups, book.record().name),
      undrainer_(
          links.loop, *links.dat, links.end,
          [this](uid_t user, Drains::Drain drain) { return was_off_list(user, drain); })
{
}

void Watch::start()
{
    links_.loop.spawn(follow_ranks());
    links_.loop.spawn(follow_jobs());
}

void Watch::judge()
{
    evictor_.judge(book_.desired());
    undrainer_.judge();
}

// So that a list of DATs tells, without asking each, that one has lost ranks. Ends
// with the connection. A broker that does not know the request is none of Flux 0.88
// or later; then what the record says of the ranks is what they were at the start.
flux::Task<void> Watch::follow_ranks()
{
    Json payload = Json::object();
    auto journal = links_.dat->stream("resource.journal", std::move(payload));
    RanksUp ranks;
    while (true) {
        auto answer = co_await journal.next();
        if (!answer && answer.error().errnum != ENOSYS && !links_.end.reason())
            complain("cannot follow the ranks of this DAT; status shows them as they "
                     "were: "
                     + answer.error().message);
        if (!answer || !*answer)
            co_return;
        ranks.apply(**answer);
        undrainer_.apply(**answer);
        if (ranks.is_current())
            co_await book_.ranks_up(ranks.ranks());
    }
}

// Of what was told afterwards, to this process that is a new one, the list as it
// was then decides, and not as it has become. The clocks of two instances' leaders
// may differ by a little; so of what is told as it happens, the list as it is, too.
flux::Task<Result<bool>> Watch::was_off_list(uid_t user, Drains::Drain drain)
{
    auto account = co_await lookups_.of(user, &links_.end);
    Result<bool> is_off = false;
    if (drain.current)
        is_off = is_off_list(book_.desired(), user, account.groups);
    if (is_off && *is_off)
        co_return true;
    auto then = book_.list_at(drain.when);
    if (!then)
        co_return std::unexpected(then.error());
    auto was_off = is_off_list(*then, user, account.groups);
    if (!was_off || *was_off)
        co_return was_off;
    co_return is_off; // or it cannot be told yet
}

flux::Task<void> Watch::follow_jobs()
{
    undrainer_.on_undrain = [this](const flux::Idset& ranks, flux::JobId id,
                                   uid_t user) {
        audit(fmt::format("undrained the ranks {}, drained for the job {} of user {}, "
                          "who is not on the guest list",
                          flux::format_idset(ranks), flux::format_jobid_ascii(id),
                          user));
    };
    evictor_.on_cancel = [this](flux::JobId id, uid_t user) {
        // Whoever is still connected can submit without end.
        auto& said = cancelled_[user];
        said.jobs++;
        double now = machine_clock();
        if (now - said.when < cancelled_line_pause)
            return;
        said.when = now;
        audit(fmt::format("cancelled the job {} of user {}, who is not on the guest "
                          "list ({} so far)",
                          flux::format_jobid_ascii(id), user, said.jobs));
    };
    co_await evictor_.follow(links_.end);
}

} // namespace fluxdat::dat
