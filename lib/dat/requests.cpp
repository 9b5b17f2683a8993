// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/requests.h"

#include "lib/dat/adopt.h"
#include "lib/dat/audit.h"
#include "lib/dat/find.h"
#include "lib/dat/stop.h"
#include "lib/dat/undrain.h"

#include <algorithm>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// Questions that are worked on at a time; more are for later (EAGAIN). A status starts
// a process on every rank, and a guest may ask without waiting for answers.
constexpr int statuses_max = 8, admissions_max = 64;
// Histories, each of which is made in one go and holds its place for some seconds:
// that takes time, and room until it is sent.
constexpr int histories_max = 2;
constexpr double history_pause = 1;
// Changes by managers that wait for their event. What each costs grows with the others'
// (Desired::narrowed), and none of them is in the eventlog's size yet.
constexpr int managers_changes_max = 16;
// Seconds for all that a status is put together from. Some requests are never answered
// (Doors::up(), doors.h), and an IMP may hang; whoever asks waits for 30 s (ask.cpp).
constexpr double status_time_max = 20;

// Bytes of the job's eventlog above which managers can change nothing more. Each change
// stays in it for good, and so does the record after it, which has the whole list: some
// 200 KB where there are 8000 guests, and 1 KB where there are a few.
constexpr std::size_t managers_eventlog_max = 16u << 20;
// And above which they cannot revoke any more. Who is to go must go for longer than
// somebody can come; what that takes has an end, since nobody comes any more.
constexpr std::size_t managers_revoke_max = 3 * managers_eventlog_max;

const Json::json_pointer imp_path("/exec/imp");

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

Json to_json(const flux::JobCounts& jobs)
{
    return {{"pending", jobs.pending},
            {"running", jobs.running},
            {"done", jobs.done},
            {"failed", jobs.failed},
            {"canceled", jobs.canceled}};
}

} // namespace

flux::Task<void> Requests::learn_owner()
{
    auto account = co_await lookups_.of(geteuid(), &links_.end);
    owner_ = std::move(account.name);
}

void Requests::handle(const flux::Message& request)
{
    bool instance_owner = request.rolemask & flux::role_owner;
    bool owner = instance_owner || request.userid == geteuid();
    bool manager = owner || book_.desired().is_manager(request.userid);
    auto method = request.topic->substr(request.topic->find('.') + 1);
    auto& parent = *links_.parent;
    if (method == "status") {
        if (!manager)
            return parent.respond_error(request, EPERM,
                                        "the details of this DAT are for its owner and "
                                        "managers");
        if (!is_busy(request, statuses_, statuses_max))
            links_.loop.spawn(answer_status(request));
    } else if (method == "jobs") {
        if (!manager)
            return parent.respond_error(request, EPERM,
                                        "the jobs of this DAT are for its owner and "
                                        "managers");
        if (!is_busy(request, statuses_, statuses_max))
            links_.loop.spawn(answer_jobs(request));
    } else if (method == "undo") {
        if (!owner)
            return parent.respond_error(request, EPERM,
                                        "only its owner may undo the adoption");
        if (!links_.adopted)
            return parent.respond_error(
                request, EINVAL, "this DAT was not adopted; flux-dat stop ends it");
        links_.loop.spawn(undo(request));
    } else if (method == "admission") {
        if (!is_busy(request, admissions_, admissions_max))
            links_.loop.spawn(answer_admission(request));
    } else if (method == "history") {
        if (!manager)
            return parent.respond_error(
                request, EPERM,
                "the history of this DAT is for its owner and managers");
        if (!is_busy(request, histories_, histories_max))
            links_.loop.spawn(answer_history(request));
    } else if (method == "stop") {
        if (!owner)
            return parent.respond_error(
                request, EPERM, stop_refusal(owner_, book_.record().name, links_.id));
        auto payload = flux::parse_json(request.payload_text());
        if (!payload || !payload->contains("grace") || !(*payload)["grace"].is_number()
            || (*payload)["grace"].get<double>() < 0)
            return parent.respond_error(request, EPROTO,
                                        "stop: \"grace\" must be a number of "
                                        "seconds, 0 or more");
        links_.loop.spawn(stop(request, (*payload)["grace"].get<double>()));
    } else if (method == "guests") {
        auto change = requested_change(request, owner, manager);
        if (!change)
            return parent.respond_error(request, change.error().errnum,
                                        change.error().message);
        if (owner)
            links_.loop.spawn(
                change_list(request, std::move(*change), owners_changes_));
        else if (!is_busy(request, managers_changes_, managers_changes_max))
            links_.loop.spawn(
                change_list(request, std::move(*change), managers_changes_));
    } else if (method != "disconnect") {
        parent.respond_error(
            request, ENOSYS,
            fmt::format("a DAT's supervisor has no method \"{}\"", method));
    }
}

