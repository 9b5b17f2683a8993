// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat grant and flux-dat revoke: change the guest list of a DAT.
#include "lib/dat/grant.h"
#include "cli/command.h"
#include "lib/dat/evict.h"
#include "lib/dat/unseen.h"
#include "lib/flux/text.h"

#include <fstream>
#include <iostream>

namespace fluxdat::cli {

namespace {

constexpr std::size_t file_size_max = 1u << 20; // bytes of --file

// One name a line; empty lines and those that begin with # are nobody.
struct Line {
    std::size_t number;
    std::string name;
};
Result<std::vector<Line>> lines_in_file(const std::string& path)
{
    std::ifstream file;
    bool standard = path == "-";
    if (!standard)
        file.open(path);
    std::istream& in = standard ? std::cin : file;
    if (!standard && !file)
        return fail(Exit::usage, "--file {}: {}", path, std::strerror(errno));
    std::vector<Line> names;
    std::size_t size = 0, number = 0;
    for (std::string line; std::getline(in, line);) {
        size += line.size() + 1;
        number++;
        if (size > file_size_max)
            return fail(Exit::usage, "--file {}: larger than {} bytes", path,
                        file_size_max);
        auto name = flux::trimmed(line);
        if (!name.empty() && !name.starts_with('#'))
            names.push_back({number, std::string(name)});
    }
    if (in.bad())
        return fail(Exit::usage, "--file {}: cannot be read", path);
    return names;
}

template <class Id>
std::string named(const std::vector<Id>& ids, std::string (*name_of)(Id))
{
    constexpr std::size_t names_max = 10;
    std::string out;
    for (std::size_t i = 0; i < ids.size() && i < names_max; i++)
        out += (out.empty() ? "" : ", ") + name_of(ids[i]);
    if (ids.size() > names_max)
        out += fmt::format(" and {} more", ids.size() - names_max);
    return out;
}

// Those of `ids` that are not among `others`.
template <class Id>
std::vector<Id> without(std::vector<Id> ids, const std::vector<Id>& others)
{
    std::erase_if(ids, [&](Id id) {
        return std::find(others.begin(), others.end(), id) != others.end();
    });
    return ids;
}

struct Grant {
    enum class What { grant, revoke };
    What what;
    Common common;
    std::optional<std::string> selector, file;
    std::vector<std::string> users, groups, managers;
    bool open = false, close = false, keep_jobs = false;

    bool grants() const { return what == What::grant; }

    Result<> add_file(std::vector<uid_t>& uids) const
    {
        if (!file)
            return {};
        auto lines = lines_in_file(*file);
        if (!lines)
            return std::unexpected(lines.error());
        for (auto& [number, name] : *lines) {
            auto where = fmt::format("--file {}:{}", *file, number);
            auto found = grants() ? find_users({name}, where)
                                  : find_all({name}, where, find_former_user);
            if (!found)
                return std::unexpected(found.error());
            uids.insert(uids.end(), found->begin(), found->end());
        }
        return {};
    }

    Result<dat::Change> change() const
    {
        dat::Change change;
        auto& list = grants() ? change.grant : change.revoke;
        auto uids = grants() ? find_users(users, "USER")
                             : find_all(users, "USER", find_former_user);
        if (!uids && !selector && users.size() > 1
            && !(grants() ? find_user(users[0], "") : find_former_user(users[0], "")))
            return fail(Exit::usage,
                        "{}; if that is a DAT's name: flux-dat {} --dat {}",
                        uids.error().message, common.command, users[0]);
        if (!uids)
            return std::unexpected(uids.error());
        if (auto added = add_file(*uids); !added)
            return std::unexpected(added.error());
        auto gids = grants() ? find_groups(groups, "--group")
                             : find_all(groups, "--group", find_former_group);
        if (!gids)
            return std::unexpected(gids.error());
        auto manager_uids = grants()
                                ? find_users(managers, "--manager")
                                : find_all(managers, "--manager", find_former_user);
        if (!manager_uids)
            return std::unexpected(manager_uids.error());
        list = {std::move(*uids), std::move(*gids), std::move(*manager_uids)};
        if (open || close)
            change.open = open;
        change.keep_jobs = keep_jobs;
        if (list.empty() && !change.open)
            return fail(Exit::usage, "whom? Give a USER, --group, --manager, --file{}",
                        grants() ? ", --open or --close" : " or --close");
        return change;
    }

