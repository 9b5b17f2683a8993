// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/find.h"

#include "lib/dat/jobspec.h"
#include "lib/flux/datetime.h"
#include "lib/flux/text.h"

#include <algorithm>
#include <cctype>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

std::string list_for_people(const std::vector<Dat>& dats)
{
    constexpr std::size_t shown_max = 8;
    std::string out;
    for (std::size_t i = 0; i < dats.size() && i < shown_max; i++)
        out += fmt::format("{}{} ({})", i ? ", " : "", dats[i].record.name,
                           flux::format_jobid(dats[i].job.id));
    if (dats.size() > shown_max)
        out += fmt::format(", and {} more", dats.size() - shown_max);
    return out;
}

} // namespace

std::string Dat::uri() const
{
    static const Json::json_pointer path("/user/uri");
    if (job.annotations.is_object() && job.annotations.contains(path)
        && job.annotations[path].is_string())
        return job.annotations[path].get<std::string>();
    return {};
}

std::string_view Dat::phase() const
{
    if (job.state == flux::job_state_inactive)
        return "ended";
    if (job.pending())
        return "pending";
    if (job.state == flux::job_state_cleanup || record.state == State::stopping)
        return "stopping";
    return record.state == State::ready ? "ready" : "starting";
}

bool Dat::degraded() const
{
    return phase() == "ready" && record.applied < record.guests.generation;
}

std::optional<Dat> dat_of(flux::JobInfo job)
{
    static const Json::json_pointer path("/user/dat");
    if (!job.annotations.is_object() || !job.annotations.contains(path))
        return {};
    auto record = record_from_json(job.annotations[path]);
    if (!record)
        return {}; // somebody's own memo of that name, or a later version's
    return Dat{std::move(job), std::move(*record)};
}

std::optional<Record> record_in(const flux::Event& event)
{
    if (event.name != "memo" || !event.context.is_object()
        || !event.context.contains("dat"))
        return {};
    auto record = record_from_json(event.context["dat"]);
    return record ? std::optional(std::move(*record)) : std::nullopt;
}

flux::Task<Result<>> post_record(flux::Connection& parent, flux::JobId id,
                                 const Record& record)
{
    Json memo{{"dat", to_json(record)}};
    return flux::memo(parent, id, std::move(memo));
}

flux::Task<Result<std::vector<Dat>>> list_dats(flux::Connection& parent)
{
    Json active{{"states", {"pending", "running"}}};
    auto jobs = co_await flux::list_jobs(parent, std::move(active));
    if (!jobs)
        co_return std::unexpected(std::move(jobs.error()));
    std::vector<Dat> dats;
    for (auto& job : *jobs)
        if (auto dat = dat_of(std::move(job)))
            dats.push_back(std::move(*dat));
    std::sort(dats.begin(), dats.end(), [](const Dat& a, const Dat& b) {
        return a.job.t_submit < b.job.t_submit;
    });
    co_return dats;
}

Result<Dat> select_dat(std::vector<Dat> dats,
                       const std::optional<std::string>& selector, uid_t caller)
{
    std::vector<Dat> matching = dats;
    if (selector) {
        auto id = flux::parse_jobid(*selector);
        std::erase_if(matching, [&](const Dat& dat) {
            return dat.record.name != *selector && !(id && dat.job.id == *id);
        });
    }
    if (matching.size() > 1) {
        auto own = matching;
        std::erase_if(own, [&](const Dat& dat) { return dat.job.userid != caller; });
        if (own.size() == 1)
            matching = std::move(own);
    }
    if (matching.size() == 1)
        return std::move(matching.front());
    if (dats.empty() && !selector)
        return fail(Exit::no_such_dat,
                    "there is no DAT here; flux-dat start makes one");
    if (dats.empty())
        return fail(Exit::no_such_dat, "there is no DAT {}, nor any other",
                    flux::in_quotes(*selector));
    if (matching.empty())
        return fail(Exit::no_such_dat, "there is no DAT {}; there is: {}",
                    flux::in_quotes(*selector), list_for_people(dats));
    if (!selector)
        return fail(Exit::several_match, "there are {} DATs: say which with --dat: {}",
                    dats.size(), list_for_people(dats));
    return fail(Exit::several_match, "{} means {} DATs: say which by its job id: {}",
                flux::in_quotes(*selector), matching.size(), list_for_people(matching));
}

