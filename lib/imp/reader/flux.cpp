// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/reader/flux.h"

#include "lib/flux/connection.h"
#include "lib/flux/idset.h"
#include "lib/flux/jobid.h"
#include "lib/flux/services.h"

#include <cerrno>
#include <cstdlib>

namespace fluxdat::imp::reader {

namespace {

using flux::Json;

std::unexpected<Error> fail_from(const std::string& what, const fluxdat::Error& error)
{
    return fail(what + ": " + error.message, error.errnum);
}

struct Answers {
    std::uint32_t rank = 0;
    Json lookup; // {"id", "J", "R"}
};

flux::Task<fluxdat::Result<Answers>> ask(flux::Loop& loop, const FluxJob& job,
                                         flux::Interrupt& interrupt)
{
    auto connection = co_await flux::Connection::open(loop, job.uri, &interrupt);
    if (!connection)
        co_return std::unexpected(connection.error());
    Json keys = {{"id", job.id}, {"keys", {"J", "R"}}, {"flags", 0}};
    Json name = {{"name", "rank"}};
    std::vector<flux::Task<fluxdat::Result<Json>>> calls;
    calls.push_back(
        (*connection)->rpc("attr.get", std::move(name), flux::nodeid_any, &interrupt));
    calls.push_back(
        (*connection)
            ->rpc("job-info.lookup", std::move(keys), flux::nodeid_any, &interrupt));
    auto answers = co_await flux::when_all(std::move(calls));
    if (!answers[1] && answers[1].error().errnum == ENOENT)
        answers[1].error().message = "there is no such job, or it has no J or R yet";
    for (auto& answer : answers)
        if (!answer)
            co_return std::unexpected(std::move(answer.error()));
    std::string text = flux::text_at(*answers[0], "value");
    auto rank = flux::parse_idset(text);
    if (!rank || rank->size() != 1)
        co_return fluxdat::fail("attr.get: the broker's rank is {:?}", text);
    co_return Answers{*rank->first(), std::move(*answers[1])};
}

// The ids of one kind in the children of an R_lite entry.
Result<Json> ids_of(const Json& children, const char* kind)
{
    Json ids = Json::array();
    if (!children.contains(kind))
        return ids;
    auto set = flux::parse_idset(flux::text_at(children, kind));
    if (!set)
        return fail_from(std::string("R: execution.R_lite: children.") + kind,
                         set.error());
    for (std::uint32_t id : *set)
        ids.push_back(id);
    return ids;
}

} // namespace

Result<FluxJob> find_flux_job(const std::vector<std::string>& arguments)
{
    const char* uri = std::getenv("FLUX_URI");
    if (!uri || !*uri)
        return fail("FLUX_URI is not set: the reader flux works where a Flux broker "
                    "starts the IMP",
                    ENOENT);
    auto parsed = flux::parse_uri(uri);
    if (!parsed || parsed->scheme != flux::Uri::Scheme::local)
        return fail("FLUX_URI " + in_quotes(uri)
                        + " is not the local:// address of a broker on this host",
                    EINVAL);
    const char* in_environment = std::getenv("FLUX_JOB_ID");
    if (arguments.empty() && (!in_environment || !*in_environment))
        return fail("there is no job id: neither an argument after the job shell, nor "
                    "FLUX_JOB_ID",
                    ENOENT);
    const std::string text = arguments.empty() ? in_environment : arguments.front();
    auto id = flux::parse_jobid(text);
    if (!id)
        return fail("the "
                        + std::string(arguments.empty()
                                          ? "FLUX_JOB_ID"
                                          : "argument after the job shell")
                        + " " + in_quotes(text) + " is no job id",
                    EINVAL);
    return FluxJob{uri, *id};
}

Result<nlohmann::json> read_flux(const FluxJob& job)
{
    flux::Loop loop;
    flux::Interrupt interrupt;
    flux::InterruptSources sources(
        loop, interrupt, flux_answer_seconds_max,
        fluxdat::Error{fmt::format("no answer within {} s", flux_answer_seconds_max),
                       ETIMEDOUT},
        flux::InterruptSources::Signals::ignore);
    const std::string where =
        "job " + flux::format_jobid_ascii(job.id) + " at " + job.uri;
    auto answers = loop.run(ask(loop, job, interrupt));
    if (!answers)
        return fail_from(where, answers.error());
    std::string signed_jobspec = flux::text_at(answers->lookup, "J");
    if (signed_jobspec.empty())
        return fail(where + ": job-info.lookup gave no J", EPROTO);
    auto resources =
        local_resources(flux::text_at(answers->lookup, "R"), answers->rank);
    if (!resources)
        return fail(where + ": " + resources.error().message, resources.error().errnum);
    return Json{{"J", std::move(signed_jobspec)}, {"R_local", std::move(*resources)}};
}

Result<nlohmann::json> local_resources(std::string_view R, std::uint32_t rank)
{
    auto parsed = flux::parse_json(R);
    if (!parsed)
        return fail_from("R", parsed.error());
    if (flux::integer_at<std::int64_t>(*parsed, "version") != 1)
        return fail("R: its version is not 1", EPROTO);
    const Json execution = parsed->value("execution", Json());
    const Json list =
        execution.is_object() ? execution.value("R_lite", Json()) : Json();
    if (!list.is_array())
        return fail("R: execution.R_lite is no array", EPROTO);
    for (const Json& entry : list) {
        auto ranks = flux::parse_idset(flux::text_at(entry, "rank"));
        if (!ranks)
            return fail_from("R: execution.R_lite: rank", ranks.error());
        if (!ranks->contains(rank))
            continue;
        const Json children = entry.value("children", Json());
        auto cores = ids_of(children, "core");
        if (!cores)
            return std::unexpected(cores.error());
        auto gpus = ids_of(children, "gpu");
        if (!gpus)
            return std::unexpected(gpus.error());
        return Json{{"cpu", std::move(*cores)}, {"gpu", std::move(*gpus)}};
    }
    return fail("R: rank " + std::to_string(rank)
                    + ", where this IMP runs, has no part of the job",
                EPROTO);
}

} // namespace fluxdat::imp::reader
