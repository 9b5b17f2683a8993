// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/check_node.h"

#include "lib/accounts.h"
#include "lib/clock.h"
#include "lib/conf/conf.h"
#include "lib/dat/check_imp.h"
#include "lib/flux/jobid.h"
#include "lib/imp/sign.h"
#include "lib/imp/sign_site.h"
#include "lib/perms/door.h"
#include "lib/say.h"
#include "paths.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <type_traits>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// Whom the door is opened for, to see whether it can be: nobody(7)'s id on every Linux.
constexpr uid_t any_guest = 65534, another_guest = 65533;
// A directory server may take its time for each.
constexpr std::size_t accounts_looked_up_max = 256;

std::vector<std::string> words_at(const Json& json, const char* key)
{
    std::vector<std::string> words;
    if (json.is_object() && json.contains(key) && json[key].is_array())
        for (const auto& word : json[key])
            if (word.is_string())
                words.push_back(word.get<std::string>());
    return words;
}

// Of users, or of groups, which are of the same type.
static_assert(std::is_same_v<uid_t, gid_t>);
std::vector<uid_t> ids_at(const Json& json, const char* key)
{
    std::vector<uid_t> ids;
    if (json.is_object() && json.contains(key) && json[key].is_array())
        for (const auto& id : json[key])
            if (id.is_number_unsigned())
                ids.push_back(id.get<uid_t>());
    return ids;
}

bool true_at(const Json& json, const char* key)
{
    return json.is_object() && json.contains(key) && json[key] == true;
}

// What [sign] says here; the socket of munged is what counts.
Result<imp::SignPolicy> sign_policy()
{
    auto site = imp::read_sign_config(imp::sign_pattern(), geteuid());
    if (!site)
        return fail("{}", site.error().message);
    auto policy = site->policy;
    policy.allowed = {imp::Mechanism::munge};
    return policy;
}

// Of [sign], which also guests read, when they sign.
std::string file_remedy(const std::string& why)
{
    return why.ends_with(std::strerror(EACCES))
               ? "let everybody read it, as guests do when they sign: chmod a+r"
               : "mend that file";
}

constexpr const char* start_munged = "systemctl enable --now munge";

// The J that was signed here, and the verdict about it.
std::pair<std::string, Verdict> sign_here()
{
    auto policy = sign_policy();
    if (!policy)
        return {{},
                failed("munge", policy.error().message,
                       file_remedy(policy.error().message))};
    auto J =
        imp::sign_wrap("{}", imp::Mechanism::munge, geteuid(), policy->munge_socket);
    if (!J)
        return {{}, failed("munge", J.error().message, start_munged)};
    auto own = imp::sign_unwrap(*J, *policy);
    if (!own)
        return {{}, failed("munge", own.error().message, start_munged)};
    return {*J, passed("munge", munge_works)};
}

void ask_munge(const NodeQuestion& question, NodeAnswer& answer)
{
    auto [credential, verdict] = sign_here();
    answer.credential = credential;
    if (verdict.found == Found::ok && !question.credential.empty()) {
        if (auto theirs = accept_credential(question.credential, geteuid()); !theirs)
            verdict = failed("munge",
                             "does not accept what was encoded here: "
                                 + theirs.error().message,
                             munge_remedy);
    }
    answer.verdicts.push_back(std::move(verdict));
}

// Guests without an account on a node may enter there, but their jobs do not run.
Verdict look_up_accounts(const NodeQuestion& question)
{
    std::vector<std::string> unknown;
    std::size_t left = accounts_looked_up_max;
    auto look = [&](const char* kind, const std::vector<uid_t>& ids, auto* function) {
        for (auto id : ids) {
            bool found = false;
            if (left > 0 && left-- > 0
                && look_up(function, id, [&](auto&) { found = true; }) == 0 && !found)
                unknown.push_back(fmt::format("{} {}", kind, id));
        }
    };
    look("user", question.users, getpwuid_r);
    look("group", question.groups, getgrgid_r);
    if (!unknown.empty())
        return warned(
            "accounts", fmt::format("not known there: {}", fmt::join(unknown, ", ")),
            "have these accounts on @NODES@, too: their jobs do not run where "
            "they are not known");
    return passed("accounts", left > 0
                                  ? "all guests and groups of the list are known"
                                  : fmt::format("the first {} of the list are known",
                                                accounts_looked_up_max));
}