    flux::Task<Result<int>> apply(flux::Loop& loop, dat::Change change,
                                  flux::Interrupt& interrupt)
    {
        auto parent = co_await connect_parent(loop, &interrupt);
        if (!parent)
            co_return std::unexpected(parent.error());
        flux::InterruptScope closing(&interrupt, [&parent] { (*parent)->close(); });
        auto dat = co_await dat::find_dat_to_use(loop, **parent, selector);
        if (!dat)
            co_return std::unexpected(interrupt.reason().value_or(dat.error()));
        auto changed =
            co_await dat::change_list(loop, **parent, *dat, change, interrupt);
        if (!changed)
            co_return std::unexpected(changed.error());
        tell(*dat, change, *changed);
        if (grants() && !changed->granted.empty())
            co_await tell_what_to_hand_out(**parent, *dat);
        if (changed->everywhere)
            co_return 0;
        co_return common.report({missing(*changed), 0, Exit::partial});
    }

    void tell(const dat::Dat& dat, const dat::Change& change,
              const dat::ListChanged& changed) const
    {
        if (common.json) {
            print_json(json_of(dat, changed));
        }
        auto& asked = grants() ? change.grant : change.revoke;
        auto& done = grants() ? changed.granted : changed.revoked;
        auto so_already = [&](const std::string& who) {
            if (!who.empty())
                common.note((grants() ? "on the list already: " : "not on the list: ")
                            + who);
        };
        so_already(named(without(asked.users, done.users), user_name));
        so_already(named(without(asked.groups, done.groups), group_name));
        so_already(named(without(asked.managers, done.managers), user_name));
        for (auto& rank : changed.ranks)
            for (auto& warning : rank.warnings)
                common.warn(
                    fmt::format("rank {} ({}): {}", rank.rank, rank.host, warning));
        if (!grants() && !changed.evictor_fault.empty())
            common.warn("jobs of those revoked are not cancelled at the moment: "
                        + changed.evictor_fault);
        if (!grants() && changed.open && !change.open)
            common.note("the DAT is open to everybody, those revoked too (--close)");
        else if (!grants() && !done.users.empty())
            for (auto uid : asked.users)
                if (auto group = still_in(uid, dat, change); group)
                    common.note(fmt::format("{} still may enter, by group {}",
                                            user_name(uid), group_name(*group)));
        if (!changed.running)
            common.note("recorded; in force when the DAT starts");
        else if (changed.everywhere && common.shows_progress())
            common.note(fmt::format("{}in force on all {} ranks of \"{}\"",
                                    in_words(done), changed.ranks.size(),
                                    dat.record.name));
    }

    // "granted alice, group lab; ", or empty.
    std::string in_words(const dat::Named& done) const
    {
        std::string out;
        auto add = [&](const char* kind, const std::string& who) {
            if (!who.empty())
                out += (out.empty() ? "" : ", ") + (kind + who);
        };
        add("", named(done.users, user_name));
        add("group ", named(done.groups, group_name));
        add("manager ", named(done.managers, user_name));
        return out.empty()
                   ? out
                   : fmt::format("{} {}; ", grants() ? "granted" : "revoked", out);
    }

    // The group on the list, as it was before, that lets a user in all the same.
    static std::optional<gid_t> still_in(uid_t uid, const dat::Dat& dat,
                                         const dat::Change& change)
    {
        auto left = without(dat.record.guests.groups, change.revoke.groups);
        if (left.empty())
            return {};
        for (auto gid : dat::groups_of(uid).value_or(std::vector<gid_t>{}))
            if (std::find(left.begin(), left.end(), gid) != left.end())
                return gid;
        return {};
    }

