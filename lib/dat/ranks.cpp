// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/ranks.h"

#include "lib/dat/door_service.h"
#include "lib/dat/record.h"
#include "lib/flux/text.h"
#include "lib/imp/user.h"
#include "lib/in_time.h"
#include "lib/perms/door.h"
#include "lib/perms/passage.h"
#include "lib/program.h"
#include "lib/say.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <sys/wait.h>

namespace fluxdat::dat {

namespace {

flux::Task<Rank> check_rank(flux::Connection& dat, std::uint32_t number,
                            std::string host, Entrance entrance, std::string guests,
                            flux::Interrupt* interrupt)
{
    Rank rank;
    rank.rank = number;
    rank.host = std::move(host);
    auto path = co_await find_entrance(dat, number, entrance, interrupt);
    if (!path) {
        rank.up = path.error().errnum == ENOTSOCK;
        rank.wrong.push_back(path.error().message);
        co_return rank;
    }
    rank.up = true;
    rank.door = *path;
    auto checked = co_await run_at_entrance(
        dat, number, entrance, "check", std::move(*path), std::move(guests), interrupt);
    if (!checked.good)
        rank.wrong = std::move(checked.lines);
    co_return rank;
}

const char* command_of(Entrance entrance)
{
    return entrance == Entrance::door ? "door" : "passage";
}

} // namespace

Json to_json(const Rank& rank)
{
    return {{"rank", rank.rank},
            {"host", rank.host},
            {"door", rank.door},
            {"up", rank.up},
            {"wrong", rank.wrong}};
}

Rank rank_from_json(const Json& json)
{
    Rank rank;
    rank.rank = flux::integer_at<std::uint32_t>(json, "rank");
    rank.host = flux::text_at(json, "host");
    rank.door = flux::text_at(json, "door");
    rank.up = json.is_object() && json.contains("up") && json["up"] == true;
    if (json.is_object() && json.contains("wrong") && json["wrong"].is_array())
        for (auto& line : json["wrong"])
            if (line.is_string())
                rank.wrong.push_back(line.get<std::string>());
    return rank;
}

bool for_each_resource_event(
    const Json& answer,
    const std::function<void(const std::string& name, const Json& event)>& each)
{
    if (!answer.is_object() || !answer.contains("events")
        || !answer["events"].is_array())
        return false;
    for (auto& event : answer["events"])
        if (event.is_object() && event.contains("context"))
            each(flux::text_at(event, "name"), event);
    return answer["events"].empty();
}

void RanksUp::apply(const Json& answer)
{
    auto take = [this](const std::string& name, const Json& event) {
        auto key = name == "restart" ? "online" : "idset";
        auto ranks = flux::parse_idset(flux::text_at(event["context"], key));
        if (!ranks)
            return;
        if (name == "restart")
            up_ = std::move(*ranks);
        else if (name == "online")
            up_.insert(*ranks);
        else if (name == "offline")
            up_.remove(*ranks);
    };
    if (for_each_resource_event(answer, take))
        current_ = true;
}

flux::Hostlist hosts_by_rank(const std::string& nodelist, std::uint32_t size)
{
    auto hosts = flux::parse_hostlist(nodelist);
    flux::Hostlist list = hosts ? std::move(*hosts) : flux::Hostlist{};
    list.resize(size);
    return list;
}

flux::Task<Result<std::string>> find_entrance(flux::Connection& dat, std::uint32_t rank,
                                              Entrance entrance,
                                              flux::Interrupt* interrupt)
{
    Json payload{{"name", "local-uri"}};
    auto answer = co_await dat.rpc("attr.get", std::move(payload), rank, interrupt);
    if (!answer)
        co_return std::unexpected(
            Error{fmt::format("its broker does not answer: {}", answer.error().message),
                  answer.error().errnum});
    auto uri = flux::parse_uri(flux::text_at(*answer, "value"));
    if (uri && entrance == Entrance::passage)
        co_return uri->path;
    auto socket_in_door = fmt::format("/{}", perms::socket_file_name);
    if (!uri || !uri->path.ends_with(socket_in_door))
        co_return std::unexpected(
            Error{fmt::format("its broker's socket is behind no door: {}",
                              flux::text_at(*answer, "value")),
                  ENOTSOCK});
    co_return uri->path.substr(0, uri->path.size() - socket_in_door.size());
}

flux::Task<AtEntrance> run_at_entrance(flux::Connection& dat, std::uint32_t rank,
                                       Entrance entrance, std::string what,
                                       std::string path, std::string guests,
                                       flux::Interrupt* interrupt)
{
    if (entrance == Entrance::door) {
        auto asked = co_await ask_door(dat, rank, what, path, guests, interrupt);
        if (asked)
            co_return std::move(*asked);
    }
    AtEntrance result;
    auto called = fmt::format("flux-dat {} {}", command_of(entrance), what);
    flux::Command command;
    command.cmdline = {program_path(), command_of(entrance), what, std::move(path),
                       std::move(guests)};
    auto ran =
        co_await flux::run_command(dat, rank, std::move(command), "rexec", interrupt);
    if (ran.error) {
        result.lines.push_back(fmt::format("{}: {}", called, ran.error->message));
        co_return result;
    }
    result.good = ran.wait_status == 0;
    for (auto line : flux::lines_of(ran.out.empty() ? ran.err : ran.out))
        result.lines.emplace_back(line);
    if (!result.good && result.lines.empty())
        result.lines.push_back(
            fmt::format("{}: ended with status {}", called, ran.wait_status));
    co_return result;
}

flux::Task<std::vector<Rank>> check_ranks(flux::Connection& dat, flux::Hostlist hosts,
                                          Entrance entrance, perms::GuestList guests,
                                          flux::Interrupt* interrupt)
{
    auto text = flux::dump_json(to_json(guests));
    std::vector<flux::Task<Rank>> checks;
    for (std::uint32_t rank = 0; rank < hosts.size(); rank++)
        checks.push_back(check_rank(dat, rank, hosts[rank], entrance, text, interrupt));
    co_return co_await flux::when_all(std::move(checks));
}

namespace {

// A directory server may take its time for each: so many, and so long for all of them.
// (With the names in `grants`, lib/perms, less than what a door may take to answer.)
constexpr std::size_t accounts_looked_up_max = 256;
constexpr double accounts_time_max = 2; // seconds

// Those on the list who were not on it before, and have no account here: their jobs
// will not run on this node.
std::vector<std::string> strangers(const perms::GuestList& before,
                                   const perms::GuestList& guests)
{
    std::vector<std::string> lines;
    std::size_t looked_up = 0;
    TimeLeft time(accounts_time_max);
    for (auto uid : guests.users) {
        if (std::binary_search(before.users.begin(), before.users.end(), uid))
            continue;
        if (looked_up++ == accounts_looked_up_max)
            break;
        auto is_unknown = time.call([uid] {
            auto user = imp::user_by_uid(uid);
            return !user && user.error().errnum == ENOENT;
        });
        if (is_unknown == true)
            lines.push_back(fmt::format("user {} has no account there", uid));
    }
    return lines;
}

AtEntrance refused(const Error& error)
{
    return {false, {error.message}};
}

AtEntrance found_wrong(std::vector<std::string> wrong)
{
    bool good = wrong.empty();
    return {good, std::move(wrong)};
}

std::optional<AtEntrance> at_door(const std::string& what, const std::string& path,
                                  const perms::GuestList& guests)
{
    auto door = perms::Door::open(path);
    if (!door)
        return refused(door.error());
    if (what == "check")
        return found_wrong(door->check(guests));
    if (what != "apply")
        return {};
    auto before = door->guests().value_or(perms::GuestList{});
    auto applied = door->apply(guests);
    return applied ? AtEntrance{true, strangers(before, guests)}
                   : refused(applied.error());
}

std::optional<AtEntrance> at_passage(const std::string& what, const std::string& socket,
                                     const perms::GuestList& guests)
{
    auto passage = perms::Passage::open(socket);
    if (!passage)
        return refused(passage.error());
    if (what == "check")
        return found_wrong(passage->check(guests));
    if (what == "restore") {
        auto restored = passage->restore();
        return restored ? AtEntrance{true, {}} : refused(restored.error());
    }
    if (what != "apply")
        return {};
    auto applied = passage->apply(guests);
    // Whom it let in before is not kept anywhere: all are looked up again.
    return applied ? AtEntrance{true, strangers({}, guests)} : refused(applied.error());
}

} // namespace

std::optional<AtEntrance> act_at_entrance(Entrance entrance, const std::string& what,
                                          const std::string& path,
                                          const std::string& guests)
{
    auto json = flux::parse_json(guests);
    if (!json)
        return refused({"the guest list is " + json.error().message, 0});
    auto list = guests_from_json(*json);
    if (!list)
        return refused(list.error());
    return entrance == Entrance::door ? at_door(what, path, *list)
                                      : at_passage(what, path, *list);
}

std::optional<int> at_entrance(Entrance entrance, const std::string& what,
                               const std::string& path, const std::string& guests)
{
    auto done = act_at_entrance(entrance, what, path, guests);
    if (!done)
        return {};
    for (auto& line : done->lines)
        say(stdout, "{}\n", line);
    return done->good ? 0 : 1;
}

} // namespace fluxdat::dat