namespace {

// The last DAT of that name that is over, as long as the parent remembers it.
flux::Task<std::optional<Dat>> find_last_of_name(flux::Connection& parent,
                                                 std::string name)
{
    Json constraint{{"and", Json::array({{{"name", Json::array({name})}},
                                         {{"states", Json::array({"inactive"})}}})}};
    auto jobs =
        co_await flux::list_jobs(parent, std::move(constraint), flux::Ends::yes);
    std::optional<Dat> last;
    for (auto& job : jobs ? *jobs : std::vector<flux::JobInfo>{})
        if (!last || job.t_inactive > last->job.t_inactive)
            if (auto dat = dat_of(std::move(job)); dat && dat->record.name == name)
                last = std::move(dat);
    co_return last;
}

Error has_ended(const Dat& dat, const std::string& selector)
{
    return {
        fmt::format("the DAT \"{}\" ({}) has ended, at {}; flux-dat report --dat {} "
                    "says what it was used for",
                    dat.record.name, flux::format_jobid(dat.job.id),
                    flux::format_datetime(dat.job.t_inactive), selector),
        0, Exit::no_such_dat};
}

} // namespace

flux::Task<Result<Dat>> find_dat_or_ended(flux::Connection& parent,
                                          std::optional<std::string> selector)
{
    std::optional<Dat> ended;
    // What is named by its id must not hang on what is on the jobs of others.
    if (auto id = flux::parse_jobid(selector.value_or("")); id && selector) {
        auto job = co_await flux::list_job(parent, *id);
        auto dat = job ? dat_of(std::move(*job)) : std::nullopt;
        if (dat && dat->job.active())
            co_return std::move(*dat);
        ended = std::move(dat);
    }
    auto dats = co_await list_dats(parent);
    if (!dats)
        co_return std::unexpected(std::move(dats.error()));
    auto dat = select_dat(std::move(*dats), selector, geteuid());
    if (dat || dat.error().exit != Exit::no_such_dat || !selector)
        co_return dat;
    if (ended)
        co_return std::move(*ended);
    if (auto last = co_await find_last_of_name(parent, *selector))
        co_return std::unexpected(has_ended(*last, *selector));
    co_return dat;
}

flux::Task<Result<Dat>> find_dat(flux::Connection& parent,
                                 std::optional<std::string> selector)
{
    auto dat = co_await find_dat_or_ended(parent, selector);
    if (dat && !dat->job.active())
        co_return std::unexpected(has_ended(*dat, *selector));
    co_return dat;
}

bool same_but_for_case(std::string_view a, std::string_view b)
{
    auto same = [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x))
               == std::tolower(static_cast<unsigned char>(y));
    };
    return a != b && std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

flux::Task<Result<Namesakes>> find_namesakes(flux::Connection& parent, std::string name,
                                             uid_t owner, flux::JobId except)
{
    // By all names, for those alike.
    Json constraint{{"and", Json::array({{{"userid", Json::array({owner})}},
                                         {{"states", {"pending", "running"}}}})}};
    auto jobs = co_await flux::list_jobs(parent, std::move(constraint));
    if (!jobs)
        co_return std::unexpected(std::move(jobs.error()));
    std::sort(jobs->begin(), jobs->end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    Namesakes out;
    std::vector<flux::JobInfo> unrecorded;
    for (auto& job : *jobs) {
        if (job.id == except)
            continue;
        bool over = job.state == flux::job_state_cleanup;
        auto dat = dat_of(job);
        if (dat && !over && !out.alike && same_but_for_case(dat->record.name, name))
            out.alike = std::move(dat);
        else if (job.name == name && over && dat)
            out.cleaning_up = std::move(job);
        else if (job.name == name && !over && dat && !out.holder)
            out.holder = std::move(job);
        else if (job.name == name && !over && !dat)
            unrecorded.push_back(std::move(job));
    }
    out.recorded = out.holder.has_value();
    for (auto job = unrecorded.begin(); job != unrecorded.end() && !out.holder; job++) {
        auto jobspec = co_await flux::lookup(parent, job->id, "jobspec");
        if (!jobspec)
            continue; // it ended meanwhile
        auto json = flux::parse_json(*jobspec);
        if (json && is_dat_jobspec(*json))
            out.holder = std::move(*job);
    }
    co_return out;
}

} // namespace fluxdat::dat