    // In private mode a guest sees no job but his own.
    flux::Task<void> tell_what_to_hand_out(flux::Connection& parent,
                                           const dat::Dat& dat)
    {
        static const Json::json_pointer private_mode("/access/private-mode");
        auto conf = co_await flux::configuration(parent);
        if (!conf || !conf->contains(private_mode) || (*conf)[private_mode] != true)
            co_return;
        auto uri = dat.uri();
        auto id = flux::format_jobid_ascii(dat.job.id);
        common.note(fmt::format("this Flux is in private mode, where guests do not see "
                                "the DAT: tell them its job id, {}{}{}",
                                id, uri.empty() ? "" : ", and its URI, ", uri));
    }

    static std::string missing(const dat::ListChanged& changed)
    {
        std::string out;
        for (auto& rank : changed.ranks)
            if (rank.applied < changed.generation)
                out += fmt::format("{}rank {} ({}): {}", out.empty() ? "" : ", ",
                                   rank.rank, rank.host, rank.reason);
        return "the list is not in force on all ranks, and goes on being tried there: "
               + out;
    }

    static Json json_of(const dat::Dat& dat, const dat::ListChanged& changed)
    {
        Json ranks = Json::array();
        for (auto& rank : changed.ranks)
            ranks.push_back(to_json(rank));
        return {{"version", 1},
                {"id", flux::format_jobid(dat.job.id)},
                {"jobid", dat.job.id},
                {"name", dat.record.name},
                {"generation", changed.generation},
                {"state", !changed.running     ? "recorded"
                          : changed.everywhere ? "applied"
                                               : "degraded"},
                {"open", changed.open},
                {"granted", to_json(changed.granted)},
                {"revoked", to_json(changed.revoked)},
                {"ranks", std::move(ranks)}};
    }

    int run()
    {
        auto parsed = change();
        if (!parsed)
            return common.report(parsed.error());
        flux::Loop loop;
        flux::Interrupt interrupt;
        flux::InterruptSources sources(loop, interrupt);
        auto applied = loop.run(apply(loop, std::move(*parsed), interrupt));
        return applied ? finish(common, *applied) : common.report(applied.error());
    }
};

CLI::App* add(CLI::App& app, Chosen& chosen, const std::shared_ptr<Grant>& grant,
              const char* name, const char* description)
{
    auto* command = add_command(app, grant->common, name, description);
    add_dat_option(*command, grant->selector);
    command->add_option("USER", grant->users, "Users, by name or uid")
        ->type_name("")
        ->allow_extra_args();
    add_list_option(*command, "-g,--group", grant->groups, "GROUP,...",
                    "Groups, and with them all of their members (repeatable)");
    command
        ->add_option("--file", grant->file, "Users, one a line (- for standard input)")
        ->type_name("FILE");
    add_list_option(*command, "--manager", grant->managers, "USER,...",
                    grant->grants()
                        ? "Who may change the list, too (repeatable; owner only)"
                        : "Who may no longer change it (repeatable; owner only)");
    command->callback([grant, &chosen] { chosen = [grant] { return grant->run(); }; });
    return command;
}

} // namespace

void add_grant(CLI::App& app, Chosen& chosen)
{
    auto grant = std::make_shared<Grant>();
    grant->what = Grant::What::grant;
    auto* command = add(app, chosen, grant, "grant", "Let users and groups into a DAT");
    auto* open =
        command->add_flag("--open", grant->open, "Let everybody in (owner only)");
    command
        ->add_flag("--close", grant->close,
                   "Let in only who is on the list, again (owner only)")
        ->excludes(open);
}

void add_revoke(CLI::App& app, Chosen& chosen)
{
    auto revoke = std::make_shared<Grant>();
    revoke->what = Grant::What::revoke;
    auto* command =
        add(app, chosen, revoke, "revoke",
            "Take users and groups off the list of a DAT, and end their jobs");
    command->add_flag("--close", revoke->close,
                      "Let in only who is on the list (owner only)");
    command->add_flag("--keep-jobs", revoke->keep_jobs, "Let what runs finish");
}

} // namespace fluxdat::cli
