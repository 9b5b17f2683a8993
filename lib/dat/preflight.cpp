// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/preflight.h"

#include "lib/accounts.h"
#include "lib/clock.h"
#include "lib/dat/check_node.h"
#include "lib/dat/find.h"
#include "lib/dat/start_warnings.h"
#include "lib/flux/datetime.h"
#include "lib/flux/fsd.h"
#include "lib/flux/text.h"
#include "lib/imp/user.h"
#include "lib/perms/guestlist.h"
#include "paths.h"

#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// What a node's part of a check is left after nobody waits for it any more.
constexpr unsigned lifetime_more = 10; // seconds
constexpr const char* keep_out = "or keep them out: --requires '-host:@NODES@'";

// The message begins with the place that is at fault.
constexpr const char* mend_configuration =
    "mend it there, or leave it out; flux-config-dat(5) tells what a DAT is made of";

// No job has such an id, and no two checks have the same. As long as an id can be, so
// that the path of the door is as long as it can be, too.
std::uint64_t random_door_id()
{
    std::random_device random;
    return std::uint64_t{1} << 63 | std::uint64_t{random()} << 31 | random();
}

std::vector<std::string> strings(const conf::Value* value)
{
    std::vector<std::string> out;
    if (value && value->array())
        for (const auto& element : *value->array())
            if (element.string())
                out.push_back(*element.string());
    return out;
}

std::string string_at(const conf::Composed& composed, std::string_view key)
{
    const auto* value = composed.root.find(key);
    return value && value->string() ? *value->string() : "";
}

class Preflight
{
public:
    Preflight(flux::Loop& loop, flux::Connection& parent, PreflightOptions& options,
              flux::Interrupt& interrupt)
        : loop_(loop), parent_(parent), options_(options), interrupt_(interrupt)
    {
        asked_ = {options.start.submission.nodes, options.start.submission.time_limit,
                  options.start.submission.queue, options.start.submission.constraints};
    }

    flux::Task<Result<std::vector<Verdict>>> run()
    {
        if (auto looked = co_await look_at_instance(); !looked)
            co_return preflight_without_parent(looked.error());
        co_await look_at_queue();
        co_await look_at_nodes();
        co_await look_at_configuration();
        co_await look_at_window();
        co_await look_at_name();
        co_await look_whether_signed();
        co_await look_at_imp_of_sandbox();
        look_here();
        if (auto asked = co_await ask_nodes(); !asked)
            co_return std::unexpected(asked.error());
        co_return in_order(std::move(verdicts_));
    }

private:
    void add(Verdict verdict) { verdicts_.push_back(std::move(verdict)); }
    void add(Verdict verdict, const std::string& host)
    {
        verdict.hosts = {host};
        add(std::move(verdict));
    }
    bool is_owner() const { return owner_ == geteuid(); }

    flux::Task<Result<>> look_at_instance()
    {
        auto version = co_await flux::attribute(parent_, "version");
        auto owner = co_await flux::attribute_number(parent_, "security.owner");
        auto rank = co_await flux::attribute_number(parent_, "rank");
        auto config = co_await flux::configuration(parent_);
        for (const auto* error :
             {version ? nullptr : &version.error(), owner ? nullptr : &owner.error(),
              rank ? nullptr : &rank.error(), config ? nullptr : &config.error()})
            if (error)
                co_return std::unexpected(*error);
        owner_ = *owner;
        rank_ = *rank;
        config_ = std::move(*config);
        add(check_version(*version, parent_.uri()));
        co_return Result<>{};
    }

    flux::Task<> look_at_queue()
    {
        auto queue = queue_of(asked_, config_);
        if (!queue) {
            add(failed_with("queue", queue.error()));
            add(skipped("limits", "they are a queue's"));
            co_return;
        }
        queue_ = *queue;
        auto status = co_await queue_status(parent_, queue_);
        add(status ? check_queue(*status) : skipped("queue", status.error().message));
        add(check_limits(asked_, queue_, config_));
    }

    flux::Task<> look_at_nodes()
    {
        constexpr std::uint32_t root = 0; // which alone answers it
        auto status =
            co_await parent_.rpc("resource.sched-status", Json(nullptr), root);
        auto nodes = status ? nodes_from(*status)
                            : Result<Nodes>(std::unexpected(status.error()));
        if (!nodes) {
            add(failed("nodes", nodes.error().message,
                       "flux resource status, and flux dmesg, tell more"));
            co_return;
        }
        nodes_ = std::move(*nodes);
        auto ranks = eligible(nodes_, asked_, queue_, config_);
        if (!ranks) {
            add(failed_with("nodes", ranks.error()));
            co_return;
        }
        for (auto& verdict : check_nodes(nodes_, *ranks, asked_))
            add(std::move(verdict));
        chosen_ = std::move(*ranks);
        chosen_.remove(nodes_.down);
    }

