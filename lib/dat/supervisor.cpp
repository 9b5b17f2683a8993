// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/supervisor.h"

#include "lib/dat/find.h"
#include "lib/dat/jobspec.h"
#include "lib/dat/ranks.h"
#include "lib/dat/stop.h"
#include "lib/flux/fsd.h"
#include "lib/flux/services.h"
#include "lib/say.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// Seconds before a worker that died runs again, and before another try to connect to
// the parent's broker: the first delay, which doubles up to the second.
constexpr double restart_delay_min = 0.1, restart_delay_max = 30;
constexpr double reconnect_delay_min = 0.2, reconnect_delay_max = 10;

// What is said on the broker's stderr, which is the output of the DAT's job.
void log_error(const Error& error)
{
    say(stderr, "flux-dat supervise: {}\n", error.message);
    std::fflush(stderr);
}

class Supervisor
{
public:
    Supervisor(flux::Loop& loop, DatFile file)
        : loop_(loop), record_(std::move(file.record))
    {
    }

    // Until the DAT is to end, or has ended.
    flux::Task<Result<>> run()
    {
        auto connected = co_await connect_dat();
        if (!connected)
            co_return connected;
        double delay = reconnect_delay_min;
        auto started = co_await start_queues();
        if (!started)
            co_return started;
        loop_.spawn(follow_ranks());
        while (!end_.reason()) {
            auto served = co_await serve_parent(delay);
            if (end_.reason())
                break;
            if (!served)
                log_error(served.error());
            (void)co_await loop_.sleep(delay, &end_); // cut short: the loop ends
            delay = std::min(delay * 2, reconnect_delay_max);
        }
        // Answers that are still being made end with the connection they wait for.
        dat_.reset();
        co_return Result<>{};
    }

private:
    flux::Task<Result<>> connect_dat()
    {
        const char* uri = std::getenv("FLUX_URI");
        auto dat = co_await flux::Connection::open(loop_, uri ? uri : "");
        if (!dat)
            co_return std::unexpected(dat.error());
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
            if (!ranks.is_current())
                continue;
            ranks_up_ = ranks.count();
            if (parent_ && announced_ && record_.ranks_up != *ranks_up_)
                co_await update_record();
        }
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
        auto name = service_name(geteuid(), id_);
        auto served = co_await parent_->serve(
            name, [this](const flux::Message& request) { handle(request); });
        if (!served)
            co_return fail("cannot register the service {} in the parent: {}", name,
                           served.error().message);
        // A worker before this one may have got further than the file says.
        auto job = co_await flux::list_job(*parent_, id_);
        if (!job)
            co_return std::unexpected(job.error());
        nodelist_ = job->nodelist;
        if (auto known = dat_of(std::move(*job)))
            if (known->record.guests.generation >= record_.guests.generation
                && known->record.state != State::submitted)
                record_ = std::move(known->record);
        record_.service_name = name;
        record_.service_rank = *rank;
        if (record_.state == State::submitted) {
            record_.state = State::ready;
            record_.ranks_up = size_; // or this program would not run yet
        }
        announced_ = true;
        record_.applied = std::max(record_.applied, record_.guests.generation);
        co_return co_await post_record();
    }

    flux::Task<Result<>> post_record()
    {
        record_.ranks_up = ranks_up_.value_or(record_.ranks_up);
        co_return co_await dat::post_record(*parent_, id_, record_);
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

    // A `start` that was held up may post its first record after ours; ours is newer.
    flux::Task<Result<>> follow_record()
    {
        flux::EventlogWatch watch(*parent_, id_, "eventlog");
        bool posted_ours = false;
        while (true) {
            auto event = co_await watch.next(&end_);
            if (!event)
                co_return std::unexpected(event.error());
            if (!*event)
                co_return Result<>{};
            auto seen = record_in(**event);
            if (seen && seen->state != State::submitted)
                posted_ours = true;
            else if (seen && posted_ours)
                co_await update_record();
        }
    }

    void handle(const flux::Message& request)
    {
        bool instance_owner = request.rolemask & flux::role_owner;
        bool owner = instance_owner || request.userid == geteuid();
        bool manager = owner
                       || std::find(record_.managers.begin(), record_.managers.end(),
                                    request.userid)
                              != record_.managers.end();
        auto method = request.topic->substr(request.topic->find('.') + 1);
        if (method == "status") {
            if (!manager)
                return parent_->respond_error(
                    request, EPERM,
                    "the details of this DAT are for its owner and "
                    "managers");
            loop_.spawn(answer_status(request));
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
        } else if (method != "disconnect") {
            parent_->respond_error(
                request, ENOSYS,
                fmt::format("a DAT's supervisor has no method \"{}\"", method));
        }
    }

    // By rank. What the brokers call themselves (attribute hostlist) may be less than
    // what the parent calls its nodes.
    flux::Hostlist hosts() const
    {
        auto hosts = flux::parse_hostlist(nodelist_);
        flux::Hostlist list = hosts ? std::move(*hosts) : flux::Hostlist{};
        list.resize(size_);
        return list;
    }

    // The parent may be lost while an answer is being made.
    void respond(const flux::Message& request, const Json& answer)
    {
        if (parent_)
            parent_->respond(request, answer);
    }

    flux::Task<void> answer_status(flux::Message request)
    {
        auto ranks = co_await check_ranks(*dat_, hosts(), record_.guests);
        Json active{{"states", {"pending", "running"}}};
        auto jobs = co_await flux::list_jobs(*dat_, std::move(active));
        Json answer{{"ranks", Json::array()}};
        for (auto& rank : ranks)
            answer["ranks"].push_back(to_json(rank));
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
        record_.state = State::stopping;
        record_.stop_reason = "stopped by its owner";
        co_await update_record();
        respond(request, Json(nullptr));
        if (stopping_)
            co_return end_if_sooner(grace);
        stopping_ = true;
        end_if_sooner(grace);
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
        end_.raise({"stopped"});
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
    Record record_;
    flux::JobId id_ = 0;
    std::uint32_t size_ = 0;
    std::optional<std::uint32_t> ranks_up_; // once the DAT's broker has told
    std::string parent_uri_;
    std::unique_ptr<flux::Connection> dat_;
    std::unique_ptr<flux::Connection> parent_;
    std::string nodelist_;   // of the DAT's job in the parent, in the order of ranks
    bool announced_ = false; // the record here is the DAT's, not only the file's
    bool stopping_ = false;
    bool lost_dat_ = false;      // its rank 0 broker is gone
    flux::Interrupt end_;        // the DAT is to end, or has
    flux::Interrupt grace_over_; // while stopping
};

volatile std::sig_atomic_t ending_signal = 0;
volatile pid_t worker_pid = 0;

void pass_on(int signum)
{
    ending_signal = signum;
    if (worker_pid > 0)
        kill(worker_pid, signum);
}

// Runs the inner process to its end. No error: the DAT shall end.
Result<> run_worker(const std::string& program, const std::string& dat_file)
{
    pid_t pid = fork();
    if (pid < 0)
        return fail_errno(errno, "cannot fork");
    if (pid == 0) {
        execl(program.c_str(), program.c_str(), "supervise", "--worker",
              dat_file.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    worker_pid = pid;
    if (ending_signal) // it came too early to be passed on
        kill(pid, SIGTERM);
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
    }
    int errnum = errno;
    worker_pid = 0;
    if (ended < 0)
        return fail_errno(errnum, "cannot wait for the worker");
    if (WIFSIGNALED(status))
        return fail("the worker ended (signal {})", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return fail("the worker ended (status {})", WEXITSTATUS(status));
    return {};
}

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

int supervise(const std::string& program, const std::string& dat_file)
{
    struct sigaction action {
    };
    action.sa_handler = pass_on;
    for (int signum : {SIGTERM, SIGHUP, SIGINT})
        sigaction(signum, &action, nullptr);
    double delay = restart_delay_min;
    while (!ending_signal) {
        auto ended = run_worker(program, dat_file);
        if (ended)
            return 0;
        if (ending_signal)
            break;
        log_error({fmt::format("{}; again in {} s", ended.error().message, delay)});
        usleep(static_cast<useconds_t>(delay * 1e6)); // until a signal comes
        delay = std::min(delay * 2, restart_delay_max);
    }
    return 0;
}

} // namespace fluxdat::dat
