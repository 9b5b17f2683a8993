// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/dat_fields.h"

#include "lib/accounts.h"
#include "lib/harmless.h"

#include <algorithm>
#include <cmath>

namespace fluxdat::cli {

namespace {

using ValueOf = Value (*)(const dat::Dat& dat, double now);

struct Field {
    FieldName name;
    ValueOf value;
};

Value text(std::string value)
{
    return {harmless(value)};
}

Value number(double value)
{
    bool whole = value == std::floor(value) && std::abs(value) < 1e15;
    return {fmt::format("{:.{}f}", value, whole ? 0 : 3), value};
}

// An id of 64 bits is more than a double holds.
Value whole_number(std::uint64_t value)
{
    return {std::to_string(value), static_cast<double>(value)};
}

std::string guests_in_short(const perms::GuestList& guests)
{
    if (guests.open)
        return "everybody";
    std::string out;
    if (!guests.users.empty())
        out = plural(guests.users.size(), "user");
    if (!guests.groups.empty())
        out += (out.empty() ? "" : ", ") + plural(guests.groups.size(), "group");
    return out.empty() ? "nobody" : out;
}

const std::vector<Field>& all_fields()
{
    using dat::Dat;
    static const std::vector<Field> fields{
        {{"name", "NAME", "what it is called"},
         [](const Dat& dat, double) { return text(dat.record.name); }},
        {{"id", "ID", "its job id, as id.f58"},
         [](const Dat& dat, double) { return text(flux::format_jobid(dat.job.id)); }},
        {{"id.f58", "ID", "its job id in base 58"},
         [](const Dat& dat, double) { return text(flux::format_jobid(dat.job.id)); }},
        {{"id.f58plain", "ID", "its job id in base 58, in ASCII"},
         [](const Dat& dat, double) {
             return text(flux::format_jobid_ascii(dat.job.id));
         }},
        {{"id.dec", "ID", "its job id as a number", true},
         [](const Dat& dat, double) { return whole_number(dat.job.id); }},
        {{"id.hex", "ID", "its job id in base 16"},
         [](const Dat& dat, double) {
             return text(fmt::format("{:#x}", std::uint64_t{dat.job.id}));
         }},
        {{"owner", "OWNER", "whose it is"},
         [](const Dat& dat, double) { return text(user_name(dat.job.userid)); }},
        {{"userid", "UID", "the owner's uid", true},
         [](const Dat& dat, double) { return whole_number(dat.job.userid); }},
        {{"state", "STATE", "pending, starting, ready, degraded or stopping"},
         [](const Dat& dat, double) {
             return text(dat.degraded() ? "degraded" : std::string(dat.phase()));
         }},
        {{"status", "STATE", "the state, with ranks that are down and a begin time"},
         [](const Dat& dat, double now) { return text(state_in_short(dat, now)); }},
        {{"nnodes", "NODES", "how many nodes", true},
         [](const Dat& dat, double) { return whole_number(dat.job.nnodes); }},
        {{"ranks_up", "UP", "how many of its ranks are up", true},
         [](const Dat& dat, double) { return whole_number(dat.record.ranks_up); }},
        {{"nodelist", "NODELIST", "the nodes"},
         [](const Dat& dat, double) { return text(dat.job.nodelist); }},
        {{"ranks", "RANKS", "their ranks in the parent"},
         [](const Dat& dat, double) { return text(dat.job.ranks); }},
        {{"left", "LEFT", "time until its end, for people"},
         [](const Dat& dat, double now) { return text(time_left(dat.job, now)); }},
        {{"remaining", "REMAINING", "seconds until its end; 0: without end", true},
         [](const Dat& dat, double now) {
             return number(
                 dat.job.expiration > 0 ? std::max(0.0, dat.job.expiration - now) : 0);
         }},
        {{"t_submit", "T_SUBMIT", "when it was submitted; seconds since the epoch",
          true},
         [](const Dat& dat, double) { return number(dat.job.t_submit); }},
        {{"begin_time", "BEGIN", "not before this; of one that waits for it", true},
         [](const Dat& dat, double) { return number(dat.job.begin_time()); }},
        {{"t_run", "T_RUN", "when it began", true},
         [](const Dat& dat, double) { return number(dat.job.t_run); }},
        {{"duration", "DURATION", "how long it lasts, in seconds", true},
         [](const Dat& dat, double) { return number(dat.job.duration); }},
        {{"expiration", "EXPIRATION", "when it ends", true},
         [](const Dat& dat, double) { return number(dat.job.expiration); }},
        {{"guests", "GUESTS", "who is let in, in short"},
         [](const Dat& dat, double) {
             return text(guests_in_short(dat.record.guests));
         }},
        {{"users", "USERS", "the users on the guest list"},
         [](const Dat& dat, double) {
             return text(join(names_of(dat.record.guests.users, user_name), ","));
         }},
        {{"groups", "GROUPS", "the groups on it"},
         [](const Dat& dat, double) {
             return text(join(names_of(dat.record.guests.groups, group_name), ","));
         }},
        {{"managers", "MANAGERS", "who may change it besides the owner"},
         [](const Dat& dat, double) {
             return text(join(names_of(dat.record.managers, user_name), ","));
         }},
        {{"generation", "GEN", "of the guest list", true},
         [](const Dat& dat, double) {
             return whole_number(dat.record.guests.generation);
         }},
        {{"applied", "APPLIED", "the generation that all ranks have", true},
         [](const Dat& dat, double) { return whole_number(dat.record.applied); }},
        {{"uri", "URI", "of its first rank's broker"},
         [](const Dat& dat, double) { return text(dat.uri()); }},
    };
    return fields;
}

} // namespace

const std::vector<FieldName>& dat_fields()
{
    static const std::vector<FieldName> names = [] {
        std::vector<FieldName> out;
        for (auto& field : all_fields())
            out.push_back(field.name);
        return out;
    }();
    return names;
}

Value dat_field(const dat::Dat& dat, std::size_t field, double now)
{
    return all_fields()[field].value(dat, now);
}

std::vector<std::string> help_of_fields()
{
    std::vector<std::string> lines{"Fields of -o, as in \"{name:<12} {left:>8}\":", ""};
    for (auto& field : dat_fields())
        lines.push_back(fmt::format("  {:<12} {}", field.name, field.about));
    return lines;
}

std::vector<std::string> dat_table(const std::vector<dat::Dat>& dats, double now,
                                   bool with_header, const Screen& screen)
{
    std::vector<Column> columns{{"NAME", 6, 0},  {"ID", 0, 3},    {"OWNER", 6, 6},
                                {"STATE", 8, 0}, {"NODES", 0, 5}, {"NODELIST", 9, 2},
                                {"LEFT", 0, 1},  {"GUESTS", 8, 4}};
    std::vector<Row> rows;
    for (auto& dat : dats)
        rows.push_back({{dat.record.name, Hue::strong},
                        {flux::format_jobid(dat.job.id)},
                        {user_name(dat.job.userid)},
                        {state_in_short(dat, now), hue_of_state(dat)},
                        {std::to_string(dat.job.nnodes)},
                        {or_dash(dat.job.nodelist)},
                        {time_left(dat.job, now)},
                        {guests_in_short(dat.record.guests)}});
    return table_lines(std::move(columns), std::move(rows), with_header, screen);
}

// Its queues are closed (--close), and what runs goes on; no SIGTERM yet, and no stop.
static bool only_closed(const dat::Dat& dat)
{
    auto& window = dat.record.window;
    return dat.phase() == "stopping" && dat.job.state != flux::job_state_cleanup
           && dat.record.stop_at <= 0 && window.closed > 0 && window.termed <= 0;
}

std::string state_in_short(const dat::Dat& dat, double now)
{
    std::string state(dat.phase());
    if (dat.degraded())
        state = "degraded";
    if (only_closed(dat))
        state = "closed";
    if (auto begin = dat.job.begin_time(); dat.job.pending() && begin > now)
        state += fmt::format(" (in {})", human_duration(begin - now));
    bool running = dat.phase() == "ready" || dat.phase() == "stopping";
    if (running && dat.record.ranks_up > 0 && dat.record.ranks_up < dat.job.nnodes)
        state += fmt::format(" ({}/{} ranks up)", dat.record.ranks_up, dat.job.nnodes);
    return state;
}

Hue hue_of_state(const dat::Dat& dat)
{
    auto phase = dat.phase();
    bool lost = dat.record.ranks_up > 0 && dat.record.ranks_up < dat.job.nnodes;
    if (phase == "ended" || (phase == "ready" && lost))
        return Hue::bad;
    return phase == "ready" && !dat.degraded() ? Hue::good : Hue::busy;
}

std::string time_left(const flux::JobInfo& job, double now)
{
    if (job.expiration > 0)
        return human_duration(std::max(0.0, job.expiration - now));
    if (job.duration > 0)
        return human_duration(job.duration);
    return "-";
}

std::string join(const std::vector<std::string>& words, std::string_view between)
{
    std::string out;
    for (auto& word : words) {
        out += out.empty() ? "" : between;
        out += word;
    }
    return out;
}

std::string plural(std::size_t count, const char* thing)
{
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string or_dash(std::string text)
{
    return text.empty() ? "-" : std::move(text);
}

} // namespace fluxdat::cli
