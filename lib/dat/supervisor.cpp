// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/supervisor.h"

#include "lib/dat/adopt.h"
#include "lib/dat/audit.h"
#include "lib/dat/changes.h"
#include "lib/dat/doors.h"
#include "lib/dat/evict.h"
#include "lib/dat/find.h"
#include "lib/dat/jobspec.h"
#include "lib/dat/ranks.h"
#include "lib/dat/stop.h"
#include "lib/dat/undrain.h"
#include "lib/flux/fsd.h"
#include "lib/flux/services.h"
#include "lib/say.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/prctl.h>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// Seconds before another try to connect to the parent's broker: the first delay, which
// doubles up to the second.
constexpr double reconnect_delay_min = 0.2, reconnect_delay_max = 10;
// Seconds in which a change that was posted must come back in the job's eventlog. It
// does in some milliseconds.
constexpr double event_time_max = 20;
// Seconds between two lines about jobs of the same user that were cancelled.
constexpr double cancelled_line_pause = 10;
// Questions that are worked on at a time; more are for later (EAGAIN). A status starts
// a process on every rank, and a guest may ask without waiting for answers.
constexpr int statuses_max = 8, admissions_max = 64;

const Json::json_pointer imp_path("/exec/imp");

void log_error(const Error& error)
{
    complain(error.message);
}

