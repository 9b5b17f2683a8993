// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/ranks.h"

#include "lib/dat/record.h"
#include "lib/flux/text.h"
#include "lib/perms/door.h"
#include "lib/program.h"
#include "lib/say.h"

#include <cstdio>
#include <sys/wait.h>

namespace fluxdat::dat {

namespace {

flux::Task<Rank> check_rank(flux::Connection& dat, std::uint32_t number,
                            std::string host, std::string guests)
{
    Rank rank;
    rank.rank = number;
    rank.host = std::move(host);
    Json payload{{"name", "local-uri"}};
    auto answer = co_await dat.rpc("attr.get", std::move(payload), number);
    if (!answer) {
        rank.wrong.push_back(
            fmt::format("its broker does not answer: {}", answer.error().message));
        co_return rank;
    }
    rank.up = true;
    auto uri = flux::parse_uri(flux::text_at(*answer, "value"));
    auto socket_in_door = fmt::format("/{}", perms::socket_file_name);
    if (!uri || !uri->path.ends_with(socket_in_door)) {
        rank.wrong.push_back(fmt::format("its broker's socket is behind no door: {}",
                                         flux::text_at(*answer, "value")));
        co_return rank;
    }
    rank.door = uri->path.substr(0, uri->path.size() - socket_in_door.size());
    flux::Command command;
    command.cmdline = {program_path(), "door", "check", rank.door, std::move(guests)};
    auto checked = co_await flux::run_command(dat, number, std::move(command));
    if (checked.error)
        rank.wrong.push_back(
            fmt::format("its door cannot be checked: {}", checked.error->message));
    else if (checked.wait_status != 0) {
        for (auto line :
             flux::lines_of(checked.out.empty() ? checked.err : checked.out))
            rank.wrong.emplace_back(line);
        if (rank.wrong.empty())
            rank.wrong.push_back(fmt::format(
                "its door cannot be checked: the check ended with status {}",
                checked.wait_status));
    }
    co_return rank;
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

void RanksUp::apply(const Json& answer)
{
    if (!answer.is_object() || !answer.contains("events")
        || !answer["events"].is_array())
        return;
    if (answer["events"].empty())
        current_ = true;
    for (auto& event : answer["events"]) {
        if (!event.is_object() || !event.contains("context"))
            continue;
        auto name = flux::text_at(event, "name");
        auto key = name == "restart" ? "online" : "idset";
        auto ranks = flux::parse_idset(flux::text_at(event["context"], key));
        if (!ranks)
            continue;
        if (name == "restart")
            up_ = std::move(*ranks);
        else if (name == "online")
            up_.insert(*ranks);
        else if (name == "offline")
            up_.remove(*ranks);
    }
}

flux::Task<std::vector<Rank>> check_ranks(flux::Connection& dat, flux::Hostlist hosts,
                                          perms::GuestList guests)
{
    auto text = flux::dump_json(to_json(guests));
    std::vector<flux::Task<Rank>> checks;
    for (std::uint32_t rank = 0; rank < hosts.size(); rank++)
        checks.push_back(check_rank(dat, rank, hosts[rank], text));
    co_return co_await flux::when_all(std::move(checks));
}

int check_door(const std::string& path, const std::string& guests)
{
    auto wrong = [](const std::string& line) {
        say(stdout, "{}\n", line);
        return 1;
    };
    auto json = flux::parse_json(guests);
    if (!json)
        return wrong("the guest list is " + json.error().message);
    auto list = guests_from_json(*json);
    if (!list)
        return wrong(list.error().message);
    auto door = perms::Door::open(path);
    if (!door)
        return wrong(door.error().message);
    auto lines = door->check(*list);
    for (auto& line : lines)
        say(stdout, "{}\n", line);
    return lines.empty() ? 0 : 1;
}

} // namespace fluxdat::dat
