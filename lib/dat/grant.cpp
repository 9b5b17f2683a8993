// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/grant.h"

#include "lib/accounts.h"
#include "lib/dat/ask.h"

#include <unistd.h>

namespace fluxdat::dat {

namespace {

// How often the record of a pending DAT is written again since somebody else wrote an
// older one meanwhile. Each time is another process's.
constexpr int attempts_max = 100;

Result<Named> named_at(const Json& json, const char* key)
{
    // The part of a change that has the same form.
    Json change{{"version", 1}, {"key", "-"}, {"by", 0u}};
    if (json.is_object() && json.contains(key))
        change["grant"] = json[key];
    auto parsed = change_from_json(change);
    if (!parsed)
        return std::unexpected(parsed.error());
    return std::move(parsed->grant);
}

Result<ListChanged> parse_answer(const Json& answer)
{
    ListChanged changed;
    changed.generation = flux::integer_at<std::uint64_t>(answer, "generation");
    changed.everywhere = answer.is_object() && answer.contains("everywhere")
                         && answer["everywhere"] == true;
    changed.open =
        answer.is_object() && answer.contains("open") && answer["open"] == true;
    auto granted = named_at(answer, "granted");
    auto revoked = named_at(answer, "revoked");
    if (!granted || !revoked || changed.generation == 0)
        return fail("the supervisor's answer makes no sense: it is of another version "
                    "of flux-dat");
    changed.granted = std::move(*granted);
    changed.revoked = std::move(*revoked);
    changed.evictor_fault = flux::text_at(answer, "evictor_fault");
    if (answer.contains("ranks") && answer["ranks"].is_array())
        for (auto& rank : answer["ranks"])
            changed.ranks.push_back(door_rank_from_json(rank));
    return changed;
}

flux::Task<Result<ListChanged>> ask(flux::Loop& loop, flux::Connection& parent,
                                    const Dat& dat, const Change& change,
                                    flux::Interrupt& interrupt)
{
    auto payload = to_json(change);
    auto answer = co_await ask_supervisor(loop, parent, dat, "guests",
                                          std::move(payload), &interrupt);
    if (answer)
        co_return parse_answer(*answer);
    auto& error = answer.error();
    if (error.errnum == ENOSYS || error.errnum == ETIMEDOUT
        || error.errnum == EHOSTUNREACH)
        co_return fail("the supervisor of the DAT \"{}\" does not answer: {}; whether "
                       "the list was changed tells: flux-dat status --dat {}",
                       dat.record.name, error.message,
                       flux::format_jobid_ascii(dat.job.id));
    co_return std::unexpected(error);
}

// Of a DAT that does not run yet. The record follows the changes: whoever finds that it
// does not say what they amount to writes it again.
flux::Task<Result<ListChanged>> record(flux::Connection& parent, const Dat& dat,
                                       Change change)
{
    auto trial = Desired(dat.record, dat.job.userid, dat.job.t_submit).apply(change, 0);
    if (!trial)
        co_return std::unexpected(trial.error());
    change.key = new_change_key();
    change.by = geteuid();
    Json memo{{change_key, to_json(change)}};
    auto posted = co_await flux::memo(parent, dat.job.id, std::move(memo));
    if (!posted && posted.error().errnum == EPERM)
        co_return fail(Exit::not_permitted,
                       "the DAT \"{}\" does not run yet: until it does, only its owner "
                       "({}) can change its guest list",
                       dat.record.name, user_name(dat.job.userid));
    if (!posted)
        co_return std::unexpected(posted.error());
    ListChanged changed;
    changed.running = false;
    EventlogSoFar log(parent, dat.job.id);
    auto read = co_await log.read_until([&](const flux::Event& event) {
        auto seen = change_in(event);
        return seen && seen->key == change.key;
    });
    for (int attempt = 0; read && attempt < attempts_max; attempt++) {
        auto folded = fold(
            log.events(), dat.job.userid, std::nullopt,
            [&](const Change& each, double, const Result<Desired::Effect>& effect) {
                if (each.key != change.key || !effect)
                    return;
                changed.granted = effect->granted;
                changed.revoked = effect->revoked;
            });
        changed.generation = folded.desired.guests().generation;
        changed.open = folded.desired.guests().open;
        // Once it runs, the record is its supervisor's, which finds the change by
        // itself.
        if (!folded.record || folded.record->state != State::submitted
            || (folded.record->guests == folded.desired.guests()
                && folded.record->managers == folded.desired.managers()))
            co_return changed;
        folded.record->guests = folded.desired.guests();
        folded.record->managers = folded.desired.managers();
        auto written = co_await post_record(parent, dat.job.id, *folded.record);
        if (!written)
            co_return std::unexpected(written.error());
        // Somebody who knew less may have written one in between.
        auto ours = to_json(*folded.record);
        read = co_await log.read_until([&](const flux::Event& event) {
            auto seen = record_in(event);
            return seen && (to_json(*seen) == ours || seen->state != State::submitted);
        });
    }
    if (!read)
        co_return std::unexpected(read.error());
    co_return fail(
        "the guest list of the DAT \"{}\" is being changed by others all the "
        "time; the change counts, its record does not show it yet",
        dat.record.name);
}

} // namespace

flux::Task<Result<ListChanged>> change_list(flux::Loop& loop, flux::Connection& parent,
                                            Dat dat, Change change,
                                            flux::Interrupt& interrupt)
{
    auto phase = dat.phase();
    if (phase == "starting" && !dat.record.adoption.empty())
        co_return fail(
            "the adoption of the job {} was not finished: flux-dat adopt --undo "
            "{}, then adopt it again",
            flux::format_jobid(dat.job.id), flux::format_jobid_ascii(dat.job.id));
    // GCC 12 miscompiles co_await in a conditional expression.
    Result<ListChanged> changed;
    if (phase == "pending" || phase == "starting")
        changed = co_await record(parent, dat, std::move(change));
    else
        changed = co_await ask(loop, parent, dat, change, interrupt);
    if (!changed && interrupt.reason())
        co_return fail("{}; whether the list was changed tells: flux-dat status --dat "
                       "{}",
                       interrupt.reason()->message,
                       flux::format_jobid_ascii(dat.job.id));
    co_return changed;
}

} // namespace fluxdat::dat
