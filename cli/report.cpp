// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat report: what DATs that were, and are, were used for.
#include "cli/command.h"
#include "lib/clock.h"
#include "lib/dat/csv.h"
#include "lib/dat/review.h"
#include "lib/flux/datetime.h"
#include "lib/flux/fsd.h"
#include "lib/harmless.h"
#include "lib/say.h"

#include <algorithm>

namespace fluxdat::cli {

namespace {

constexpr const char* since_default = "30d";
constexpr double hour = 3600;

// An FSD, so long ago, or a point of time as --begin-time takes it.
Result<double> parse_since(const std::string& text, double now)
{
    bool later = text.starts_with('+');
    if (auto ago = flux::parse_fsd(text); ago && !later)
        // A large number is seconds since the epoch: nobody means 50 years by it.
        if (text.find_first_not_of("0123456789.") != text.npos || *ago < 1e9)
            return std::max(0.0, now - *ago);
    auto when = later ? Result<double>(std::unexpected(Error{}))
                      : flux::parse_begin_time(text, now);
    if (!when)
        return fail(Exit::usage,
                    "--since {}: expected an FSD, as 7d, or a day or time, as "
                    "2026-11-30, \"2026-11-30 18:00\" or today",
                    harmless(text));
    return when;
}

std::string state_of(const dat::Reviewed& reviewed)
{
    return std::string(reviewed.dat.phase());
}

double end_of(const dat::Reviewed& reviewed)
{
    auto& job = reviewed.dat.job;
    return job.state == flux::job_state_inactive ? job.t_inactive : 0;
}

std::string hours(double seconds)
{
    return fmt::format("{:.2f}", seconds / hour);
}

// "timeout: resource allocation expired"
std::string exception_of(const dat::Reviewed& reviewed)
{
    auto& job = reviewed.dat.job;
    if (job.exception_type.empty())
        return {};
    return harmless(job.exception_note.empty()
                        ? job.exception_type
                        : job.exception_type + ": " + job.exception_note);
}

Json usage_json(const dat::Usage& usage)
{
    return {{"jobs", usage.jobs},
            {"failed", usage.failed},
            {"canceled", usage.canceled},
            {"timeout", usage.timeout},
            {"node_seconds", usage.node_seconds},
            {"core_seconds", usage.core_seconds}};
}

Json report_json(const dat::Report& report)
{
    Json users = Json::array();
    for (auto& [userid, usage] : report.users) {
        users.push_back(usage_json(usage));
        users.back()["userid"] = userid;
        users.back()["user"] = user_name(userid);
    }
    Json others = usage_json(report.others);
    others["users"] = report.other_users;
    return {{"as_of", report.as_of},
            {"final", report.final},
            {"total", usage_json(report.total())},
            {"users", std::move(users)},
            {"others", std::move(others)}};
}

Json describe(const dat::Reviewed& reviewed)
{
    auto& job = reviewed.dat.job;
    Json exception = nullptr;
    if (!job.exception_type.empty())
        exception = {{"type", job.exception_type}, {"note", job.exception_note}};
    Json missing = nullptr;
    if (!reviewed.missing.empty())
        missing = reviewed.missing;
    return {
        {"name", reviewed.dat.record.name},
        {"id", flux::format_jobid(job.id)},
        {"jobid", job.id},
        {"owner", user_name(job.userid)},
        {"userid", job.userid},
        {"state", state_of(reviewed)},
        {"nnodes", job.nnodes},
        {"nodelist", job.nodelist},
        {"asked", {{"begin", reviewed.begin_asked}, {"duration", job.duration}}},
        {"got",
         {{"begin", job.t_run}, {"end", end_of(reviewed)}, {"duration", reviewed.got}}},
        {"exception", std::move(exception)},
        {"changes", reviewed.changes},
        {"report", reviewed.report ? report_json(*reviewed.report) : Json(nullptr)},
        {"missing", std::move(missing)}};
}

void print_usage(const std::string& who, const dat::Usage& usage)
{
    say(stdout, "  {:<16} {:>7} {:>7} {:>12} {:>12}\n", who, usage.jobs,
        usage.failed + usage.timeout, hours(usage.node_seconds),
        hours(usage.core_seconds));
}

void print_one(const dat::Reviewed& reviewed)
{
    auto& job = reviewed.dat.job;
    say(stdout, "{} {} {}\n", reviewed.dat.record.name, flux::format_jobid(job.id),
        state_of(reviewed));
    say(stdout, "  asked: from {}, {}\n", flux::format_local_time(reviewed.begin_asked),
        job.duration > 0 ? flux::format_fsd(job.duration) : "no limit");
    if (job.t_run > 0)
        say(stdout, "  got:   from {}, {} on {} node{}{}\n",
            flux::format_local_time(job.t_run), flux::format_fsd(reviewed.got),
            job.nnodes, job.nnodes == 1 ? "" : "s",
            end_of(reviewed) > 0 ? "" : " so far");
    if (auto why = exception_of(reviewed); !why.empty())
        say(stdout, "  ended: {}\n", why);
    if (reviewed.changes.is_array() && reviewed.changes.size() > 1)
        say(stdout,
            "  guest list: changed {} times (flux-dat status --dat {} "
            "--history)\n",
            reviewed.changes.size() - 1, flux::format_jobid_ascii(job.id));
    if (auto& report = reviewed.report) {
        say(stdout, "  {:<16} {:>7} {:>7} {:>12} {:>12}\n", "USER", "JOBS", "FAILED",
            "NODE-HOURS", "CORE-HOURS");
        for (auto& [userid, usage] : report->users)
            print_usage(harmless(user_name(userid)), usage);
        if (report->other_users > 0)
            print_usage(fmt::format("{} others", report->other_users), report->others);
        print_usage("total", report->total());
        if (!report->final)
            say(stdout, "  as of {}\n", flux::format_local_time(report->as_of));
    }
    if (!reviewed.missing.empty())
        say(stdout, "  missing: {}\n", reviewed.missing);
}

std::string csv_row(const dat::Reviewed& reviewed, const std::string& user,
                    const dat::Usage& usage)
{
    auto& job = reviewed.dat.job;
    auto time = [](double when) {
        return when > 0 ? flux::format_local_time(when) : std::string();
    };
    return dat::csv_line(
        {reviewed.dat.record.name,
         flux::format_jobid_ascii(job.id),
         user_name(job.userid),
         state_of(reviewed),
         time(reviewed.begin_asked),
         hours(job.duration),
         time(job.t_run),
         time(end_of(reviewed)),
         hours(reviewed.got),
         std::to_string(job.nnodes),
         user,
         std::to_string(usage.jobs),
         std::to_string(usage.failed),
         std::to_string(usage.canceled),
         std::to_string(usage.timeout),
         hours(usage.node_seconds),
         hours(usage.core_seconds),
         reviewed.report ? time(reviewed.report->as_of) : std::string(),
         exception_of(reviewed),
         reviewed.missing});
}

void print_csv(const std::vector<dat::Reviewed>& all)
{
    auto out = dat::csv_line({"name",        "id",          "owner",     "state",
                              "asked_begin", "asked_hours", "begin",     "end",
                              "got_hours",   "nodes",       "user",      "jobs",
                              "failed",      "canceled",    "timeout",   "node_hours",
                              "core_hours",  "as_of",       "exception", "missing"});
    for (auto& reviewed : all) {
        auto& report = reviewed.report;
        if (!report || report->users.empty())
            out += csv_row(reviewed, "", {});
        if (!report)
            continue;
        for (auto& [userid, usage] : report->users)
            out += csv_row(reviewed, user_name(userid), usage);
        if (report->other_users > 0)
            out += csv_row(reviewed, "(others)", report->others);
    }
    put(stdout, out);
}

struct ReportCommand {
    Common common;
    std::optional<std::string> selector;
    std::string since = since_default;
    bool csv = false;

