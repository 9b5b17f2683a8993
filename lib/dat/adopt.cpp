// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/adopt.h"

#include "lib/clock.h"
#include "lib/dat/ask.h"
#include "lib/dat/changes.h"
#include "lib/dat/jobspec.h"
#include "lib/dat/ranks.h"

#include <cstdlib>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

flux::Task<AtEntrance> at_rank(flux::Connection& dat, std::uint32_t rank,
                               std::string what, std::string guests)
{
    auto path = co_await find_entrance(dat, rank, Entrance::passage);
    if (!path) {
        AtEntrance failed;
        failed.lines = {path.error().message};
        co_return failed;
    }
    co_return co_await run_at_entrance(dat, rank, Entrance::passage, std::move(what),
                                       std::move(*path), std::move(guests));
}

flux::Task<std::vector<AtEntrance>> at_all_ranks(flux::Connection& dat,
                                                 std::uint32_t size, std::string what,
                                                 std::string guests)
{
    std::vector<flux::Task<AtEntrance>> tasks;
    for (std::uint32_t rank = 0; rank < size; rank++)
        tasks.push_back(at_rank(dat, rank, what, guests));
    co_return co_await flux::when_all(std::move(tasks));
}

// Those that failed, by number and host, and why; empty if none did.
std::string failures(const std::vector<AtEntrance>& ran, const flux::Hostlist& hosts)
{
    std::string wrong;
    for (std::size_t rank = 0; rank < ran.size(); rank++)
        if (!ran[rank].good)
            wrong += fmt::format("{}rank {} ({}): {}", wrong.empty() ? "" : "; ", rank,
                                 hosts[rank], ran[rank].why());
    return wrong;
}

flux::Task<Result<>> remove_record(flux::Connection& parent, flux::JobId id)
{
    Json memo{{"dat", nullptr}, {change_key, nullptr}};
    return flux::memo(parent, id, std::move(memo));
}

class Adoption
{
public:
    Adoption(flux::Loop& loop, flux::Connection& parent, flux::JobId id,
             AdoptOptions& options, flux::Interrupt& interrupt)
        : loop_(loop), parent_(parent), id_(id), options_(options),
          interrupt_(interrupt)
    {
    }

    flux::Task<Result<Dat>> run()
    {
        auto connected = co_await connect();
        if (!connected)
            co_return std::unexpected(connected.error());
        auto fit = co_await check_configuration();
        if (!fit)
            co_return std::unexpected(fit.error());
        auto claimed = co_await claim();
        if (!claimed)
            co_return std::unexpected(claimed.error());
        auto ready = co_await open_ways();
        if (ready)
            ready = co_await start_supervisor();
        if (ready)
            ready = co_await wait_until_ready();
        if (!ready)
            co_return std::unexpected(co_await give_up(std::move(ready.error())));
        auto job = co_await flux::list_job(parent_, id_);
        if (!job)
            co_return std::unexpected(job.error());
        auto dat = dat_of(std::move(*job));
        if (!dat)
            co_return fail("the record of the job {} has gone again",
                           flux::format_jobid(id_));
        co_return std::move(*dat);
    }

private:
    std::string job() const { return "the job " + flux::format_jobid(id_); }

    flux::Task<Result<>> connect()
    {
        auto found = co_await flux::list_job(parent_, id_);
        if (!found && found.error().errnum == ENOENT)
            co_return fail(Exit::no_such_dat, "there is no job {}",
                           flux::format_jobid(id_));
        if (!found)
            co_return std::unexpected(found.error());
        if (found->userid != geteuid())
            co_return fail(Exit::not_permitted,
                           "{} is user {}'s: only its owner can adopt it", job(),
                           found->userid);
        if (!found->running())
            co_return fail("{} does not run", job());
        nodelist_ = found->nodelist;
        auto dat = dat_of(*found);
        Dat as_dat{std::move(*found), {}};
        auto uri = as_dat.uri();
        if (dat)
            co_return fail("{} is the DAT \"{}\" already", job(), dat->record.name);
        if (uri.empty())
            co_return fail("{} is no Flux instance, or not up yet: it has no URI",
                           job());
        auto connected = co_await flux::Connection::open(loop_, uri, &interrupt_);
        if (!connected)
            co_return std::unexpected(connected.error());
        dat_ = std::move(*connected);
        auto size = co_await flux::attribute_number(*dat_, "size");
        if (!size)
            co_return std::unexpected(size.error());
        auto socket = co_await find_entrance(*dat_, 0, Entrance::passage);
        if (!socket)
            co_return std::unexpected(socket.error());
        size_ = *size;
        socket_ = std::move(*socket);
        co_return Result<>{};
    }