// Makes a door as a rank's launcher would, and removes it.
Verdict try_door(const NodeQuestion& question)
{
    constexpr const char* id = "door-dir";
    perms::DoorDirChoice choice;
    choice.given = question.door_dir;
    auto dir = perms::choose_door_dir(choice);
    if (!dir && question.door_dir) {
        auto make = [user = user_name(geteuid())](const std::string& path) {
            return fmt::format("install -d -m 755 -o {} {}", user, path);
        };
        if (dir.error().errnum == ENOENT)
            return failed_with(id, dir.error(), make(*question.door_dir));
        // It is somebody's, and may well be right as it is: so one below it.
        auto below = *question.door_dir + "/dat";
        if (dir.error().errnum == EACCES || dir.error().errnum == EPERM) {
            auto verdict = failed_with(id, dir.error());
            verdict.remedy =
                fmt::format("as root: {}, and --door-dir {}", make(below), below);
            return verdict;
        }
    }
    if (!dir)
        return failed_with(id, dir.error(), "choose another --door-dir");
    auto guest = geteuid() == any_guest ? another_guest : any_guest;
    auto guests = question.open
                      ? perms::make_guest_list(1, true, {}, {}, geteuid())
                      : perms::make_guest_list(1, false, {guest}, {}, geteuid());
    const auto job = flux::format_jobid_ascii(question.door_id);
    auto door = guests ? perms::Door::create(*dir, {job, question.rank}, *guests)
                       : Result<perms::Door>(std::unexpected(guests.error()));
    auto where = dir->path;
    Result<> removed;
    if (door)
        removed = door->remove();
    perms::leave_door_dir(std::move(*dir));
    // A path that has this rank in it would make a line of its own of every node.
    const auto told = [&](Error error) {
        const auto name = perms::DoorName{job, question.rank}.text();
        for (auto at = error.message.find(name); at != std::string::npos;
             at = error.message.find(name))
            error.message.replace(at, name.size(), "dat-JOBID.RANK");
        return failed_with(id, error, "choose another --door-dir");
    };
    if (!door)
        return told(door.error());
    if (!removed)
        return told(removed.error());
    return passed(id, fmt::format("{}{}", where,
                                  question.open ? ", for everybody" : ", with ACLs"));
}

} // namespace

Json to_json(const NodeQuestion& question)
{
    Json json = {{"version", 1},
                 {"imp", question.imp},
                 {"job_shell", question.job_shell},
                 {"prolog", question.prolog},
                 {"epilog", question.epilog},
                 {"munge", question.munge},
                 {"credential", question.credential},
                 {"door", question.door},
                 {"open", question.open},
                 {"door_id", question.door_id},
                 {"rank", question.rank},
                 {"users", question.users},
                 {"groups", question.groups},
                 {"lifetime", question.lifetime}};
    if (question.door_dir)
        json["door_dir"] = *question.door_dir;
    return json;
}

