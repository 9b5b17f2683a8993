// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/run.h"

#include "lib/dat/start.h"

#include <csignal>
#include <sys/wait.h>

namespace fluxdat::dat {

namespace {

// The highest urgency that a guest may give is the default.
constexpr int urgency = 16;

int exit_status(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return 128 + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

// Follows the job's main eventlog to its end, and passes interrupts on to it.
flux::Task<Result<JobEnd>> follow_job(flux::Connection& dat, flux::JobId id,
                                      flux::Interrupt& interrupt, OnOutput& output)
{
    flux::EventlogWatch watch(dat, id, "eventlog");
    JobEnd end;
    end.id = id;
    bool signalled = false;
    while (true) {
        auto event = co_await watch.next(&interrupt);
        if (!event && interrupt.reason()) {
            interrupt.clear();
            // A job that has no processes yet cannot take a signal.
            Result<> sent;
            if (!signalled)
                sent = co_await flux::kill(dat, id, SIGINT);
            if (signalled || !sent)
                (void)co_await flux::raise(dat, id, "cancel", 0, "interrupted");
            signalled = true;
            continue;
        }
        if (!event)
            co_return std::unexpected(event.error());
        if (!*event || (*event)->name == "clean")
            co_return end;
        auto& context = (*event)->context;
        if ((*event)->name == "finish")
            end.exit_status = exit_status(flux::integer_at<int>(context, "status"));
        if ((*event)->name != "exception")
            continue;
        auto note = flux::text_at(context, "note");
        auto text = fmt::format("job {}: {}{}{}", flux::format_jobid(id),
                                flux::text_at(context, "type", "exception"),
                                note.empty() ? "" : ": ", note);
        // What is not fatal is for the job's user to know: a DAT that ends soon.
        if (flux::integer_at<int>(context, "severity", 1) != 0)
            output("stderr", "", text + "\n");
        else if (!end.exception)
            end.exception = Error{std::move(text)};
    }
}

// What the IMP says, of each rank, and a job shell that is not connected yet: why a job
// was refused stands nowhere else. As flux-job-attach(1) shows it.
void tell_log(const flux::Event& event, OnOutput& output)
{
    auto data = flux::output_data(event.context);
    if (event.name != "log" || !data || data->empty())
        return;
    if (data->back() == '\n')
        data->pop_back();
    output("stderr", "",
           fmt::format("{}[{}]: {}: {}\n", flux::text_at(event.context, "component"),
                       flux::text_at(event.context, "rank"),
                       flux::text_at(event.context, "stream"), *data));
}

flux::Task<Result<JobEnd>> follow_log(flux::EventlogWatch& shells, OnOutput& output)
{
    while (true) {
        auto event = co_await shells.next();
        if (!event || !*event)
            co_return JobEnd{};
        tell_log(**event, output);
    }
}

flux::Task<Result<JobEnd>> follow_tasks(flux::Connection& dat, flux::JobId id,
                                        OnOutput& output)
{
    flux::EventlogWatch watch(dat, id, "guest.output");
    while (true) {
        auto event = co_await watch.next();
        if (!event)
            co_return std::unexpected(event.error());
        if (!*event)
            co_return JobEnd{};
        auto& context = (*event)->context;
        if ((*event)->name == "log") { // the job shell's own words
            output("stderr", "", flux::text_at(context, "message") + "\n");
            continue;
        }
        if ((*event)->name != "data" || !context.is_object()
            || !context.contains("data"))
            continue;
        auto data = flux::output_data(context);
        if (!data)
            co_return std::unexpected(data.error());
        output(flux::text_at(context, "stream"), flux::text_at(context, "rank"), *data);
    }
}

flux::Task<Result<JobEnd>> follow_output(flux::Connection& dat, flux::JobId id,
                                         OnOutput& output)
{
    // Before the job shells are up there is no output to watch (ENOENT), and a job that
    // ends before that never has any.
    flux::EventlogWatch shells(dat, id, "guest.exec.eventlog");
    while (true) {
        auto event = co_await shells.next();
        if (!event || !*event)
            co_return JobEnd{};
        tell_log(**event, output);
        if ((*event)->name == "shell.init")
            break;
    }
    std::vector<flux::Task<Result<JobEnd>>> both;
    both.push_back(follow_log(shells, output));
    both.push_back(follow_tasks(dat, id, output));
    auto results = co_await flux::when_all(std::move(both));
    co_return std::move(results[1]);
}

} // namespace

flux::Task<Result<JobEnd>> run_job(flux::Connection& dat, const Json& jobspec,
                                   flux::Interrupt& interrupt, OnOutput output)
{
    auto J = co_await sign_for(dat, jobspec);
    if (!J)
        co_return std::unexpected(J.error());
    if (interrupt.reason())
        co_return std::unexpected(*interrupt.reason());
    auto id = co_await flux::submit(dat, std::move(*J), urgency);
    if (!id)
        co_return std::unexpected(id.error());
    std::vector<flux::Task<Result<JobEnd>>> both;
    both.push_back(follow_job(dat, *id, interrupt, output));
    both.push_back(follow_output(dat, *id, output));
    auto results = co_await flux::when_all(std::move(both));
    for (auto& result : results)
        if (!result)
            co_return std::unexpected(result.error());
    co_return std::move(*results[0]);
}

} // namespace fluxdat::dat