bool Requests::is_busy(const flux::Message& request, int at_work, int max)
{
    if (at_work < max)
        return false;
    links_.parent->respond_error(
        request, EAGAIN,
        "this DAT's supervisor has too many questions at a time; "
        "try again");
    return true;
}

Result<Change> Requests::requested_change(const flux::Message& request, bool owner,
                                          bool manager) const
{
    if (!manager)
        return std::unexpected(
            Error{fmt::format("only its owner ({}) and its managers may change "
                              "the guest list of the DAT \"{}\"",
                              owner_, book_.record().name),
                  EPERM});
    auto payload = flux::parse_json(request.payload_text());
    if (!payload || !payload->is_object())
        return std::unexpected(Error{"guests: no JSON object", EPROTO});
    // These are not for who asks to say.
    (*payload)["key"] = new_change_key();
    (*payload)["by"] = request.userid;
    auto change = change_from_json(*payload);
    if (!change)
        return std::unexpected(Error{change.error().message, change.error().errnum
                                                                 ? change.error().errnum
                                                                 : EINVAL});
    if (change->needs_owner() && !owner)
        return std::unexpected(
            Error{fmt::format("a manager may grant and revoke users and groups; "
                              "managers, and whether everybody may enter, are for "
                              "the owner of the DAT \"{}\" ({})",
                              book_.record().name, owner_),
                  EPERM});
    bool adds = !change->grant.empty();
    if (!owner
        && book_.eventlog_size() > (adds ? managers_eventlog_max : managers_revoke_max))
        return std::unexpected(Error{
            fmt::format("the DAT \"{}\" was changed so often that its history has "
                        "{} MiB; only its owner ({}) can {} now",
                        book_.record().name, book_.eventlog_size() >> 20, owner_,
                        adds ? "grant" : "change its guest list"),
            EPERM});
    return change;
}

flux::Task<void> Requests::change_list(flux::Message request, Change change,
                                       int& at_work)
{
    std::optional<AtWork> one(at_work);
    auto done = co_await book_.change(std::move(change));
    one.reset(); // not while the ranks are waited for
    if (!links_.parent)
        co_return; // nobody to answer: with the connection went the request
    if (!done)
        co_return links_.respond_error(request, done.error());
    bool everywhere = co_await book_.doors().settled(done->generation);
    co_await book_.update_if_announced();
    Json answer{{"generation", done->generation},
                {"everywhere", everywhere},
                {"granted", to_json(done->effect.granted)},
                {"revoked", to_json(done->effect.revoked)},
                {"open", book_.desired().guests().open},
                {"evictor_fault", evictor_fault()},
                {"ranks", Json::array()}};
    for (auto& rank : book_.doors().ranks())
        answer["ranks"].push_back(to_json(rank));
    links_.respond(request, answer);
}

// For whoever asks, of nobody else: in private mode a guest sees nothing of the
// DAT's job, and a stranger learns nothing here that the door would not tell. So here
// what cannot be told is decided against who asks, unlike elsewhere.
flux::Task<void> Requests::answer_admission(flux::Message request)
{
    AtWork one(admissions_);
    auto user = request.userid;
    auto refused = [&](const std::optional<std::vector<gid_t>>& groups) {
        return user == geteuid() || book_.desired().is_manager(user)
                   ? Result<bool>(false)
                   : is_off_list(book_.desired(), user, groups);
    };
    Account account;
    auto off = refused({});
    if (!off || *off) { // who is let in at once needs no name
        account = co_await lookups_.of(user, &links_.end);
        off = refused(account.groups);
    }
    if (!off)
        co_return links_.respond_error(
            request,
            {"it cannot be told at the moment whether one of your groups is on "
             "the guest list of this DAT; try again",
             EAGAIN});
    if (*off)
        co_return links_.respond_error(
            request,
            {fmt::format("you ({}) are not on the guest list of this DAT; ask its "
                         "owner or a manager",
                         account.name),
             EPERM});
    if (!links_.parent)
        co_return;
    auto job = co_await flux::list_job(*links_.parent, links_.id);
    if (!job)
        co_return links_.respond_error(request, job.error());
    auto dat = dat_of(std::move(*job));
    links_.respond(request, {{"name", book_.record().name},
                             {"owner", geteuid()},
                             {"state", to_string(book_.record().state)},
                             {"nodelist", links_.nodelist},
                             {"expiration", dat ? dat->job.expiration : 0.0},
                             {"uri", dat ? dat->uri() : ""}});
}

