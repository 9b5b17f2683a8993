// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/run.h"

#include "lib/dat/input.h"
#include "lib/dat/start.h"
#include "lib/flux/text.h"
#include "lib/imp/base64.h"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// The highest urgency that a guest may give is the default.
constexpr int urgency = 16;
// A job that gets its nodes at once has them long before.
constexpr double waiting_moment = 1; // seconds

int exit_status(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return 128 + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

// A job that was submitted, until its end. Its flows run side by side, each giving a
// JobEnd, of which that of follow_job() counts.
class FollowedJob
{
public:
    FollowedJob(flux::Loop& loop, flux::Connection& dat, flux::JobId id,
                flux::Interrupt& interrupt, const RunEvents& events)
        : loop_(loop), dat_(dat), id_(id), interrupt_(interrupt), events_(events)
    {
    }

    flux::Task<Result<JobEnd>> follow()
    {
        std::vector<flux::Task<Result<JobEnd>>> flows;
        flows.push_back(follow_job());
        flows.push_back(follow_output());
        flows.push_back(tell_of_waiting());
        auto results = co_await flux::when_all(std::move(flows));
        if (output_error_)
            co_return std::unexpected(*output_error_);
        for (auto& result : results)
            if (!result)
                co_return std::unexpected(result.error());
        co_return std::move(results[0]);
    }

private:
    flux::Task<Result<JobEnd>> follow_job()
    {
        auto end = co_await follow_eventlog();
        allocated_.raise({"the job has ended"});
        over_.raise({"the job has ended"});
        co_return end;
    }

    // Follows the job's main eventlog to its end, and passes interrupts on to it.
    flux::Task<Result<JobEnd>> follow_eventlog()
    {
        flux::EventlogWatch watch(dat_, id_, "eventlog");
        JobEnd end;
        end.id = id_;
        bool signalled = false;
        while (true) {
            auto event = co_await watch.next(&interrupt_);
            if (!event && interrupt_.reason()) {
                interrupt_.clear();
                // A job that has no processes yet cannot take a signal.
                Result<> sent;
                if (!signalled)
                    sent = co_await flux::kill(dat_, id_, SIGINT);
                if (signalled || !sent)
                    (void)co_await flux::raise(dat_, id_, "cancel", 0, "interrupted");
                signalled = true;
                continue;
            }
            if (!event)
                co_return std::unexpected(event.error());
            if (!*event || (*event)->name == "clean")
                co_return end;
            auto& context = (*event)->context;
            if ((*event)->name == "alloc")
                allocated_.raise({"the job has its nodes"});
            if ((*event)->name == "finish")
                end.exit_status = exit_status(flux::integer_at<int>(context, "status"));
            if ((*event)->name != "exception")
                continue;
            auto note = flux::text_at(context, "note");
            auto text = fmt::format("job {}: {}{}{}", flux::format_jobid(id_),
                                    flux::text_at(context, "type", "exception"),
                                    note.empty() ? "" : ": ", note);
            // What is not fatal is for the job's user to know: a DAT that ends soon.
            if (flux::integer_at<int>(context, "severity", 1) != 0)
                events_.notice(text);
            else if (!end.exception)
                end.exception = Error{std::move(text)};
        }
    }

    flux::Task<Result<JobEnd>> tell_of_waiting()
    {
        auto waited = co_await loop_.sleep(waiting_moment, &allocated_);
        if (waited)
            events_.waiting(id_);
        co_return JobEnd{};
    }

    flux::Task<Result<JobEnd>> follow_output()
    {
        // Before the job shells are up there is no output to watch (ENOENT, from the
        // job's start on), and a job that ends before that never has any.
        flux::EventlogWatch shells(dat_, id_, "guest.exec.eventlog");
        Json init;
        while (init.is_null()) {
            auto event = co_await shells.next();
            if (!event || !*event)
                co_return JobEnd{};
            co_await tell_log(**event);
            if ((*event)->name == "shell.init")
                init =
                    (*event)->context.is_object() ? (*event)->context : Json::object();
        }
        std::vector<flux::Task<Result<JobEnd>>> flows;
        flows.push_back(follow_log(shells));
        flows.push_back(follow_tasks());
        flows.push_back(feed(flux::text_at(init, "service") + ".stdin",
                             flux::integer_at<std::uint32_t>(init, "leader-rank")));
        auto results = co_await flux::when_all(std::move(flows));
        co_return std::move(results[1]);
    }

    flux::Task<Result<JobEnd>> follow_log(flux::EventlogWatch& shells)
    {
        while (true) {
            auto event = co_await shells.next();
            if (!event || !*event)
                co_return JobEnd{};
            co_await tell_log(**event);
        }
    }

    // What the IMP says, of each rank, and a job shell that is not connected yet: why a
    // job was refused stands nowhere else. As flux-job-attach(1) shows it.
    flux::Task<void> tell_log(const flux::Event& event)
    {
        auto data = flux::output_data(event.context);
        if (event.name != "log" || !data || data->empty())
            co_return;
        if (data->back() == '\n')
            data->pop_back();
        auto line =
            fmt::format("{}[{}]: {}: {}\n", flux::text_at(event.context, "component"),
                        flux::text_at(event.context, "rank"),
                        flux::text_at(event.context, "stream"), *data);
        std::string stream = "stderr", rank;
        co_await output(stream, rank, line);
    }

    flux::Task<Result<JobEnd>> follow_tasks()
    {
        flux::EventlogWatch watch(dat_, id_, "guest.output");
        while (true) {
            auto event = co_await watch.next();
            if (!event)
                co_return std::unexpected(event.error());
            if (!*event)
                co_return JobEnd{};
            auto& context = (*event)->context;
            // The job shell's own words.
            if ((*event)->name == "log" && !output_error_)
                events_.notice(flux::text_at(context, "message"));
            if ((*event)->name != "data" || !context.is_object()
                || !context.contains("data"))
                continue;
            auto data = flux::output_data(context);
            if (!data)
                co_return std::unexpected(data.error());
            auto stream = flux::text_at(context, "stream");
            auto rank = flux::text_at(context, "rank");
            co_await output(stream, rank, *data);
        }
    }

    // Nobody takes the output any more: nobody wants the job, which might go on for
    // ever.
    flux::Task<void> output(const std::string& stream, const std::string& rank,
                            const std::string& data)
    {
        if (output_error_)
            co_return;
        auto written = events_.output(stream, rank, data);
        if (written)
            co_return;
        output_error_ = std::move(written.error());
        (void)co_await flux::raise(dat_, id_, "cancel", 0, output_error_->message);
    }

    // Standard input, for all tasks, and its end: requests to the job shell. Each waits
    // for the answer to the one before, so that no more is read than the job takes.
    flux::Task<Result<JobEnd>> feed(std::string topic, std::uint32_t rank)
    {
        Input input(loop_, STDIN_FILENO);
        for (bool eof = false; !eof;) {
            auto bytes = co_await input.read(over_);
            if (!bytes && over_.reason())
                break;
            if (!bytes)
                events_.notice(bytes.error().message);
            eof = !bytes || bytes->empty();
            Json io{{"stream", "stdin"}, {"rank", "all"}};
            if (eof) {
                io["eof"] = true;
            } else if (flux::valid_utf8(*bytes) && bytes->find('\0') == bytes->npos) {
                io["data"] = std::move(*bytes);
            } else {
                io["encoding"] = "base64";
                io["data"] = imp::base64_encode(*bytes);
            }
            // A job that is ending takes none, and that is no fault.
            auto taken = co_await dat_.rpc(topic, std::move(io), rank, &over_);
            if (!taken)
                break;
        }
        co_return JobEnd{};
    }

    flux::Loop& loop_;
    flux::Connection& dat_;
    flux::JobId id_;
    flux::Interrupt& interrupt_;
    const RunEvents& events_;
    flux::Interrupt allocated_, over_;
    std::optional<Error> output_error_;
};

} // namespace

flux::Task<Result<JobEnd>> run_job(flux::Loop& loop, flux::Connection& dat,
                                   const Json& jobspec, flux::Interrupt& interrupt,
                                   const RunEvents& events)
{
    auto J = co_await sign_for(dat, jobspec);
    if (!J)
        co_return std::unexpected(J.error());
    if (interrupt.reason())
        co_return std::unexpected(*interrupt.reason());
    auto id = co_await flux::submit(dat, std::move(*J), urgency);
    if (!id)
        co_return std::unexpected(id.error());
    FollowedJob job(loop, dat, *id, interrupt, events);
    co_return co_await job.follow();
}

} // namespace fluxdat::dat
