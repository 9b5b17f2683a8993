// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/record.h"

#include "lib/flux/jobid.h"
#include "lib/flux/json.h"
#include "lib/flux/message.h"

#include <cctype>
#include <limits>

namespace fluxdat::dat {

namespace {

constexpr int record_version = 1;

constexpr std::pair<State, std::string_view> state_names[] = {
    {State::submitted, "submitted"},
    {State::ready, "ready"},
    {State::stopping, "stopping"},
};

std::unexpected<Error> bad_key(const char* key, const char* expected)
{
    return std::unexpected(
        Error{fmt::format("the DAT's record: \"{}\" is no {}", key, expected), EPROTO});
}

// Numeric ids under a key; absent means none.
template <class Id>
Result<std::vector<Id>> ids_at(const Json& json, const char* key)
{
    std::vector<Id> ids;
    auto found = json.find(key);
    if (found == json.end())
        return ids;
    if (!found->is_array() || found->size() > perms::guests_max)
        return bad_key(key, "list of ids");
    for (auto& id : *found) {
        if (!id.is_number_unsigned()
            || id.get<std::uint64_t>() > std::numeric_limits<Id>::max())
            return bad_key(key, "list of ids");
        ids.push_back(id.get<Id>());
    }
    return ids;
}

Result<std::uint64_t> number_at(const Json& json, const char* key)
{
    auto found = json.find(key);
    if (found == json.end())
        return 0;
    if (!found->is_number_unsigned())
        return bad_key(key, "number");
    return found->get<std::uint64_t>();
}

Result<State> state_at(const Json& json, const char* key)
{
    auto found = json.find(key);
    if (found == json.end() || !found->is_string())
        return bad_key(key, "string");
    for (auto& [state, name] : state_names)
        if (name == found->get_ref<const std::string&>())
            return state;
    return bad_key(key, "known state");
}

// Where the supervisor is reached, if the record says so.
Result<> read_service(const Json& json, Record& record)
{
    auto service = json.find("service");
    if (service == json.end())
        return {};
    if (!service->is_object())
        return bad_key("service", "object");
    auto name = service->find("name");
    auto rank = service->find("rank");
    if (name == service->end() || !name->is_string())
        return bad_key("service.name", "string");
    if (rank == service->end() || !rank->is_number_unsigned()
        || rank->get<std::uint64_t>() >= flux::nodeid_any)
        return bad_key("service.rank", "rank");
    record.service_name = name->get<std::string>();
    record.service_rank = rank->get<std::uint32_t>();
    return {};
}

} // namespace

std::string_view to_string(State state)
{
    for (auto& [value, name] : state_names)
        if (value == state)
            return name;
    return "unknown";
}

Json to_json(const perms::GuestList& guests)
{
    return {{"generation", guests.generation},
            {"open", guests.open},
            {"users", guests.users},
            {"groups", guests.groups}};
}

Result<perms::GuestList> guests_from_json(const Json& json)
{
    perms::GuestList guests;
    if (auto open = json.find("open"); open != json.end()) {
        if (!open->is_boolean())
            return bad_key("open", "boolean");
        guests.open = open->get<bool>();
    }
    auto generation = number_at(json, "generation");
    if (!generation)
        return std::unexpected(generation.error());
    auto users = ids_at<uid_t>(json, "users");
    if (!users)
        return std::unexpected(users.error());
    auto groups = ids_at<gid_t>(json, "groups");
    if (!groups)
        return std::unexpected(groups.error());
    guests.generation = *generation;
    guests.users = std::move(*users);
    guests.groups = std::move(*groups);
    return guests;
}

Json to_json(const Record& record)
{
    Json json = to_json(record.guests);
    json.update({{"version", record_version},
                 {"name", record.name},
                 {"state", to_string(record.state)},
                 {"applied", record.applied},
                 {"managers", record.managers},
                 {"ranks_up", record.ranks_up},
                 {"window", to_json(record.window)}});
    if (!record.service_name.empty())
        json["service"] = {{"name", record.service_name},
                           {"rank", record.service_rank}};
    if (record.stop_at > 0)
        json["stop_at"] = record.stop_at;
    if (!record.adoption.empty())
        json["adoption"] = record.adoption;
    if (!record.stop_reason.empty())
        json["stop_reason"] = record.stop_reason;
    return json;
}

Result<Record> record_from_json(const Json& json)
{
    if (!json.is_object())
        return fail("the DAT's record is no JSON object");
    auto version = json.find("version");
    if (version == json.end() || *version != record_version)
        return fail("the DAT's record is not of version {}: it was written by another "
                    "version of flux-dat",
                    record_version);
    Record record;
    auto name = json.find("name");
    if (name == json.end() || !name->is_string())
        return bad_key("name", "string");
    record.name = name->get<std::string>();
    if (!check_name(record.name))
        return bad_key("name", "name of a DAT");
    auto state = state_at(json, "state");
    if (!state)
        return std::unexpected(state.error());
    record.state = *state;
    auto guests = guests_from_json(json);
    if (!guests)
        return std::unexpected(guests.error());
    record.guests = std::move(*guests);
    auto applied = number_at(json, "applied");
    if (!applied)
        return std::unexpected(applied.error());
    record.applied = *applied;
    auto managers = ids_at<uid_t>(json, "managers");
    if (!managers)
        return std::unexpected(managers.error());
    record.managers = std::move(*managers);
    auto ranks_up = number_at(json, "ranks_up");
    if (!ranks_up)
        return std::unexpected(ranks_up.error());
    if (*ranks_up > std::numeric_limits<std::uint32_t>::max())
        return bad_key("ranks_up", "number of ranks");
    record.ranks_up = static_cast<std::uint32_t>(*ranks_up);
    if (auto service = read_service(json, record); !service)
        return std::unexpected(service.error());
    record.stop_at = flux::number_at(json, "stop_at");
    auto window = json.find("window");
    record.window =
        window_from_json(window == json.end() ? Json() : *window, record.stop_at);
    record.adoption = flux::text_at(json, "adoption");
    if (auto reason = json.find("stop_reason");
        reason != json.end() && reason->is_string())
        record.stop_reason = reason->get<std::string>();
    return record;
}

Result<> check_name(std::string_view name)
{
    if (name.empty())
        return fail(Exit::usage, "the name is empty: give --name 1 to {} characters",
                    name_length_max);
    if (name.size() > name_length_max)
        return fail(Exit::usage,
                    "the name is too long: {} characters, at most {} are "
                    "allowed",
                    name.size(), name_length_max);
    for (std::size_t i = 0; i < name.size(); i++) {
        auto c = static_cast<unsigned char>(name[i]);
        bool letter_or_digit = c < 0x80 && std::isalnum(c);
        if (letter_or_digit || (i > 0 && (c == '-' || c == '_' || c == '.')))
            continue;
        std::string shown = c >= 0x20 && c < 0x7f ? fmt::format("\"{}\"", name[i])
                                                  : fmt::format("byte 0x{:02x}", c);
        return fail(Exit::usage,
                    "bad name: {} at character {}: allowed are letters, digits and "
                    "\"-_.\", the first a letter or digit",
                    shown, i + 1);
    }
    // "fred" reads as F58 too; as a name it goes first (find_dat), so only what nobody
    // would take for a name is refused.
    if (std::isdigit(static_cast<unsigned char>(name[0])) && flux::parse_jobid(name))
        return fail(Exit::usage,
                    "bad name \"{}\": it reads as a job id; choose another", name);
    return {};
}

std::string service_name(uid_t owner, std::uint64_t jobid)
{
    return fmt::format("{}-dat-{}", owner, flux::format_jobid_ascii(jobid));
}

} // namespace fluxdat::dat