    flux::Task<> look_at_configuration()
    {
        constexpr const char* id = "configuration";
        auto composed = co_await compose_for(parent_, options_.start.configuration);
        if (!composed) {
            add(failed_with(id, composed.error(), mend_configuration));
            co_return;
        }
        question_.imp = string_at(*composed, "exec.imp");
        question_.job_shell = string_at(*composed, "exec.job-shell");
        question_.prolog = perilog(*composed, "prolog");
        question_.epilog = perilog(*composed, "epilog");
        question_.munge = true;
        question_.door = true;
        question_.door_dir =
            options_.start.door_dir ? options_.start.door_dir : composed->door_dir;
        question_.open = options_.start.guests.open;
        question_.users = options_.start.guests.users;
        question_.groups = options_.start.guests.groups;
        question_.lifetime =
            static_cast<unsigned>(std::min(options_.node_answer_time, 1e9))
            + lifetime_more;
        question_.door_id = random_door_id();
        for (auto& warning : composed->warnings)
            // The IMP has checks of its own, which say more.
            if (!conf::is_of_imp(warning))
                add(warned(id, warning));
        if (auto sound = conf::lint(*composed); !sound)
            add(failed_with(id, sound.error(), mend_configuration));
        else
            add(passed(id, fmt::format("makes a DAT; exec.imp is {}", question_.imp)));
        composed_ = std::move(*composed);
    }

    // What is asked for before its end, and when that is.
    flux::Task<> look_at_window()
    {
        constexpr const char* id = "window";
        if (!composed_) {
            add(skipped(id, "there is no configuration, which may have a part in it"));
            co_return;
        }
        auto& submission = options_.start.submission;
        auto& wish = options_.start.window;
        auto window = window_options(*composed_, wish);
        if (!window) {
            add(failed_with(id, window.error(), mend_configuration));
            co_return;
        }
        auto limit = submission.time_limit;
        if (limit == 0)
            limit = default_time_limit(submission.queue, config_);
        auto told = window_warnings(wish, *window, limit);
        for (auto& warning : told)
            add(warned(id, warning, "another --time-limit, or other times before it"));
        if (auto& passed_by = options_.begin_has_passed)
            add(warned(id, *passed_by, "another --begin-time"));
        if (!told.empty() || options_.begin_has_passed)
            co_return;
        auto begin = submission.begin_time
                         ? flux::format_datetime(*submission.begin_time)
                         : std::string("now");
        auto end = limit > 0 ? "for " + flux::format_fsd(limit) : "without an end";
        add(passed(id, fmt::format("from {}, {}", begin, end)));
    }

    // Whether the owner has a DAT of that name already.
    flux::Task<> look_at_name()
    {
        constexpr const char* id = "name";
        auto& start = options_.start;
        auto& name = start.submission.name;
        if (!start.unique_name && !start.if_not_running) {
            add(passed(id, fmt::format("\"{}\", of which there may be several", name)));
            co_return;
        }
        auto found = co_await find_namesakes(parent_, name, geteuid(), 0);
        if (!found) {
            add(skipped(id, found.error().message));
            co_return;
        }
        if (!found->holder) {
            add(passed(id, fmt::format("no other DAT of yours is named \"{}\"", name)));
            co_return;
        }
        auto there = fmt::format("you have a DAT named \"{}\" already: job {}", name,
                                 flux::format_jobid(found->holder->id));
        if (!start.if_not_running)
            add(failed(id, there, "another --name; --if-not-running takes it as done"));
        else
            add(passed(id, there + ", which a start would leave as it is"));
    }

    // The command that is run before or after a job; empty where there is none.
    std::vector<std::string> perilog(const conf::Composed& composed, const char* which)
    {
        const auto* table =
            composed.root.find(std::vector<std::string>{"job-manager", which});
        if (!table)
            return {};
        auto command = strings(table->find("command"));
        // What perilog.so runs where nothing is said: flux-config-job-manager(5).
        if (command.empty() && !question_.imp.empty())
            command = {question_.imp, "run", which};
        return command;
    }