Result<NodeQuestion> node_question_from_json(const Json& json)
{
    if (flux::integer_at<int>(json, "version") != 1)
        return fail("the question is of another version of flux-dat");
    NodeQuestion question;
    question.imp = flux::text_at(json, "imp");
    question.job_shell = flux::text_at(json, "job_shell");
    question.prolog = words_at(json, "prolog");
    question.epilog = words_at(json, "epilog");
    question.munge = true_at(json, "munge");
    question.credential = flux::text_at(json, "credential");
    question.door = true_at(json, "door");
    question.open = true_at(json, "open");
    question.door_id = flux::integer_at<std::uint64_t>(json, "door_id");
    question.rank = flux::integer_at<std::uint32_t>(json, "rank");
    question.users = ids_at(json, "users");
    question.groups = ids_at(json, "groups");
    question.lifetime = flux::integer_at<unsigned>(json, "lifetime", question.lifetime);
    if (json.contains("door_dir"))
        question.door_dir = flux::text_at(json, "door_dir");
    return question;
}

Json to_json(const NodeAnswer& answer)
{
    Json verdicts = Json::array();
    for (const auto& verdict : answer.verdicts)
        verdicts.push_back(to_json(verdict));
    return {{"version", 1},
            {"program", answer.version},
            {"time", answer.time},
            {"credential", answer.credential},
            {"checks", std::move(verdicts)}};
}

Result<NodeAnswer> node_answer_from_json(const Json& json)
{
    NodeAnswer answer;
    answer.version = flux::text_at(json, "program");
    answer.time = flux::number_at(json, "time");
    answer.credential = flux::text_at(json, "credential");
    if (answer.version.empty() || !json.contains("checks")
        || !json["checks"].is_array())
        return std::unexpected(Error{"its answer is none of flux-dat's", EPROTO});
    for (const auto& each : json["checks"]) {
        auto verdict = verdict_from_json(each);
        if (!verdict)
            return std::unexpected(verdict.error());
        answer.verdicts.push_back(std::move(*verdict));
    }
    return answer;
}

NodeAnswer check_node(const NodeQuestion& question)
{
    NodeAnswer answer;
    answer.version = FLUX_DAT_VERSION;
    answer.time = machine_clock(); // whether that is right is the question
    if (!question.imp.empty()) {
        auto program = check_imp_program(question.imp);
        bool fit = program.found != Found::failed;
        bool known = program.found == Found::ok; // else nobody knows what it would do
        answer.verdicts.push_back(std::move(program));
        auto user = user_name(geteuid());
        auto read = read_imp_config(question.imp);
        if (fit) {
            // Another IMP says nothing of that kind; which of them this is, its name
            // says.
            Json said;
            if (known && !question.imp.ends_with("/flux-imp"))
                said = conf::ask_imp(question.imp).value_or(Json());
            for (auto& verdict : check_imp_config(read, said, user, question.job_shell))
                answer.verdicts.push_back(std::move(verdict));
        }
        for (auto [id, command] :
             {std::pair("prolog", &question.prolog), {"epilog", &question.epilog}})
            if (!command->empty())
                answer.verdicts.push_back(
                    check_perilog(id, *command, question.imp, read, user));
    }
    if (question.munge)
        ask_munge(question, answer);
    if (!question.users.empty() || !question.groups.empty())
        answer.verdicts.push_back(look_up_accounts(question));
    if (question.door)
        answer.verdicts.push_back(try_door(question));
    return answer;
}

int check_node_command(const std::string& text)
{
    auto json = flux::parse_json(text);
    auto question = json ? node_question_from_json(*json)
                         : Result<NodeQuestion>(std::unexpected(json.error()));
    if (!question) {
        say(stderr, "flux-dat check-node: {}\n", question.error().message);
        return 1;
    }
    alarm(question->lifetime);
    say(stdout, "{}\n", flux::dump_json(to_json(check_node(*question))));
    return std::fflush(stdout) == 0 ? 0 : 1;
}

Result<> accept_credential(const std::string& credential, uid_t user)
{
    auto policy = sign_policy();
    if (!policy)
        return std::unexpected(policy.error());
    auto read = imp::sign_unwrap(credential, *policy);
    if (!read)
        return fail("{}", read.error().message);
    if (read->userid != user)
        return fail("it is of user {}, not {}", read->userid, user);
    return {};
}

} // namespace fluxdat::dat
