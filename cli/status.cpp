// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat status: all DATs, a line each; or one in detail.
#include "cli/command.h"
#include "lib/dat/ask.h"
#include "lib/dat/ranks.h"
#include "lib/flux/fsd.h"
#include "lib/say.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

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
template <class Id>
std::vector<std::string> names_of(const std::vector<Id>& ids,
                                  std::string (*name_of)(Id))
{
    constexpr std::size_t names_max = 100;
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

std::string local_time(double when)
{
    auto seconds = static_cast<std::time_t>(when);
    std::tm parts{};
    localtime_r(&seconds, &parts);
    std::array<char, 64> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
    return text.data();
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
    bool running = state == "ready" || state == "stopping";
    if (running && dat.record.ranks_up > 0 && dat.record.ranks_up < dat.job.nnodes)
        state += fmt::format(" ({}/{} ranks up)", dat.record.ranks_up, dat.job.nnodes);
    return state;
}

struct Status {
    Common common;
    std::optional<std::string> selector;

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
        double now = static_cast<double>(std::time(nullptr));
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
        std::vector<std::string> users, groups, managers;
        users = names_of(dat.record.guests.users, user_name);
        groups = names_of(dat.record.guests.groups, group_name);
        managers = names_of(dat.record.managers, user_name);

        std::vector<Row> rows{
            {"name", dat.record.name},
            {"id", flux::format_jobid(job.id)},
            {"owner", fmt::format("{} ({})", user_name(job.userid), job.userid)},
            {"state", state_in_short(dat)},
            {"window", window(job)},
            {"nodes", fmt::format("{}: {}", job.nnodes, or_dash(job.nodelist))},
            {"uri", or_dash(dat.uri())},
            {"open", dat.record.guests.open ? "to everybody" : "no"},
            {"users", or_dash(join(users))},
            {"groups", or_dash(join(groups))},
            {"managers", or_dash(join(managers))}};
        if (supervisor.is_object() && supervisor.contains("jobs"))
            rows.push_back(
                {"jobs",
                 fmt::format(
                     "{} running, {} pending",
                     flux::integer_at<std::uint64_t>(supervisor["jobs"], "running"),
                     flux::integer_at<std::uint64_t>(supervisor["jobs"], "pending"))});
        if (supervisor.is_object() && supervisor.contains("ranks"))
            for (auto& rank : supervisor["ranks"])
                rows.push_back(describe(dat::rank_from_json(rank)));
        print_table(rows);
    }

    static std::string window(const flux::JobInfo& job)
    {
        double now = static_cast<double>(std::time(nullptr));
        if (job.t_run <= 0)
            return fmt::format("not begun; {}", job.duration > 0
                                                    ? flux::format_fsd(job.duration)
                                                    : "no time limit");
        auto begin = local_time(job.t_run);
        if (job.expiration <= 0)
            return fmt::format("{}, no end", begin);
        return fmt::format("{} to {} ({} left)", begin, local_time(job.expiration),
                           time_left(job, now));
    }

    static Row describe(const dat::Rank& rank)
    {
        auto verdict =
            rank.wrong.empty() ? std::string("door right") : join(rank.wrong);
        return {fmt::format("rank {}", rank.rank),
                fmt::format("{} {}: {}", or_dash(rank.host), rank.up ? "up" : "down",
                            verdict)};
    }

    flux::Task<Result<int>> show(flux::Loop& loop)
    {
        auto parent = co_await connect_parent(loop);
        if (!parent)
            co_return std::unexpected(parent.error());
        if (selector) {
            auto dat = co_await dat::find_dat(**parent, selector);
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
    command->callback(
        [status, &chosen] { chosen = [status] { return status->run(); }; });
}

} // namespace fluxdat::cli
