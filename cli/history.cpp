// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/history.h"

#include "cli/dat_fields.h"
#include "cli/dat_page.h"
#include "lib/dat/ask.h"
#include "lib/dat/changes.h"
#include "lib/flux/datetime.h"
#include "lib/say.h"

#include <unistd.h>

namespace fluxdat::cli {

namespace {

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

std::string in_words(const Json& change)
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
    return parts.empty() ? "nobody on the list" : join(parts, "; ");
}

} // namespace

flux::Task<Result<int>> show_history(const Common& common, flux::Loop& loop,
                                     flux::Connection& parent,
                                     std::optional<std::string> selector,
                                     bool with_header)
{
    auto dat = co_await dat::find_dat_or_ended(parent, selector);
    if (!dat)
        co_return std::unexpected(dat.error());
    Json changes;
    auto log = co_await flux::lookup(parent, dat->job.id, "eventlog");
    if (log) {
        changes = dat::history(dat::parse_eventlog(*log), dat->job.userid);
    } else if (log.error().errnum == EPERM || log.error().errnum == EMSGSIZE) {
        // Its supervisor knows it by heart.
        Json nothing = Json::object();
        auto answer = co_await dat::ask_supervisor(loop, parent, *dat, "history",
                                                   std::move(nothing));
        if (!answer && log.error().errnum == EMSGSIZE)
            co_return std::unexpected(log.error());
        if (!answer && answer.error().errnum == ENOSYS)
            co_return fail(Exit::not_permitted,
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
    std::vector<Row> rows;
    for (auto& change : changes)
        rows.push_back({{flux::format_datetime(flux::number_at(change, "when"))},
                        {user_name(flux::integer_at<uid_t>(change, "by"))},
                        {in_words(change)}});
    for (auto& line :
         table_lines({{"TIME", 0, 0}, {"BY", 0, 2}, {"CHANGE", 10, 0}}, std::move(rows),
                     with_header, screen_of(STDOUT_FILENO)))
        say(stdout, "{}\n", line);
    co_return 0;
}

} // namespace fluxdat::cli