    // What lets guests in was decided when the instance was started.
    flux::Task<Result<>> check_configuration()
    {
        static const Json::json_pointer allow("/access/allow-guest-user"),
            imp("/exec/imp");
        auto conf = co_await flux::configuration(*dat_);
        if (!conf)
            co_return std::unexpected(conf.error());
        auto missing = [&](const char* why, const char* line) {
            return fail(
                "the configuration of {} {}: it lacks {} (to be given when it is "
                "started, or with flux config load)",
                job(), why, line);
        };
        if (!conf->contains(allow) || (*conf)[allow] != true)
            co_return missing("lets no guest in", "[access] allow-guest-user = true");
        if (!conf->contains(imp) || !(*conf)[imp].is_string()
            || (*conf)[imp].get_ref<const std::string&>().empty())
            co_return missing("names no IMP, so guests' jobs could not run",
                              "[exec] imp = \"PATH\"");
        co_return Result<>{};
    }

    // The record comes before anything is done: who is killed from here on leaves an
    // adoption that can be undone. Of two at once, the first one in the eventlog goes
    // on.
    flux::Task<Result<>> claim()
    {
        file_.adopted = true;
        file_.record.name = options_.name;
        file_.record.guests = options_.guests;
        file_.record.managers = options_.managers;
        file_.record.window.options = options_.window;
        file_.record.adoption = new_change_key();
        auto posted = co_await post_record(parent_, id_, file_.record);
        if (!posted)
            co_return posted;
        EventlogSoFar log(parent_, id_);
        auto found = co_await log.read_until([this](const flux::Event& event) {
            auto record = record_in(event);
            return record && record->adoption == file_.record.adoption;
        });
        if (!found)
            co_return found;
        std::string first;
        for (auto& event : log.events())
            if (removes_record(event))
                first.clear();
            else if (auto record = record_in(event); record && first.empty())
                first = record->adoption;
        if (first == file_.record.adoption)
            co_return Result<>{};
        co_return fail("another adopt of {} was first", job());
    }

    flux::Task<Result<>> open_ways()
    {
        auto list = flux::dump_json(to_json(options_.guests));
        auto hosts = hosts_by_rank(nodelist_, size_);
        auto ran = co_await at_all_ranks(*dat_, size_, "apply", list);
        auto wrong = failures(ran, hosts);
        if (wrong.empty()) {
            ran = co_await at_all_ranks(*dat_, size_, "check", list);
            wrong = failures(ran, hosts);
        }
        if (wrong.empty())
            co_return Result<>{};
        co_return fail("{} cannot be adopted: {}", job(), wrong);
    }

    // After the record was posted: a supervisor may run already, or be about to.
    flux::Task<Error> give_up(Error why)
    {
        if (parent_.lost())
            co_return why;
        Dat dat;
        dat.job.id = id_;
        dat.job.userid = geteuid();
        dat.record.service_name = service_name(geteuid(), id_);
        dat.record.service_rank = flux::nodeid_any;
        Json nothing = Json::object();
        auto asked =
            co_await ask_supervisor(loop_, parent_, dat, "undo", std::move(nothing));
        if (asked && flux::text_at(*asked, "failed").empty()) {
            why.message += "; it is as it was";
            co_return why;
        }
        auto failed =
            co_await restore_all_ranks(*dat_, hosts_by_rank(nodelist_, size_));
        if (failed.empty()) {
            // A supervisor that comes now finds no record, and goes.
            auto removed = co_await remove_record(parent_, id_);
            if (!removed)
                failed = removed.error().message;
        }
        why.message +=
            failed.empty()
                ? "; it is as it was"
                : fmt::format("; and it is not undone (flux-dat adopt --undo "
                              "{}): {}",
                              flux::format_jobid_ascii(id_), failed);
        co_return why;
    }

