// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat report: what DATs that were, and are, were used for.
#include "cli/command.h"
#include "cli/dat_fields.h"
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

Json report_json(const dat::Report& report)
{
    auto json = dat::to_json(report);
    json.erase("version"); // the memo's
    json["total"] = dat::to_json(report.total());
    for (auto& user : json["users"])
        user["user"] = user_name(flux::integer_at<uid_t>(user, "userid"));
    return json;
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
    return {{"name", reviewed.dat.record.name},
            {"id", flux::format_jobid(job.id)},
            {"jobid", job.id},
            {"owner", user_name(job.userid)},
            {"userid", job.userid},
            {"state", state_of(reviewed)},
            {"nnodes", job.nnodes},
            {"nodelist", job.nodelist},
            {"asked",
             {{"begin", reviewed.asked.begin}, {"duration", reviewed.asked.duration}}},
            {"got",
             {{"begin", job.t_run},
              {"end", end_of(reviewed)},
              {"duration", reviewed.got},
              {"node_seconds", reviewed.node_seconds()}}},
            {"exception", std::move(exception)},
            {"changes", reviewed.changes},
            {"report", reviewed.report ? report_json(*reviewed.report) : Json(nullptr)},
            {"missing", std::move(missing)}};
}

constexpr const char* usage_line = "  {:<16} {:>7} {:>7} {:>8} {:>12} {:>12}\n";

void print_usage(const std::string& who, const dat::Usage& usage)
{
    say(stdout, usage_line, who, usage.jobs, usage.failed + usage.timeout,
        usage.canceled, hours(usage.node_seconds), hours(usage.core_seconds));
}

void print_one(const dat::Reviewed& reviewed)
{
    auto& job = reviewed.dat.job;
    say(stdout, "{} {} of {}, {}\n", reviewed.dat.record.name,
        flux::format_jobid(job.id), harmless(user_name(job.userid)),
        state_of(reviewed));
    say(stdout, "  asked: from {}, {}\n", flux::format_datetime(reviewed.asked.begin),
        reviewed.asked.duration > 0 ? human_duration(reviewed.asked.duration)
                                    : "no limit");
    if (job.t_run > 0)
        say(stdout, "  got:   from {}, {} on {}, {} node-hours{}\n",
            flux::format_datetime(job.t_run), human_duration(reviewed.got),
            plural(job.nnodes, "node"), hours(reviewed.node_seconds()),
            end_of(reviewed) > 0 ? "" : " so far");
    if (auto why = exception_of(reviewed); !why.empty())
        say(stdout, "  ended: {}\n", why);
    if (reviewed.changes.is_array() && reviewed.changes.size() > 1)
        say(stdout, "  guest list: changed {} (flux-dat status --dat {} --history)\n",
            plural(reviewed.changes.size() - 1, "time"),
            flux::format_jobid_ascii(job.id));
    if (auto& report = reviewed.report) {
        say(stdout, usage_line, "USER", "JOBS", "FAILED", "CANCELED", "NODE-HOURS",
            "CORE-HOURS");
        for (auto& [userid, usage] : report->users)
            print_usage(harmless(user_name(userid)), usage);
        if (report->other_users > 0)
            print_usage(fmt::format("{} others", report->other_users), report->others);
        print_usage("total", report->total());
        if (!report->final)
            say(stdout, "  as of {}\n", flux::format_datetime(report->as_of));
    }
    if (!reviewed.missing.empty())
        say(stdout, "  missing: {}\n", reviewed.missing);
}

// A line of the CSV: a user's usage of a DAT, or a DAT that has none.
struct CsvRow {
    const dat::Reviewed& of;
    std::string user;
    dat::Usage usage;
};

struct CsvColumn {
    const char* name;
    std::string (*text)(const CsvRow& row);
};

std::string csv_time(double when)
{
    return when > 0 ? flux::format_local_time(when) : std::string();
}

const CsvColumn csv_columns[] = {
    {"name", [](const CsvRow& row) { return row.of.dat.record.name; }},
    {"id",
     [](const CsvRow& row) { return flux::format_jobid_ascii(row.of.dat.job.id); }},
    {"owner", [](const CsvRow& row) { return user_name(row.of.dat.job.userid); }},
    {"state", [](const CsvRow& row) { return state_of(row.of); }},
    {"asked_begin", [](const CsvRow& row) { return csv_time(row.of.asked.begin); }},
    {"asked_hours", [](const CsvRow& row) { return hours(row.of.asked.duration); }},
    {"begin", [](const CsvRow& row) { return csv_time(row.of.dat.job.t_run); }},
    {"end", [](const CsvRow& row) { return csv_time(end_of(row.of)); }},
    {"got_hours", [](const CsvRow& row) { return hours(row.of.got); }},
    {"nodes", [](const CsvRow& row) { return std::to_string(row.of.dat.job.nnodes); }},
    {"user", [](const CsvRow& row) { return row.user; }},
    {"jobs", [](const CsvRow& row) { return std::to_string(row.usage.jobs); }},
    {"failed", [](const CsvRow& row) { return std::to_string(row.usage.failed); }},
    {"canceled", [](const CsvRow& row) { return std::to_string(row.usage.canceled); }},
    {"timeout", [](const CsvRow& row) { return std::to_string(row.usage.timeout); }},
    {"node_hours", [](const CsvRow& row) { return hours(row.usage.node_seconds); }},
    {"core_hours", [](const CsvRow& row) { return hours(row.usage.core_seconds); }},
    {"as_of",
     [](const CsvRow& row) {
         return row.of.report ? csv_time(row.of.report->as_of) : std::string();
     }},
    {"exception", [](const CsvRow& row) { return exception_of(row.of); }},
    {"missing", [](const CsvRow& row) { return row.of.missing; }},
    {"reserved_node_hours",
     [](const CsvRow& row) { return hours(row.of.node_seconds()); }},
};

std::string csv_line(const CsvRow& row)
{
    std::vector<std::string> fields;
    for (auto& column : csv_columns)
        fields.push_back(column.text(row));
    return dat::csv_line(fields);
}

void print_csv(const std::vector<dat::Reviewed>& all)
{
    std::vector<std::string> names;
    for (auto& column : csv_columns)
        names.emplace_back(column.name);
    auto out = dat::csv_line(names);
    for (auto& reviewed : all) {
        auto& report = reviewed.report;
        if (!report || report->users.empty())
            out += csv_line({reviewed, "", {}});
        if (!report)
            continue;
        for (auto& [userid, usage] : report->users)
            out += csv_line({reviewed, user_name(userid), usage});
        if (report->other_users > 0)
            out += csv_line({reviewed, "(others)", report->others});
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