double wall_clock()
{
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// One more at work, for the scope.
class AtWork
{
public:
    explicit AtWork(int& count) : count_(count) { count_++; }
    ~AtWork() { count_--; }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

private:
    int& count_;
};

class Supervisor
{
public:
    Supervisor(flux::Loop& loop, DatFile file)
        : loop_(loop), adopted_(file.adopted), first_(std::move(file.record)),
          record_(first_)
    {
    }

    // Until the DAT is to end, or has ended.
    flux::Task<Result<>> run()
    {
        auto connected = co_await connect_dat();
        if (!connected && no_broker_) {
            log_error(connected.error());
            co_return Result<>{};
        }
        if (!connected)
            co_return connected;
        double delay = reconnect_delay_min;
        // Whoever started an adopted instance has its queues as they are to be.
        if (!adopted_) {
            auto started = co_await start_queues();
            if (!started)
                co_return started;
        }
        undrainer_ = std::make_unique<Undrainer>(
            loop_, *dat_, [this](uid_t user, Drains::Drain drain) {
                return was_off_list(user, drain);
            });
        loop_.spawn(follow_ranks());
        evictor_ = std::make_unique<Evictor>(loop_, *dat_, record_.name);
        loop_.spawn(follow_jobs());
        while (!end_.reason()) {
            auto served = co_await serve_parent(delay);
            if (end_.reason())
                break;
            if (!served)
                log_error(served.error());
            (void)co_await loop_.sleep(delay, &end_); // cut short: the loop ends
            delay = std::min(delay * 2, reconnect_delay_max);
        }
        // Answers that are still being made end with what they wait for.
        if (doors_)
            doors_->stop();
        while (!posted_.empty()) // whom this wakes takes itself off the map
            posted_.extract(posted_.begin()).mapped()->seen.raise({"the DAT ends"});
        dat_->close(); // not away yet: they go on with it, and see that it is lost
        co_return Result<>{};
    }

private:
    flux::Task<Result<>> connect_dat()
    {
        const char* uri = std::getenv("FLUX_URI");
        auto dat = co_await flux::Connection::open(loop_, uri ? uri : "");
        if (!dat) {
            int errnum = dat.error().errnum;
            no_broker_ = errnum == ENOENT || errnum == ECONNREFUSED;
            co_return std::unexpected(dat.error());
        }
        dat_ = std::move(*dat);
        dat_->on_lost([this](const Error& error) {
            lost_dat_ = true;
            end_.raise(error); // so is the reason to be
        });
        auto jobid = co_await flux::attribute(*dat_, "jobid");
        auto parent = co_await flux::attribute(*dat_, "parent-uri");
        auto size = co_await flux::attribute_number(*dat_, "size");
        if (!jobid)
            co_return std::unexpected(jobid.error());
        if (!parent)
            co_return std::unexpected(parent.error());
        if (!size)
            co_return std::unexpected(size.error());
        auto id = flux::parse_jobid(*jobid);
        if (!id)
            co_return std::unexpected(id.error());
        id_ = *id;
        parent_uri_ = std::move(*parent);
        size_ = *size;
        co_return Result<>{};
    }

    // Serves in the parent until the connection to it is lost or the DAT is to end.
    flux::Task<Result<>> serve_parent(double& delay)
    {
        auto parent = co_await flux::Connection::open(loop_, parent_uri_, &end_);
        if (!parent)
            co_return std::unexpected(parent.error());
        parent_ = std::move(*parent);
        auto served = co_await announce();
        if (served) {
            delay = reconnect_delay_min;
            served = co_await follow_record();
        }
        if (lost_dat_)
            co_await end_headless_job();
        parent_.reset();
        co_return served;
    }

    // Named queues are stopped when an instance boots; a DAT is there to be used.
    flux::Task<Result<>> start_queues()
    {
        auto list = co_await dat_->rpc("job-manager.queue-list");
        if (!list)
            co_return std::unexpected(list.error());
        if (!list->contains("queues") || (*list)["queues"].empty())
            co_return Result<>{};
        Json payload{{"start", true}, {"all", true}, {"nocheckpoint", false}};
        auto started =
            co_await dat_->rpc("job-manager.queue-start", std::move(payload), 0);
        if (!started)
            co_return fail("cannot start the queues: {}", started.error().message);
        co_return Result<>{};
    }

    // So that a list of DATs tells, without asking each, that one has lost ranks. Ends
    // with the connection. A broker that does not know the request is none of Flux 0.88
    // or later; then what the record says of the ranks is what they were at the start.
    flux::Task<void> follow_ranks()
    {
        Json payload = Json::object();
        auto journal = dat_->stream("resource.journal", std::move(payload));
        RanksUp ranks;
        while (true) {
            auto answer = co_await journal.next();
            if (!answer || !*answer)
                co_return;
            ranks.apply(**answer);
            undrainer_->apply(**answer);
            if (!ranks.is_current())
                continue;
            ranks_up_ = ranks.count();
            if (doors_)
                doors_->up(ranks.ranks());
            if (parent_ && announced_ && record_.ranks_up != *ranks_up_)
                co_await update_record();
        }
    }

    // Of what was told afterwards, to this process that is a new one, the list as it
    // was then decides, and not as it has become. The clocks of two instances' leaders
    // may differ by a little; so of what is told as it happens, the list as it is, too.
    flux::Task<Result<bool>> was_off_list(uid_t user, Drains::Drain drain)
    {
        if (drain.current && !desired_.admits(user, groups_of))
            co_return true;
        if (!parent_)
            co_return fail("the connection to the parent is lost");
        auto log = co_await flux::lookup(*parent_, id_, "eventlog");
        if (!log)
            co_return std::unexpected(log.error());
        auto events = parse_eventlog(*log);
        std::erase_if(events,
                      [&](auto& event) { return event.timestamp > drain.when; });
        auto then = fold(events, geteuid(), first_);
        co_return !then.desired.admits(user, groups_of);
    }

    flux::Task<void> follow_jobs()
    {
        undrainer_->on_undrain = [this](const flux::Idset& ranks, flux::JobId id,
                                        uid_t user) {
            audit(fmt::format(
                "the DAT \"{}\" ({}): undrained the ranks {}, drained for "
                "the job {} of user {}, who is not on the guest list",
                record_.name, flux::format_jobid_ascii(id_), flux::format_idset(ranks),
                flux::format_jobid_ascii(id), user));
        };
        evictor_->on_cancel = [this](flux::JobId id, uid_t user) {
            // Whoever is still connected can submit without end.
            auto& said = cancelled_[user];
            said.jobs++;
            double now = wall_clock();
            if (now - said.when < cancelled_line_pause)
                return;
            said.when = now;
            audit(fmt::format("the DAT \"{}\" ({}): cancelled the job {} of user {}, "
                              "who is not on the guest list ({} so far)",
                              record_.name, flux::format_jobid_ascii(id_),
                              flux::format_jobid_ascii(id), user, said.jobs));
        };
        auto followed = co_await evictor_->follow();
        if (!followed && !lost_dat_ && !end_.reason())
            log_error(
                {"cannot follow the jobs of this DAT; those of revoked guests are "
                 "not cancelled: "
                 + followed.error().message});
    }

    // Rank 0's broker died under us. The other brokers would go on for minutes until
    // they notice, and hold the nodes.
    flux::Task<void> end_headless_job()
    {
        auto ended = co_await flux::raise(*parent_, id_, "exec", flux::severity_fatal,
                                          "the broker of the DAT's rank 0 is gone");
        if (!ended && ended.error().errnum != ENOENT && ended.error().errnum != EINVAL)
            log_error(ended.error());
    }

    flux::Task<Result<>> announce()
    {
        auto rank = co_await flux::attribute_number(*parent_, "rank");
        if (!rank)
            co_return std::unexpected(rank.error());
        auto job = co_await flux::list_job(*parent_, id_);
        if (!job)
            co_return std::unexpected(job.error());
        nodelist_ = job->nodelist;
        auto folded = co_await take_up_list();
        if (!folded)
            co_return folded;
        // A change that was made while it was pending is in force when it is ready.
        // (Not served meanwhile: a change waits for its event, which is followed only
        // then.)
        if (record_.state == State::submitted)
            co_await doors_->settled(desired_.guests().generation);
        auto name = service_name(geteuid(), id_);
        auto served = co_await parent_->serve(
            name, [this](const flux::Message& request) { handle(request); });
        if (!served)
            co_return fail("cannot register the service {} in the parent: {}", name,
                           served.error().message);
        record_.service_name = name;
        record_.service_rank = *rank;
        if (record_.state == State::submitted) {
            record_.state = State::ready;
            record_.ranks_up = size_; // or this program would not run yet
        }
        if (record_.state == State::stopping && !stopping_)
            loop_.spawn(wind_down(std::max(0.0, record_.stop_at - wall_clock())));
        announced_ = true;
        posted_record_ = nullptr; // the parent may not have got the last one
        co_return co_await post_record();
    }

    // The guest list as it is now, by the job's eventlog; and the record, where a
    // worker before this one has written it.
    flux::Task<Result<>> take_up_list()
    {
        auto log = co_await flux::lookup(*parent_, id_, "eventlog");
        if (!log)
            co_return std::unexpected(log.error());
        auto folded = fold(parse_eventlog(*log), geteuid(), first_);
        // adopt posts the record first: without it the adoption was given up.
        if (adopted_
            && (!folded.record || folded.record->adoption != first_.adoption)) {
            end_.raise({"the adoption was given up"});
            co_return std::unexpected(*end_.reason());
        }
        events_folded_ = folded.events;
        desired_ = std::move(folded.desired);
        if (folded.record && folded.record->state != State::submitted)
            record_ = std::move(*folded.record);
        // The launchers made the doors for the first list. What a worker before this
        // one did is seen by doing it again.
        bool first = record_.state == State::submitted;
        if (!doors_)
            make_doors(first ? first_.guests.generation : 0);
        put_in_force();
        co_return Result<>{};
    }

    void make_doors(std::uint64_t applied)
    {
        doors_ =
            std::make_unique<Doors>(loop_, *dat_, hosts(), entrance(), applied, [this] {
                if (announced_ && parent_)
                    loop_.spawn(update_record());
            });
    }

    Entrance entrance() const { return adopted_ ? Entrance::passage : Entrance::door; }

    void put_in_force()
    {
        doors_->want(desired_.guests());
        evictor_->judge(desired_);
        undrainer_->judge();
    }

    flux::Task<Result<>> post_record()
    {
        record_.ranks_up = ranks_up_.value_or(record_.ranks_up);
        record_.guests = desired_.guests();
        record_.managers = desired_.managers();
        record_.applied = doors_->applied();
        auto json = to_json(record_);
        if (json == posted_record_ || undone_)
            co_return Result<>{};
        posted_record_ = std::move(json);
        auto posted = co_await dat::post_record(*parent_, id_, record_);
        if (!posted)
            posted_record_ = nullptr;
        co_return posted;
    }

    // Where it fails since the parent is lost, announce() posts the record again; where
    // the job has ended, nobody reads it any more.
    flux::Task<void> update_record()
    {
        auto posted = co_await post_record();
        if (!posted && posted.error().errnum != ECONNRESET
            && posted.error().errnum != ENOENT && posted.error().errnum != EINVAL)
            log_error({"cannot post the DAT's record: " + posted.error().message});
    }

    flux::Task<Result<>> follow_record()
    {
        flux::EventlogWatch watch(*parent_, id_, "eventlog");
        bool posted_ours = false;
        for (std::size_t number = 0;; number++) {
            auto event = co_await watch.next(&end_);
            if (!event)
                co_return std::unexpected(event.error());
            if (!*event)
                co_return Result<>{};
            // A `start` that was held up, or a `grant` that found the DAT pending, may
            // post its record after ours; ours is newer.
            auto seen = record_in(**event);
            if (seen && seen->state != State::submitted)
                posted_ours = true;
            else if (seen && posted_ours) {
                posted_record_ = nullptr;
                co_await update_record();
            }
            if (number < events_folded_)
                continue;
            // Not by undo(), which has yet to answer.
            if (adopted_ && !undone_ && removes_record(**event)) {
                undone_ = true;
                end_.raise({"the adoption is undone"});
                co_return Result<>{};
            }
            if (auto change = change_in(**event))
                take_change(*change, (*event)->timestamp);
        }
    }

    void take_change(const Change& change, double when)
    {
        auto effect = desired_.apply(change, when);
        if (effect && !effect->none())
            audit(fmt::format("the DAT \"{}\" ({}): user {} {} (generation {})",
                              record_.name, flux::format_jobid_ascii(id_), change.by,
                              summary(*effect), desired_.guests().generation));
        put_in_force();
        loop_.spawn(record_when_settled(desired_.guests().generation));
        auto posted = posted_.find(change.key);
        if (posted == posted_.end())
            return;
        posted->second->generation = desired_.guests().generation;
        posted->second->effect = std::move(effect);
        posted->second->seen.raise({"seen"});
    }

    // Once for each change, and not before it is in force as well: each memo is an
    // event that goes to all brokers of the parent.
    flux::Task<void> record_when_settled(std::uint64_t generation)
    {
        co_await doors_->settled(generation);
        if (announced_ && parent_)
            co_await update_record();
    }

    void handle(const flux::Message& request)
    {
        bool instance_owner = request.rolemask & flux::role_owner;
        bool owner = instance_owner || request.userid == geteuid();
        bool manager = owner || desired_.is_manager(request.userid);
        auto method = request.topic->substr(request.topic->find('.') + 1);
        if (method == "status") {
            if (!manager)
                return parent_->respond_error(
                    request, EPERM,
                    "the details of this DAT are for its owner and "
                    "managers");
            if (!is_busy(request, statuses_, statuses_max))
                loop_.spawn(answer_status(request));
        } else if (method == "undo") {
            if (!owner)
                return parent_->respond_error(request, EPERM,
                                              "only its owner may undo the adoption");
            if (!adopted_)
                return parent_->respond_error(
                    request, EINVAL, "this DAT was not adopted; flux-dat stop ends it");
            loop_.spawn(undo(request));
        } else if (method == "admission") {
            if (!is_busy(request, admissions_, admissions_max))
                answer_admission(request);
        } else if (method == "history") {
            if (!manager)
                return parent_->respond_error(
                    request, EPERM,
                    "the history of this DAT is for its owner and managers");
            loop_.spawn(answer_history(request));
        } else if (method == "stop") {
            if (!owner)
                return parent_->respond_error(
                    request, EPERM, stop_refusal(geteuid(), record_.name, id_));
            auto payload = flux::parse_json(request.payload_text());
            if (!payload || !payload->contains("grace")
                || !(*payload)["grace"].is_number()
                || (*payload)["grace"].get<double>() < 0)
                return parent_->respond_error(request, EPROTO,
                                              "stop: \"grace\" must be a number of "
                                              "seconds, 0 or more");
            loop_.spawn(stop(request, (*payload)["grace"].get<double>()));
        } else if (method == "guests") {
            auto change = requested_change(request, owner, manager);
            if (!change)
                return parent_->respond_error(request, change.error().errnum,
                                              change.error().message);
            loop_.spawn(change_list(request, std::move(*change)));
        } else if (method != "disconnect") {
            parent_->respond_error(
                request, ENOSYS,
                fmt::format("a DAT's supervisor has no method \"{}\"", method));
        }
    }

    Result<Change> requested_change(const flux::Message& request, bool owner,
                                    bool manager) const
    {
        if (!manager)
            return std::unexpected(
                Error{fmt::format("only its owner (uid {}) and its managers may change "
                                  "the guest list of the DAT \"{}\"",
                                  geteuid(), record_.name),
                      EPERM});
        auto payload = flux::parse_json(request.payload_text());
        if (!payload || !payload->is_object())
            return std::unexpected(Error{"guests: no JSON object", EPROTO});
        // These are not for who asks to say.
        (*payload)["key"] = new_change_key();
        (*payload)["by"] = request.userid;
        auto change = change_from_json(*payload);
        if (!change)
            return std::unexpected(
                Error{change.error().message,
                      change.error().errnum ? change.error().errnum : EINVAL});
        if (change->needs_owner() && !owner)
            return std::unexpected(
                Error{fmt::format("a manager may grant and revoke users and groups; "
                                  "managers, and whether everybody may enter, are for "
                                  "the owner of the DAT \"{}\" (uid {})",
                                  record_.name, geteuid()),
                      EPERM});
        return change;
    }

    // A change that was posted, until its event comes.
    struct Posted {
        flux::Interrupt seen;
        std::uint64_t generation = 0;
        Result<Desired::Effect> effect = fail("the change was posted, and is not to be "
                                              "found in the eventlog of the DAT's job");
    };

    flux::Task<void> change_list(flux::Message request, Change change)
    {
        auto done = co_await post_change(std::move(change));
        if (!parent_)
            co_return; // nobody to answer: with the connection went the request
        if (!done) {
            auto& error = done.error();
            parent_->respond_error(request, error.errnum ? error.errnum : EINVAL,
                                   error.message);
            co_return;
        }
        bool everywhere = co_await doors_->settled(done->generation);
        if (parent_ && announced_)
            co_await update_record();
        Json answer{{"generation", done->generation},
                    {"everywhere", everywhere},
                    {"granted", to_json(done->effect->granted)},
                    {"revoked", to_json(done->effect->revoked)},
                    {"open", desired_.guests().open},
                    {"ranks", Json::array()}};
        for (auto& rank : doors_->ranks())
            answer["ranks"].push_back(to_json(rank));
        respond(request, answer);
    }

    // Makes the change known to the job's eventlog, and gives what it was when it came
    // from there.
    flux::Task<Result<Posted>> post_change(Change change)
    {
        Posted posted;
        auto trial = Desired(desired_).apply(change, 0);
        if (!trial)
            co_return std::unexpected(trial.error());
        if (trial->none() && posted_.empty()) { // so already
            posted.generation = desired_.guests().generation;
            posted.effect = std::move(trial);
            co_return posted;
        }
        posted_[change.key] = &posted;
        Json memo{{change_key, to_json(change)}};
        auto sent = co_await flux::memo(*parent_, id_, std::move(memo));
        if (sent && !posted.seen.reason())
            (void)co_await loop_.sleep(event_time_max, &posted.seen); // either way
        posted_.erase(change.key);
        if (!sent)
            co_return fail("cannot post the change: {}", sent.error().message);
        if (!posted.effect)
            co_return std::unexpected(posted.effect.error());
        co_return posted;
    }

    flux::Hostlist hosts() const { return hosts_by_rank(nodelist_, size_); }

    // The parent may be lost while an answer is being made.
    void respond(const flux::Message& request, const Json& answer)
    {
        if (parent_)
            parent_->respond(request, answer);
    }

    // For whoever asks, of nobody else: in private mode a guest sees nothing of the
    // DAT's job, and a stranger learns nothing here that the door would not tell.
    void answer_admission(const flux::Message& request)
    {
        if (request.userid != geteuid() && !desired_.admits(request.userid, groups_of)
            && !desired_.is_manager(request.userid))
            return parent_->respond_error(
                request, EPERM,
                fmt::format(
                    "you (uid {}) are not on the guest list of this DAT; ask its "
                    "owner or a manager",
                    request.userid));
        loop_.spawn([](Supervisor& self, flux::Message asked) -> flux::Task<void> {
            AtWork one(self.admissions_);
            auto job = co_await flux::list_job(*self.parent_, self.id_);
            if (!self.parent_)
                co_return;
            if (!job)
                co_return self.parent_->respond_error(asked, job.error().errnum,
                                                      job.error().message);
            auto dat = dat_of(std::move(*job));
            self.respond(asked, {{"name", self.record_.name},
                                 {"owner", geteuid()},
                                 {"state", to_string(self.record_.state)},
                                 {"nodelist", self.nodelist_},
                                 {"expiration", dat ? dat->job.expiration : 0.0},
                                 {"uri", dat ? dat->uri() : ""}});
        }(*this, request));
    }

    flux::Task<void> answer_history(flux::Message request)
    {
        auto log = co_await flux::lookup(*parent_, id_, "eventlog");
        if (!parent_)
            co_return;
        if (!log)
            co_return parent_->respond_error(request, log.error().errnum,
                                             log.error().message);
        respond(request, {{"changes", history(parse_eventlog(*log), geteuid())}});
    }

    // Whether the DAT's IMP is one that asks the guest list, as it says itself.
    flux::Task<Json> describe_imp()
    {
        if (!imp_.is_null())
            co_return imp_;
        auto conf = co_await flux::configuration(*dat_);
        if (!conf || !conf->contains(imp_path))
            co_return nullptr;
        auto path = (*conf)[imp_path].get<std::string>();
        flux::Command command;
        command.cmdline = {path, "version"};
        auto ran = co_await flux::run_command(*dat_, 0, std::move(command));
        imp_ = {{"path", path},
                // An adopted broker does not tell its IMP where there is a list.
                {"asks_guest_list",
                 !adopted_ && ran.ok() && ran.out.starts_with("flux-dat-imp ")}};
        co_return imp_;
    }

    bool is_busy(const flux::Message& request, int at_work, int max)
    {
        if (at_work < max)
            return false;
        parent_->respond_error(
            request, EAGAIN,
            "this DAT's supervisor has too many questions at a time; "
            "try again");
        return true;
    }

    flux::Task<void> answer_status(flux::Message request)
    {
        AtWork one(statuses_);
        auto ranks = co_await check_ranks(*dat_, hosts(), entrance(), record_.guests);
        Json active{{"states", {"pending", "running"}}};
        auto jobs = co_await flux::list_jobs(*dat_, std::move(active));
        auto imp = co_await describe_imp();
        Json answer{{"ranks", Json::array()},
                    {"guests", to_json(desired_)},
                    {"imp", std::move(imp)}};
        auto lists = doors_->ranks();
        for (auto& rank : ranks) {
            auto json = to_json(rank);
            if (rank.rank < lists.size())
                json.update(to_json(lists[rank.rank]));
            answer["ranks"].push_back(std::move(json));
        }
        if (jobs) {
            auto pending = std::count_if(jobs->begin(), jobs->end(),
                                         [](auto& job) { return job.pending(); });
            answer["jobs"] = {{"pending", pending},
                              {"running", static_cast<long>(jobs->size()) - pending}};
        }
        respond(request, answer);
    }

    // Closed to new jobs; those that run are told, and have until the grace is over.
    flux::Task<void> stop(flux::Message request, double grace)
    {
        double end = wall_clock() + grace;
        record_.stop_at = record_.state == State::stopping && record_.stop_at > 0
                              ? std::min(record_.stop_at, end)
                              : end;
        record_.state = State::stopping;
        record_.stop_reason = "stopped by its owner";
        co_await update_record();
        respond(request, Json(nullptr));
        co_await wind_down(grace);
    }

    // Also after a worker before this one had begun it.
    flux::Task<void> wind_down(double grace)
    {
        end_if_sooner(grace);
        if (std::exchange(stopping_, true))
            co_return;
        Json payload{
            {"enable", false}, {"all", true}, {"reason", "this DAT is ending"}};
        auto closed =
            co_await dat_->rpc("job-manager.queue-enable", std::move(payload), 0);
        if (!closed)
            log_error(closed.error());
        co_await warn_jobs(grace);
        auto drained = co_await dat_->rpc("job-manager.drain", nullptr,
                                          flux::nodeid_any, &grace_over_);
        if (!drained && !grace_over_.reason())
            log_error(drained.error());
        if (!drained)
            co_await cancel_jobs();
        // The end of the supervisor is the end of a DAT whose initial program it is.
        if (adopted_ && parent_) {
            auto ended = co_await flux::raise(*parent_, id_, "cancel",
                                              flux::severity_fatal, "flux-dat stop");
            if (!ended)
                log_error({"cannot end the DAT's job: " + ended.error().message});
        }
        end_.raise({"stopped"});
    }

    // The adopted instance goes on without a guest list, as it was before.
    flux::Task<void> undo(flux::Message request)
    {
        // A list that is on its way to a rank would open it again.
        co_await doors_->stopped();
        auto failed = co_await restore_all_ranks(*dat_, hosts());
        if (!parent_)
            co_return;
        if (failed.empty()) {
            undone_ = true;
            Json memo{{"dat", nullptr}, {change_key, nullptr}};
            auto posted = co_await flux::memo(*parent_, id_, std::move(memo));
            undone_ = posted.has_value();
            if (!posted)
                failed = "the DAT's record: " + posted.error().message;
        }
        Json answer{{"failed", failed}};
        if (!undone_) { // as before, and with a supervisor
            doors_.reset();
            make_doors(0);
            put_in_force();
            respond(request, answer);
            co_return;
        }
        audit(fmt::format("the job {} is no longer adopted: user {} has undone it",
                          flux::format_jobid_ascii(id_), request.userid));
        respond(request, answer);
        end_.raise({"the adoption is undone"});
    }

    // The earliest end that any `stop` asked for counts.
    void end_if_sooner(double grace)
    {
        loop_.spawn([](Supervisor& self, double seconds) -> flux::Task<void> {
            (void)co_await self.loop_.sleep(seconds, &self.end_);
            self.grace_over_.raise({"the grace is over"});
        }(*this, grace));
    }

    // An exception that is not fatal is what a guest sees who is attached to a job. A
    // job that has ended meanwhile takes none.
    flux::Task<void> warn_jobs(double grace)
    {
        Json running{{"states", {"running"}}};
        auto jobs = co_await flux::list_jobs(*dat_, std::move(running));
        if (!jobs)
            co_return log_error({"cannot warn the jobs: " + jobs.error().message});
        for (auto& job : *jobs)
            (void)co_await flux::raise(
                *dat_, job.id, "dat-stop", flux::severity_least,
                fmt::format("this DAT ends in {}", flux::format_fsd(grace)));
    }

    // The instance's own end would cancel them too, but without saying why. So it does
    // with those that this does not reach.
    flux::Task<void> cancel_jobs()
    {
        Json active{{"states", {"pending", "running"}}};
        auto jobs = co_await flux::list_jobs(*dat_, std::move(active));
        if (!jobs)
            co_return log_error({"cannot cancel the jobs: " + jobs.error().message});
        for (auto& job : *jobs)
            (void)co_await flux::raise(*dat_, job.id, "cancel", flux::severity_fatal,
                                       "this DAT has ended");
    }

    flux::Loop& loop_;
    const bool adopted_; // started by hand: doors are passages
    bool undone_ = false;
    const Record first_; // as the DAT was submitted
    Record record_;
    Json posted_record_; // as it was posted last; null: not known
    Desired desired_;
    std::size_t events_folded_ = 0; // events of the eventlog that desired_ has in it
    std::map<std::string, Posted*> posted_; // by key, in the frames of who waits
    flux::JobId id_ = 0;
    std::uint32_t size_ = 0;
    std::optional<std::uint32_t> ranks_up_; // once the DAT's broker has told
    std::string parent_uri_;
    std::unique_ptr<flux::Connection> dat_;
    std::unique_ptr<Doors> doors_;
    std::unique_ptr<Evictor> evictor_;
    std::unique_ptr<Undrainer> undrainer_;
    struct Cancelled {
        std::uint64_t jobs = 0;
        double when = 0; // of the last line about it
    };
    std::map<uid_t, Cancelled> cancelled_;
    int statuses_ = 0, admissions_ = 0; // at work
    Json imp_;                          // describe_imp(), once it is known
    std::unique_ptr<flux::Connection> parent_;
    std::string nodelist_;   // of the DAT's job in the parent, in the order of ranks
    bool announced_ = false; // the record here is the DAT's, not only the file's
    bool stopping_ = false;
    bool no_broker_ = false;     // it is gone already, and with it the DAT
    bool lost_dat_ = false;      // its rank 0 broker is gone
    flux::Interrupt end_;        // the DAT is to end, or has
    flux::Interrupt grace_over_; // while stopping
};

} // namespace

int supervise_worker(const std::string& dat_file)
{
    // The outer process is nothing without this one, and this one nothing without it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto file = read_dat_file(dat_file);
    if (!file) {
        log_error(file.error());
        return 1;
    }
    flux::Loop loop;
    Supervisor supervisor(loop, std::move(*file));
    auto done = loop.run(supervisor.run());
    if (!done) {
        log_error(done.error());
        return 1;
    }
    return 0;
}

} // namespace fluxdat::dat