    // Whether a job of this user's can be signed; the jobspec is as start's would be.
    flux::Task<> look_whether_signed()
    {
        constexpr const char* id = "submit";
        auto user = user_name(geteuid());
        DatFile file;
        file.record.name = options_.start.submission.name;
        auto configuration = composed_ ? composed_->json() : Json::object();
        auto jobspec = dat_jobspec(options_.start.submission, file, configuration,
                                   options_.start.program);
        if (!jobspec) {
            add(failed_with(id, jobspec.error()));
            co_return;
        }
        auto J = co_await sign_for(parent_, *jobspec);
        if (!J)
            add(failed(id, J.error().message,
                       geteuid() == 0 ? "" : "systemctl enable --now munge",
                       J.error().exit));
        else
            add(passed(id, is_owner() ? fmt::format("as {}, who owns this Flux", user)
                                      : fmt::format("as {}, a guest of {}'s Flux", user,
                                                    user_name(owner_))));
    }

    flux::Task<> look_at_imp_of_sandbox()
    {
        if (!co_await is_stand_in(parent_, question_.imp))
            co_return;
        add(warned("imp", stand_in_seen, stand_in_remedy));
        for (const char* id : {"imp-config", "munge"})
            add(skipped(id, "for guests' jobs, which the sandbox does not run"));
        question_.imp.clear();
        question_.munge = false;
    }

    std::string host_here() const
    {
        if (rank_ < nodes_.hosts.size() && !nodes_.hosts[rank_].empty())
            return nodes_.hosts[rank_];
        return imp::host_name();
    }

    // Guests' jobs are signed where people log in, which may be here; and who may not
    // ask other nodes sees at least this one.
    void look_here()
    {
        if (!composed_)
            return;
        for (auto [id, command] :
             {std::pair("prolog", &question_.prolog), {"epilog", &question_.epilog}})
            if (command->empty() || question_.imp.empty())
                add(skipped(id, command->empty()
                                    ? "the DAT has none"
                                    : "run by an IMP, which there is not"));
        auto question = question_;
        question.rank = rank_;
        question.door = question.door && !is_owner();
        if (is_owner())
            question.imp.clear();
        auto answer = check_node(question);
        question_.credential = answer.credential;
        for (auto& verdict : answer.verdicts)
            add(std::move(verdict), host_here());
        if (!is_owner())
            add(check_program(answer.version, FLUX_DAT_VERSION, options_.start.program),
                host_here());
    }

    flux::Task<Result<>> ask_nodes()
    {
        if (chosen_.empty() || !composed_)
            co_return Result<>{};
        if (!is_owner()) {
            auto verdict = skipped(
                "exec",
                fmt::format("only {}, who owns this Flux, may run commands on nodes; "
                            "flux-dat, IMP, prolog, epilog, MUNGE, door directory and "
                            "clock there were not looked at",
                            user_name(owner_)),
                "log in to one of them and run flux-dat check there, which then "
                "looks at that one",
                Exit::not_permitted);
            verdict.hosts = nodes_.hosts_of(chosen_);
            add(std::move(verdict));
            co_return Result<>{};
        }
        auto environment = job_environment(current_environment(), {});
        if (!environment)
            co_return std::unexpected(environment.error());
        environment_.assign(environment->begin(), environment->end());
        std::vector<std::uint32_t> ranks(chosen_.begin(), chosen_.end());
        for (std::size_t at = 0; at < ranks.size(); at += nodes_at_once_max) {
            auto end = std::min(ranks.size(), at + nodes_at_once_max);
            flux::Deadline limit(
                loop_, options_.node_answer_time,
                Error{fmt::format("no answer within {} s", options_.node_answer_time),
                      ETIMEDOUT},
                &interrupt_);
            std::vector<flux::Task<std::vector<Verdict>>> asking;
            for (auto i = at; i < end; i++)
                asking.push_back(ask_node(ranks[i], limit.interrupt()));
            auto answers = co_await flux::when_all(std::move(asking));
            for (std::size_t i = 0; i < answers.size(); i++)
                for (auto& verdict : answers[i])
                    add(std::move(verdict), host_of(ranks[at + i]));
            if (interrupt_.reason())
                co_return std::unexpected(*interrupt_.reason());
        }
        co_return Result<>{};
    }

    std::string host_of(std::uint32_t rank) const
    {
        return nodes_.hosts_of(flux::Idset(rank)).front();
    }

