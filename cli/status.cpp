// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat status: all DATs, a line each; or one in detail.
#include "cli/command.h"
#include "lib/clock.h"
#include "lib/dat/ask.h"
#include "lib/dat/changes.h"
#include "lib/dat/doors.h"
#include "lib/dat/evict.h"
#include "lib/dat/ranks.h"
#include "lib/flux/datetime.h"
#include "lib/flux/fsd.h"
#include "lib/harmless.h"
#include "lib/say.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two spaces apart, the last one not padded.
void print_table(const std::vector<Row>& rows)
{
    std::vector<std::size_t> widths;
    auto width = [](const std::string& cell) { // in characters: an ƒ is one of them
        return static_cast<std::size_t>(std::count_if(
            cell.begin(), cell.end(), [](char c) { return (c & 0xc0) != 0x80; }));
    };
    for (auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); i++)
            widths[i] = std::max(widths[i], width(row[i]));
    }
    for (auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); i++) {
            line += row[i];
            if (i + 1 < row.size())
                line.append(widths[i] - width(row[i]) + 2, ' ');
        }
        say(stdout, "{}\n", harmless(std::move(line)));
    }
}

std::string plural(std::size_t count, const char* thing)
{
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
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

std::string join(const std::vector<std::string>& words)
{
    std::string out;
    for (auto& word : words)
        out += (out.empty() ? "" : ", ") + word;
    return out;
}

// A directory server may take its time for each: names for the first ones only.
constexpr std::size_t names_max = 100;

template <class Id>
std::vector<std::string> names_of(const std::vector<Id>& ids,
                                  std::string (*name_of)(Id))
{
    std::vector<std::string> names;
    for (auto id : ids) {
        if (names.size() == names_max) {
            names.push_back(fmt::format("and {} more", ids.size() - names_max));
            break;
        }
        names.push_back(name_of(id));
    }
    return names;
}

std::string or_dash(std::string text)
{
    return text.empty() ? "-" : std::move(text);
}

std::string time_left(const flux::JobInfo& job, double now)
{
    if (job.expiration > 0)
        return flux::format_fsd(std::max(0.0, std::ceil(job.expiration - now)));
    if (job.duration > 0)
        return flux::format_fsd(job.duration);
    return "-";
}

Json to_json(const dat::Dat& dat)
{
    auto& job = dat.job;
    auto& guests = dat.record.guests;
    return {{"name", dat.record.name},
            {"id", flux::format_jobid(job.id)},
            {"jobid", job.id},
            {"owner", user_name(job.userid)},
            {"userid", job.userid},
            {"state", dat.phase()},
            {"degraded", dat.degraded()},
            {"nnodes", job.nnodes},
            {"ranks_up", dat.record.ranks_up},
            {"nodelist", job.nodelist},
            {"ranks", job.ranks},
            {"t_submit", job.t_submit},
            {"t_run", job.t_run},
            {"duration", job.duration},
            {"expiration", job.expiration},
            {"uri", dat.uri()},
            {"generation", guests.generation},
            {"applied", dat.record.applied},
            {"open", guests.open},
            {"users", guests.users},
            {"groups", guests.groups},
            {"managers", dat.record.managers}};
}

// "ready", or "ready (1/2 ranks up)" where some were lost.
std::string state_in_short(const dat::Dat& dat)
{
    std::string state(dat.phase());
    if (dat.degraded())
        state = "degraded";
    bool running = dat.phase() == "ready" || dat.phase() == "stopping";
    if (running && dat.record.ranks_up > 0 && dat.record.ranks_up < dat.job.nnodes)
        state += fmt::format(" ({}/{} ranks up)", dat.record.ranks_up, dat.job.nnodes);
    return state;
}

// A member of what another process says, which may be anything; null if it is not
// there.
const Json& member(const Json& json, const char* key)
{
    static const Json null;
    if (!json.is_object())
        return null;
    auto found = json.find(key);
    return found == json.end() ? null : *found;
}

// Ids of users, or of groups, which are of the same type.
static_assert(std::is_same_v<uid_t, gid_t>);
std::vector<uid_t> ids_in(const Json& list)
{
    std::vector<uid_t> ids;
    if (list.is_array())
        for (auto& id : list)
            if (id.is_number_unsigned())
                ids.push_back(id.get<uid_t>());
    return ids;
}

// A line for each guest of a kind, of `list` as the supervisor tells it.
template <class Id>
void add_guests(std::vector<Row>& rows, const char* kind, const Json& list,
                std::string (*name_of)(Id))
{
    if (!list.is_array())
        return;
    for (std::size_t i = 0; i < list.size(); i++) {
        if (i == names_max) {
            rows.push_back({kind, fmt::format("and {} more (--json names them)",
                                              list.size() - names_max)});
            return;
        }
        double since = flux::number_at(list[i], "since");
        rows.push_back(
            {kind, fmt::format("{}, since {}, by {}",
                               name_of(flux::integer_at<Id>(list[i], "id")),
                               flux::format_local_time(since),
                               user_name(flux::integer_at<uid_t>(list[i], "by")))});
    }
}

struct Status {
    Common common;
    std::optional<std::string> selector;
    bool shows_history = false;

    // What only the supervisor knows; null where it does not answer, or not to us.
    flux::Task<Json> details_of(flux::Loop& loop, flux::Connection& parent,
                                const dat::Dat& dat)
    {
        if (dat.phase() != "ready" && dat.phase() != "stopping")
            co_return Json(nullptr);
        Json nothing = Json::object();
        auto answer = co_await dat::ask_supervisor(loop, parent, dat, "status",
                                                   std::move(nothing));
        if (answer)
            co_return std::move(*answer);
        if (answer.error().errnum != EPERM)
            common.warn("its supervisor does not answer: " + answer.error().message);
        co_return Json(nullptr);
    }

    void print_list(const std::vector<dat::Dat>& dats) const
    {
        double now = wall_clock();
        std::vector<Row> rows{
            {"NAME", "ID", "OWNER", "STATE", "NODES", "NODELIST", "LEFT", "GUESTS"}};
        for (auto& dat : dats)
            rows.push_back({dat.record.name, flux::format_jobid(dat.job.id),
                            user_name(dat.job.userid), state_in_short(dat),
                            std::to_string(dat.job.nnodes), or_dash(dat.job.nodelist),
                            time_left(dat.job, now),
                            guests_in_short(dat.record.guests)});
        print_table(rows);
    }

    void print_one(const dat::Dat& dat, const Json& supervisor) const
    {
        auto& job = dat.job;
        std::vector<Row> rows{
            {"name", dat.record.name},
            {"id", flux::format_jobid(job.id)},
            {"owner", fmt::format("{} ({})", user_name(job.userid), job.userid)},
            {"state", state_in_short(dat)},
            {"window", window(job)},
            {"nodes", fmt::format("{}: {}", job.nnodes, or_dash(job.nodelist))},
            {"uri", or_dash(dat.uri())},
            {"open", dat.record.guests.open ? "to everybody" : "no"}};
        if (supervisor.is_object() && supervisor.contains("guests")) {
            auto& guests = supervisor["guests"];
            add_guests(rows, "user", member(guests, "users"), user_name);
            add_guests(rows, "group", member(guests, "groups"), group_name);
            add_guests(rows, "manager", member(guests, "managers"), user_name);
        } else {
            auto& record = dat.record;
            rows.insert(
                rows.end(),
                {{"users", or_dash(join(names_of(record.guests.users, user_name)))},
                 {"groups", or_dash(join(names_of(record.guests.groups, group_name)))},
                 {"managers", or_dash(join(names_of(record.managers, user_name)))}});
        }
        if (geteuid() != job.userid)
            rows.push_back({"you", admission(dat)});
        if (supervisor.is_object() && supervisor.contains("imp")
            && supervisor["imp"].is_object())
            rows.push_back(
                {"imp",
                 fmt::format("{}: {}", flux::text_at(supervisor["imp"], "path"),
                             member(supervisor["imp"], "asks_guest_list") == true
                                 ? "asks the guest list"
                                 : "does not know of the guest list, which doors "
                                   "and supervisor enforce")});
        if (supervisor.is_object() && supervisor.contains("jobs"))
            rows.push_back(
                {"jobs",
                 fmt::format(
                     "{} running, {} pending",
                     flux::integer_at<std::uint64_t>(supervisor["jobs"], "running"),
                     flux::integer_at<std::uint64_t>(supervisor["jobs"], "pending"))});
        if (supervisor.is_object() && supervisor.contains("ranks"))
            for (auto& rank : supervisor["ranks"])
                rows.push_back(describe(dat::rank_from_json(rank),
                                        dat::door_rank_from_json(rank),
                                        dat.record.guests.generation));
        print_table(rows);
    }

    static std::string window(const flux::JobInfo& job)
    {
        double now = wall_clock();
        if (job.t_run <= 0)
            return fmt::format("not begun; {}", job.duration > 0
                                                    ? flux::format_fsd(job.duration)
                                                    : "no time limit");
        auto begin = flux::format_local_time(job.t_run);
        if (job.expiration <= 0)
            return fmt::format("{}, no end", begin);
        return fmt::format("{} to {} ({} left)", begin,
                           flux::format_local_time(job.expiration),
                           time_left(job, now));
    }

    static Row describe(const dat::Rank& rank, const dat::Doors::Rank& list,
                        std::uint64_t generation)
    {
        auto verdict =
            rank.wrong.empty() ? std::string("door right") : join(rank.wrong);
        if (list.applied < generation)
            verdict +=
                fmt::format("; has guest list {} of {}{}", list.applied, generation,
                            list.reason.empty() ? "" : ": " + list.reason);
        if (!list.warnings.empty())
            verdict += "; " + join(list.warnings);
        return {fmt::format("rank {}", rank.rank),
                fmt::format("{} {}: {}", or_dash(rank.host), rank.up ? "up" : "down",
                            verdict)};
    }

    // Whether whoever asks may come in, and how.
    static std::string admission(const dat::Dat& dat)
    {
        dat::Desired list(dat.record, dat.job.userid, 0);
        if (!list.admits(geteuid(), dat::groups_of))
            return list.is_manager(geteuid())
                       ? "a manager, and not on the guest list"
                       : "not on the guest list; ask the owner or a manager";
        auto id = flux::format_jobid_ascii(dat.job.id);
        if (dat.phase() != "ready")
            return "on the guest list";
        return fmt::format(
            "on the guest list: flux proxy {0}, or flux-dat run --dat {0}", id);
    }

    flux::Task<Result<int>> show_history(flux::Loop& loop, flux::Connection& parent)
    {
        auto dat = co_await dat::find_dat(parent, selector);
        if (!dat) {
            auto ended = co_await dat::find_ended(parent, selector);
            if (!ended)
                co_return std::unexpected(dat.error());
            dat = std::move(*ended);
        }
        Json changes;
        auto log = co_await flux::lookup(parent, dat->job.id, "eventlog");
        if (log) {
            changes = dat::history(dat::parse_eventlog(*log), dat->job.userid);
        } else if (log.error().errnum == EPERM) {
            Json nothing = Json::object();
            auto answer = co_await dat::ask_supervisor(loop, parent, *dat, "history",
                                                       std::move(nothing));
            if (!answer && answer.error().errnum == ENOSYS)
                co_return fail(
                    Exit::not_permitted,
                    "the DAT \"{}\" does not run: only its owner can see its "
                    "history now",
                    dat->record.name);
            if (!answer)
                co_return std::unexpected(answer.error());
            changes = member(*answer, "changes");
        } else {
            co_return std::unexpected(log.error());
        }
        if (common.json) {
            print_json({{"version", 1},
                        {"id", flux::format_jobid(dat->job.id)},
                        {"jobid", dat->job.id},
                        {"name", dat->record.name},
                        {"changes", std::move(changes)}});
            co_return 0;
        }
        std::vector<Row> rows{{"TIME", "BY", "CHANGE"}};
        for (auto& change : changes)
            rows.push_back({flux::format_local_time(flux::number_at(change, "when")),
                            user_name(flux::integer_at<uid_t>(change, "by")),
                            in_words(change)});
        print_table(rows);
        co_return 0;
    }

    static std::string in_words(const Json& change)
    {
        std::vector<std::string> parts;
        auto add = [&](const char* key) {
            const Json& named = member(change, key);
            std::vector<std::string> who;
            auto names = [&](const char* kind, const char* one, auto* name_of) {
                for (auto& name : names_of(ids_in(member(named, kind)), name_of))
                    who.push_back(fmt::format("{} {}", one, name));
            };
            names("users", "user", user_name);
            names("groups", "group", group_name);
            names("managers", "manager", user_name);
            if (!who.empty())
                parts.push_back(fmt::format("{} {}", key, join(who)));
        };
        add("granted");
        add("revoked");
        if (change.contains("open") && change["open"].is_boolean())
            parts.push_back(change["open"] == true ? "opened to everybody"
                                                   : "closed to all but the list");
        std::string out;
        for (auto& part : parts)
            out += (out.empty() ? "" : "; ") + part;
        return out.empty() ? "nobody on the list" : out;
    }

    // What a guest of a parent in private mode, who does not see the DAT's job, is told
    // by the DAT's supervisor. Only a DAT of the parent's owner can be asked: the name
    // of another's service has a uid in it that is not known here.
    flux::Task<Result<int>> show_unseen(flux::Loop& loop, flux::Connection& parent,
                                        Error not_found)
    {
        auto conf = co_await flux::configuration(parent);
        auto id = flux::parse_jobid(*selector);
        static const Json::json_pointer private_mode("/access/private-mode");
        if (!conf || !conf->contains(private_mode) || (*conf)[private_mode] != true)
            co_return std::unexpected(not_found);
        not_found.message +=
            "; this instance is in private mode, where you see your own "
            "jobs only: give the job id that you were told";
        auto owner = co_await flux::attribute_number(parent, "security.owner");
        if (!id || !owner)
            co_return std::unexpected(not_found);
        dat::Dat dat;
        dat.job.id = *id;
        dat.job.userid = *owner;
        dat.record.service_name = dat::service_name(*owner, *id);
        dat.record.service_rank = flux::nodeid_any;
        Json nothing = Json::object();
        auto answer = co_await dat::ask_supervisor(loop, parent, dat, "admission",
                                                   std::move(nothing));
        if (!answer)
            co_return std::unexpected(answer.error().errnum == EPERM ? answer.error()
                                                                     : not_found);
        if (common.json) {
            (*answer)["version"] = 1;
            (*answer)["id"] = flux::format_jobid(*id);
            (*answer)["jobid"] = *id;
            print_json(*answer);
            co_return 0;
        }
        dat.job.expiration = flux::number_at(*answer, "expiration");
        auto end = dat.job.expiration > 0 ? flux::format_local_time(dat.job.expiration)
                                          : std::string("no end");
        print_table({{"name", flux::text_at(*answer, "name")},
                     {"id", flux::format_jobid(*id)},
                     {"owner", user_name(flux::integer_at<uid_t>(*answer, "owner"))},
                     {"state", flux::text_at(*answer, "state")},
                     {"nodes", or_dash(flux::text_at(*answer, "nodelist"))},
                     {"until", end},
                     {"you", fmt::format("on the guest list: flux proxy {}",
                                         flux::text_at(*answer, "uri"))}});
        co_return 0;
    }

    flux::Task<Result<int>> show(flux::Loop& loop)
    {
        auto parent = co_await connect_parent(loop);
        if (!parent)
            co_return std::unexpected(parent.error());
        if (shows_history)
            co_return co_await show_history(loop, **parent);
        if (selector) {
            auto dat = co_await dat::find_dat(**parent, selector);
            if (!dat && dat.error().exit == Exit::no_such_dat)
                co_return co_await show_unseen(loop, **parent, dat.error());
            if (!dat)
                co_return std::unexpected(dat.error());
            auto details = co_await details_of(loop, **parent, *dat);
            if (common.json) {
                auto json = to_json(*dat);
                json["supervisor"] = details;
                print_json({{"version", 1}, {"dats", Json::array({std::move(json)})}});
            } else {
                print_one(*dat, details);
            }
            co_return 0;
        }
        auto dats = co_await dat::list_dats(**parent);
        if (!dats)
            co_return std::unexpected(dats.error());
        if (common.json) {
            Json list = Json::array();
            for (auto& dat : *dats)
                list.push_back(to_json(dat));
            print_json({{"version", 1}, {"dats", std::move(list)}});
        } else if (dats->empty()) {
            common.note("there is no DAT here");
        } else {
            print_list(*dats);
        }
        co_return 0;
    }

    int run()
    {
        flux::Loop loop;
        auto shown = loop.run(show(loop));
        return shown ? finish(common, *shown) : common.report(shown.error());
    }
};

} // namespace

void add_status(CLI::App& app, Chosen& chosen)
{
    auto status = std::make_shared<Status>();
    auto* command =
        add_command(app, status->common, "status", "Show all DATs, or one in detail");
    add_dat_option(*command, status->selector);
    command->add_flag("--history", status->shows_history,
                      "Who changed the guest list of the DAT, when, and how");
    command->callback(
        [status, &chosen] { chosen = [status] { return status->run(); }; });
}

} // namespace fluxdat::cli