// Whether the DAT's IMP is one that asks the guest list, as it says itself.
flux::Task<Json> Requests::describe_imp(flux::Interrupt& limit)
{
    if (!imp_.is_null())
        co_return imp_;
    auto conf = co_await flux::configuration(*links_.dat);
    if (!conf || !conf->contains(imp_path) || !(*conf)[imp_path].is_string())
        co_return nullptr;
    auto path = (*conf)[imp_path].get<std::string>();
    flux::Command command;
    command.cmdline = {path, "version"};
    auto ran =
        co_await flux::run_command(*links_.dat, 0, std::move(command), "rexec", &limit);
    if (limit.reason())
        co_return nullptr; // another time it may answer
    imp_ = {{"path", path},
            // An adopted broker does not tell its IMP where there is a list.
            {"asks_guest_list",
             !links_.adopted && ran.ok() && ran.out.starts_with("flux-dat-imp ")}};
    co_return imp_;
}

flux::Task<void> Requests::answer_status(flux::Message request)
{
    AtWork one(statuses_);
    flux::Deadline limit(
        links_.loop, status_time_max,
        {fmt::format("no answer in {} s", status_time_max), ETIMEDOUT});
    auto ranks = co_await check_ranks(*links_.dat, links_.hosts(), links_.entrance(),
                                      book_.record().guests, &limit.interrupt());
    auto jobs = co_await flux::job_counts(*links_.dat);
    auto imp = co_await describe_imp(limit.interrupt());
    Json answer{{"ranks", Json::array()},
                {"guests", to_json(book_.desired())},
                {"evictor_fault", evictor_fault()},
                {"imp", std::move(imp)}};
    auto lists = book_.doors().ranks();
    for (auto& rank : ranks) {
        auto json = to_json(rank);
        if (rank.rank < lists.size())
            json.update(to_json(lists[rank.rank]));
        answer["ranks"].push_back(std::move(json));
    }
    if (jobs)
        answer["jobs"] = to_json(*jobs);
    links_.respond(request, answer);
}

// What changes by the second, for whoever watches: no door is asked.
flux::Task<void> Requests::answer_jobs(flux::Message request)
{
    AtWork one(statuses_);
    auto jobs = co_await flux::job_counts(*links_.dat);
    if (!jobs)
        co_return links_.respond_error(request, jobs.error());
    links_.respond(request, to_json(*jobs));
}

flux::Task<void> Requests::answer_history(flux::Message request)
{
    AtWork one(histories_);
    links_.respond(request, {{"changes", book_.history()}});
    (void)co_await links_.loop.sleep(history_pause, &links_.end);
}

flux::Task<void> Requests::stop(flux::Message request, double grace)
{
    co_await shutdown_.stop(grace);
    links_.respond(request, Json(nullptr));
}

// The adopted instance goes on without a guest list, as it was before.
flux::Task<void> Requests::undo(flux::Message request)
{
    // A list that is on its way to a rank would open it again.
    co_await book_.doors().stopped();
    auto failed = co_await restore_all_ranks(*links_.dat, links_.hosts());
    if (!links_.parent)
        co_return;
    bool undone = failed.empty();
    if (undone) {
        auto removed = co_await book_.remove();
        undone = removed.has_value();
        if (!removed)
            failed = "the DAT's record: " + removed.error().message;
    }
    Json answer{{"failed", failed}};
    if (!undone) { // as before, and with a supervisor
        book_.reopen();
        links_.respond(request, answer);
        co_return;
    }
    audit(
        fmt::format("it is no longer adopted: user {} has undone it", request.userid));
    links_.respond(request, answer);
    links_.end.raise({"the adoption is undone"});
}

} // namespace fluxdat::dat