    flux::Task<Result<std::vector<dat::Reviewed>>> ask(flux::Loop& loop, double from,
                                                       double now)
    {
        auto parent = co_await connect_parent(loop);
        if (!parent)
            co_return std::unexpected(parent.error());
        auto found = co_await dat::review(**parent, selector, from, now);
        if (found && found->empty() && selector)
            co_return fail(Exit::no_such_dat,
                           "there is no DAT \"{}\" that ended since {}, nor is there "
                           "one now (--since goes back further)",
                           harmless(*selector), flux::format_local_time(from));
        co_return found;
    }

    int run()
    {
        double now = wall_clock();
        auto from = parse_since(since, now);
        if (!from)
            return common.report(from.error());
        flux::Loop loop;
        auto found = loop.run(ask(loop, *from, now));
        if (!found)
            return common.report(found.error());
        if (common.json) {
            Json dats = Json::array();
            for (auto& reviewed : *found)
                dats.push_back(describe(reviewed));
            print_json({{"version", 1}, {"since", *from}, {"dats", std::move(dats)}});
        } else if (csv) {
            print_csv(*found);
        } else {
            for (auto& reviewed : *found)
                print_one(reviewed);
            if (found->empty())
                common.note(fmt::format("there is no DAT now, and none ended since {}",
                                        flux::format_local_time(*from)));
        }
        return finish(common, 0);
    }
};

} // namespace

void add_report(CLI::App& app, Chosen& chosen)
{
    auto report = std::make_shared<ReportCommand>();
    auto* command = add_command(app, report->common, "report",
                                "What DATs were used for: windows, jobs, node-hours");
    add_dat_option(*command, report->selector);
    command
        ->add_option("--since", report->since,
                     "Those that ended since then, or so long ago (default 30d)")
        ->type_name("FSD|TIME");
    auto* csv = command->add_flag("--csv", report->csv,
                                  "As comma-separated values, a line for each user");
    csv->excludes(command->get_option("--json"));
    command->callback(
        [report, &chosen] { chosen = [report] { return report->run(); }; });
}

} // namespace fluxdat::cli
