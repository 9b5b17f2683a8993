// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/book.h"

#include "lib/dat/audit.h"
#include "lib/dat/find.h"

#include <unistd.h>

namespace fluxdat::dat {

namespace {

// A memo that says where in the eventlog we are; it means nothing to others.
constexpr const char* mark_key = "dat_mark";

// RFC 21, "Resource-Update Event": somebody gave the job another time limit.
std::optional<double> expiration_in(const flux::Event& event)
{
    if (event.name != "resource-update" || !event.context.is_object()
        || !event.context.contains("expiration")
        || !event.context["expiration"].is_number())
        return {};
    return event.context["expiration"].get<double>();
}

} // namespace

// The job's eventlog as it is now. What is larger than one answer can be is read event
// by event; up to one of ours, since a watch does not tell where now is.
flux::Task<Result<>> Book::read_eventlog(std::function<void(flux::Event)> each)
{
    auto log = co_await flux::lookup(*links_.parent, links_.id, "eventlog");
    if (log)
        for_each_event(*log, each);
    if (log || log.error().errnum != EMSGSIZE)
        co_return log ? Result<>{} : std::unexpected(log.error());
    auto now = new_change_key();
    Json memo{{mark_key, now}};
    auto marked = co_await flux::memo(*links_.parent, links_.id, std::move(memo));
    if (!marked)
        co_return marked;
    flux::EventlogWatch watch(*links_.parent, links_.id, "eventlog");
    while (true) {
        auto event = co_await watch.next(&links_.end);
        if (!event)
            co_return std::unexpected(event.error());
        if (!*event)
            co_return fail("the DAT's job has ended");
        bool last = flux::text_at((*event)->context, mark_key) == now;
        each(std::move(**event));
        if (last)
            co_return Result<>{};
    }
}

flux::Task<Result<>> Book::take_up(double expiration)
{
    Ledger ledger;
    expiration_ = expiration;
    std::function<void(flux::Event)> take = [&](flux::Event event) {
        if (auto moved = expiration_in(event)) // which may be newer
            expiration_ = *moved;
        if (!late_.empty())
            if (auto change = change_in(event))
                late_.erase(change->key);
        ledger.take(std::move(event));
    };
    auto read = co_await read_eventlog(std::move(take));
    if (!read)
        co_return read;
    auto folded = fold(ledger.events(), geteuid(), first_);
    // adopt posts the record first: without it the adoption was given up.
    if (links_.adopted
        && (!folded.record || folded.record->adoption != first_.adoption)) {
        links_.end.raise({"the adoption was given up"});
        co_return std::unexpected(*links_.end.reason());
    }
    ledger_ = std::move(ledger);
    desired_ = std::move(folded.desired);
    // That of a worker before this one. What this one did while the parent was away is
    // newer than what stands there.
    if (!announced_ && folded.record && folded.record->state != State::submitted)
        record_ = std::move(*folded.record);
    // The launchers made the doors for the first list. What a worker before this
    // one did is seen by doing it again.
    bool first = record_.state == State::submitted;
    if (!doors_)
        make_doors(first ? first_.guests.generation : 0);
    put_in_force();
    co_return Result<>{};
}

Result<Desired> Book::list_at(double when) const
{
    if (!links_.parent)
        return fail("the connection to the parent is lost");
    auto events = ledger_.events();
    std::erase_if(events, [&](auto& event) { return event.timestamp > when; });
    return fold(events, geteuid(), first_).desired;
}

Json Book::history() const
{
    return dat::history(ledger_.events(), geteuid());
}

void Book::make_doors(std::uint64_t applied)
{
    doors_ = std::make_unique<Doors>(
        links_.loop, *links_.dat, links_.hosts(), links_.entrance(), applied,
        [this] { links_.loop.spawn(update_if_announced()); });
}

void Book::put_in_force()
{
    doors_->want(desired_.guests());
    on_list();
}

flux::Task<Result<>> Book::announce()
{
    announced_ = true;
    posted_record_ = nullptr; // the parent may not have got the last one
    co_return co_await post();
}

flux::Task<Result<>> Book::post()
{
    record_.ranks_up = ranks_up_.value_or(record_.ranks_up);
    record_.guests = desired_.guests();
    record_.managers = desired_.managers();
    record_.applied = doors_->applied();
    auto json = to_json(record_);
    if (json == posted_record_ || removed_)
        co_return Result<>{};
    posted_record_ = std::move(json);
    posts_++;
    auto posted = co_await post_record(*links_.parent, links_.id, record_);
    if (!posted)
        posted_record_ = nullptr;
    co_return posted;
}

// Who gives an adoption up removes the record, and a record of ours that was on its way
// comes behind that: it would stay, with nobody behind it.
flux::Task<void> Book::take_back_posts()
{
    removed_ = true; // nothing is posted any more
    if (posts_ <= posts_seen_)
        co_return;
    auto again = co_await remove();
    if (!again)
        complain("cannot remove the record of the adoption that was given up: "
                 + again.error().message);
}

// Where it fails since the parent is lost, announce() posts the record again; where
// the job has ended, nobody reads it any more.
flux::Task<void> Book::update()
{
    auto posted = co_await post();
    if (!posted && posted.error().errnum != ECONNRESET
        && posted.error().errnum != ENOENT && posted.error().errnum != EINVAL)
        complain("cannot post the DAT's record: " + posted.error().message);
}

flux::Task<void> Book::update_if_announced()
{
    if (announced_ && links_.parent)
        co_await update();
}

flux::Task<Result<>> Book::follow()
{
    flux::EventlogWatch watch(*links_.parent, links_.id, "eventlog");
    bool posted_ours = false;
    const auto folded = ledger_.count();
    for (std::size_t number = 0;; number++) {
        auto event = co_await watch.next(&links_.end);
        // One that cannot be read must not keep those after it from being followed.
        if (!event && !links_.parent->lost() && !links_.end.reason()
            && (event.error().errnum == EPROTO || event.error().errnum == EMSGSIZE)) {
            number--;
            continue;
        }
        if (!event)
            co_return std::unexpected(event.error());
        if (!*event)
            co_return Result<>{};
        // A `start` that was held up, or a `grant` that found the DAT pending, may
        // post its record after ours; ours is newer.
        auto seen = record_in(**event);
        posts_seen_ += seen && number >= folded;
        if (seen && seen->state != State::submitted)
            posted_ours = true;
        else if (seen && posted_ours) {
            posted_record_ = nullptr;
            co_await update();
        }
        if (number < folded)
            continue;
        ledger_.take(**event);
        // Not by remove(), whose caller has yet to answer.
        if (links_.adopted && !removed_ && removes_record(**event)) {
            co_await take_back_posts();
            links_.end.raise({"the adoption is undone"});
            co_return Result<>{};
        }
        if (auto moved = expiration_in(**event)) {
            expiration_ = *moved;
            on_expiration();
        }
        if (auto change = change_in(**event))
            take_change(*change, (*event)->timestamp);
    }
}

void Book::take_change(const Change& change, double when)
{
    late_.erase(change.key);
    auto effect = desired_.apply(change, when);
    if (effect && !effect->none())
        audit(fmt::format("user {} {} (generation {})", change.by, summary(*effect),
                          desired_.guests().generation));
    put_in_force();
    links_.loop.spawn(update_when_settled(desired_.guests().generation));
    auto posted = posted_.find(change.key);
    if (posted == posted_.end())
        return;
    posted->second->generation = desired_.guests().generation;
    posted->second->effect = std::move(effect);
    posted->second->seen.raise({"seen"});
}

// Once for each change, and not before it is in force as well: each memo is an
// event that goes to all brokers of the parent.
flux::Task<void> Book::update_when_settled(std::uint64_t generation)
{
    co_await doors_->settled(generation);
    co_await update_if_announced();
}

flux::Task<Result<Book::Made>> Book::change(Change change)
{
    auto trial = Desired(desired_).apply(change, 0);
    if (!trial)
        co_return std::unexpected(trial.error());
    if (trial->none() && posted_.empty() && late_.empty()) // so already
        co_return Made{desired_.guests().generation, std::move(*trial)};
    // What is posted stays for good. Whom it names in vain is not worth that.
    std::vector<const Change*> before;
    for (auto& [key, other] : posted_)
        before.push_back(other->change);
    if (late_.empty()) // else somebody may come, or go, before this after all
        change = desired_.narrowed(change, before);
    Posted posted{&change};
    posted_[change.key] = &posted;
    Json memo{{change_key, to_json(change)}};
    auto sent = co_await flux::memo(*links_.parent, links_.id, std::move(memo));
    if (sent && !posted.seen.reason())
        (void)co_await links_.loop.sleep(event_time_, &posted.seen); // either way
    posted_.erase(change.key);
    if (!posted.generation && (sent || sent.error().errnum == ECONNRESET))
        late_.insert(change.key);
    if (!sent)
        co_return fail("cannot post the change: {}", sent.error().message);
    if (!posted.effect)
        co_return std::unexpected(posted.effect.error());
    co_return Made{posted.generation, std::move(*posted.effect)};
}

flux::Task<void> Book::ranks_up(const flux::Idset& ranks)
{
    ranks_up_ = static_cast<std::uint32_t>(ranks.size());
    if (doors_)
        doors_->up(ranks);
    if (record_.ranks_up != *ranks_up_)
        co_await update_if_announced();
}

flux::Task<Result<>> Book::remove()
{
    removed_ = true;
    Json memo{{"dat", nullptr}, {change_key, nullptr}};
    auto posted = co_await flux::memo(*links_.parent, links_.id, std::move(memo));
    removed_ = posted.has_value();
    co_return posted;
}

void Book::reopen()
{
    doors_.reset();
    make_doors(0);
    put_in_force();
}

void Book::close()
{
    if (doors_)
        doors_->stop();
    while (!posted_.empty()) // whom this wakes takes itself off the map
        posted_.extract(posted_.begin()).mapped()->seen.raise({"the DAT ends"});
}

} // namespace fluxdat::dat