    flux::Task<Result<>> start_supervisor()
    {
        flux::Command command;
        command.cmdline = {options_.program, "supervise", "--detach",
                           flux::dump_json(to_json(file_))};
        command.environment = {{"FLUX_URI", "local://" + socket_},
                               {"PATH", "/usr/bin:/bin"}};
        if (const char* local = std::getenv("FLUX_URI_RESOLVE_LOCAL"))
            command.environment.emplace_back("FLUX_URI_RESOLVE_LOCAL", local);
        if (!clock_setting().empty())
            command.environment.emplace_back(clock_variable, clock_setting());
        auto ran = co_await flux::run_command(*dat_, 0, std::move(command));
        if (ran.ok())
            co_return Result<>{};
        co_return fail("cannot start a supervisor in {}: {}", job(),
                       ran.error ? ran.error->message : ran.err);
    }

    flux::Task<Result<>> wait_until_ready()
    {
        flux::EventlogWatch watch(parent_, id_, "eventlog");
        while (true) {
            auto event = co_await watch.next(&interrupt_);
            if (!event)
                co_return std::unexpected(event.error());
            if (!*event)
                co_return fail("{} has ended", job());
            auto record = record_in(**event);
            if (record && record->adoption == file_.record.adoption
                && record->state == State::ready)
                co_return Result<>{};
        }
    }

    flux::Loop& loop_;
    flux::Connection& parent_;
    flux::JobId id_;
    AdoptOptions& options_;
    flux::Interrupt& interrupt_;
    std::unique_ptr<flux::Connection> dat_;
    std::uint32_t size_ = 0;
    DatFile file_;
    std::string nodelist_, socket_; // of rank 0
};

} // namespace

flux::Task<Result<Dat>> adopt(flux::Loop& loop, flux::Connection& parent,
                              flux::JobId id, AdoptOptions options,
                              flux::Interrupt& interrupt)
{
    Adoption adoption(loop, parent, id, options, interrupt);
    co_return co_await adoption.run();
}

namespace {

// Where there is no supervisor any more that would do it.
flux::Task<Result<>> undo_from_here(flux::Loop& loop, flux::Connection& parent,
                                    const Dat& dat)
{
    if (dat.job.userid != geteuid())
        co_return fail(Exit::not_permitted, "only its owner may undo the adoption");
    auto uri = dat.uri();
    auto instance = co_await flux::Connection::open(loop, uri);
    if (!instance)
        co_return std::unexpected(instance.error());
    auto size = co_await flux::attribute_number(**instance, "size");
    if (!size)
        co_return std::unexpected(size.error());
    auto removed = co_await remove_record(parent, dat.job.id);
    if (!removed)
        co_return removed;
    auto wrong =
        co_await restore_all_ranks(**instance, hosts_by_rank(dat.job.nodelist, *size));
    if (wrong.empty())
        co_return Result<>{};
    co_return fail(Exit::partial, "not undone on all ranks: {}", wrong);
}

} // namespace

flux::Task<Result<>> undo_adoption(flux::Loop& loop, flux::Connection& parent, Dat dat)
{
    if (dat.record.adoption.empty())
        co_return fail("the DAT \"{}\" was not adopted; flux-dat stop ends it",
                       dat.record.name);
    Json nothing = Json::object();
    auto answer =
        co_await ask_supervisor(loop, parent, dat, "undo", std::move(nothing));
    if (!answer && answer.error().errnum == ENOSYS)
        co_return co_await undo_from_here(loop, parent, dat);
    if (!answer)
        co_return std::unexpected(answer.error());
    auto wrong = flux::text_at(*answer, "failed");
    if (wrong.empty())
        co_return Result<>{};
    co_return fail(Exit::partial, "not undone on all ranks: {}", wrong);
}

flux::Task<std::string> restore_all_ranks(flux::Connection& dat, flux::Hostlist hosts)
{
    auto list = flux::dump_json(to_json(perms::GuestList{})); // which says nothing here
    auto size = static_cast<std::uint32_t>(hosts.size());
    auto ran = co_await at_all_ranks(dat, size, "restore", list);
    co_return failures(ran, hosts);
}

} // namespace fluxdat::dat