    flux::Task<std::vector<Verdict>> ask_node(std::uint32_t rank,
                                              flux::Interrupt& limit)
    {
        auto question = question_;
        question.rank = rank;
        flux::Command command;
        command.cmdline = {options_.start.program, "check-node",
                           flux::dump_json(to_json(question))};
        command.environment = environment_;
        auto began = machine_clock();
        auto ran = co_await flux::run_command(parent_, rank, std::move(command),
                                              "rexec", &limit);
        auto ended = machine_clock();
        std::vector<Verdict> out;
        if (!ran.ok()) {
            out.push_back(did_not_run(ran));
            co_return out;
        }
        auto json = flux::parse_json(ran.out);
        auto answer = json ? node_answer_from_json(*json)
                           : Result<NodeAnswer>(std::unexpected(json.error()));
        if (!answer) {
            out.push_back(another_version(answer.error().message));
            co_return out;
        }
        out.push_back(passed("exec", "commands run there"));
        out.push_back(
            check_program(answer->version, FLUX_DAT_VERSION, options_.start.program));
        out.push_back(
            check_clock(answer->time - (began + ended) / 2, (ended - began) / 2));
        for (auto& verdict : answer->verdicts) {
            if (verdict.id == "munge" && verdict.found == Found::ok)
                if (auto here = accept_credential(answer->credential, geteuid()); !here)
                    verdict = failed("munge",
                                     "what it encodes is not accepted here: "
                                         + here.error().message,
                                     munge_remedy);
            out.push_back(std::move(verdict));
        }
        co_return out;
    }

    Verdict another_version(const std::string& why) const
    {
        return failed(
            "flux-dat",
            fmt::format("{} is of another version: {}", options_.start.program, why),
            fmt::format("install flux-dat {} there, {}", FLUX_DAT_VERSION, keep_out));
    }

    // Why the question was not answered.
    Verdict did_not_run(const flux::CommandResult& ran) const
    {
        constexpr int cannot_run = 126, not_found = 127; // as shells have it
        int status = WIFEXITED(ran.wait_status) ? WEXITSTATUS(ran.wait_status) : -1;
        int errnum = ran.error ? ran.error->errnum : 0;
        if (errnum == ENOENT || errnum == EACCES || status == not_found
            || status == cannot_run)
            return failed("flux-dat",
                          fmt::format("{} is not there or cannot be executed",
                                      options_.start.program),
                          fmt::format("install flux-dat {} there, {}", FLUX_DAT_VERSION,
                                      keep_out));
        if (errnum == EPERM)
            return skipped("exec", ran.error->message,
                           "run flux-dat check on @NODES@, too", Exit::not_permitted);
        if (errnum == ETIMEDOUT || errnum == EHOSTUNREACH)
            return failed(
                "exec",
                errnum == ETIMEDOUT ? ran.error->message : "its broker is not there",
                std::string("flux overlay status tells what is with it, ") + keep_out);
        if (ran.error)
            return failed("exec", ran.error->message, keep_out);
        auto said = flux::lines_of(ran.err);
        if (status >= 0)
            return another_version(said.empty() ? fmt::format("exit status {}", status)
                                                : std::string(said.back()));
        return failed("exec",
                      fmt::format("ended by signal {}", WTERMSIG(ran.wait_status)),
                      keep_out);
    }

    flux::Loop& loop_;
    flux::Connection& parent_;
    PreflightOptions& options_;
    flux::Interrupt& interrupt_;
    Asked asked_;
    std::vector<Verdict> verdicts_;
    uid_t owner_ = static_cast<uid_t>(-1);
    std::uint32_t rank_ = 0;
    Json config_;
    std::string queue_;
    Nodes nodes_;
    flux::Idset chosen_; // the ranks that a DAT may get, as far as they are up
    std::optional<conf::Composed> composed_;
    NodeQuestion question_;
    std::vector<std::pair<std::string, std::string>> environment_;
};

} // namespace

flux::Task<Result<std::vector<Verdict>>> preflight(flux::Loop& loop,
                                                   flux::Connection& parent,
                                                   PreflightOptions options,
                                                   flux::Interrupt& interrupt)
{
    // Whatever is asked, of a broker that hangs: that is what a check is for.
    flux::InterruptScope closing(&interrupt, [&parent] { parent.close(); });
    Preflight flow(loop, parent, options, interrupt);
    auto verdicts = co_await flow.run();
    if (interrupt.reason())
        co_return std::unexpected(*interrupt.reason());
    co_return verdicts;
}

std::vector<Verdict> preflight_without_parent(const Error& why)
{
    std::vector<Verdict> out;
    out.push_back(
        failed_with("flux", why, "flux dmesg, and whoever runs this Flux, tell more"));
    for (const char* id : {"submit", "queue", "limits", "nodes", "configuration",
                           "window", "name", "exec"})
        out.push_back(skipped(id, "there is no Flux to ask"));
    return in_order(std::move(out));
}

} // namespace fluxdat::dat
