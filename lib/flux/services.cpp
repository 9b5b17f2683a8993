// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/services.h"

#include "lib/clock.h"
#include "lib/flux/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <unistd.h>

namespace fluxdat::flux {

namespace {

std::unexpected<Error> incomplete(const char* topic, const char* key)
{
    return std::unexpected(
        Error{fmt::format("{}: the answer lacks \"{}\"", topic, key), EPROTO});
}

JobInfo job_info(const Json& job)
{
    JobInfo info;
    info.id = integer_at<JobId>(job, "id");
    info.userid = integer_at<std::uint32_t>(job, "userid", userid_unknown);
    info.name = text_at(job, "name");
    info.state = integer_at<unsigned>(job, "state");
    info.t_submit = number_at(job, "t_submit");
    info.t_run = number_at(job, "t_run");
    info.t_inactive = number_at(job, "t_inactive");
    info.t_cleanup = number_at(job, "t_cleanup");
    info.exception_type = text_at(job, "exception_type");
    info.exception_note = text_at(job, "exception_note");
    info.nnodes = integer_at<std::uint32_t>(job, "nnodes");
    info.ranks = text_at(job, "ranks");
    info.nodelist = text_at(job, "nodelist");
    info.duration = number_at(job, "duration");
    info.expiration = number_at(job, "expiration");
    if (auto found = job.find("annotations"); found != job.end() && found->is_object())
        info.annotations = *found;
    if (auto found = job.find("dependencies"); found != job.end() && found->is_array())
        for (auto& dependency : *found)
            if (dependency.is_string())
                info.dependencies.push_back(dependency.get<std::string>());
    return info;
}

// The attributes that JobInfo holds.
Json job_attributes()
{
    return {"userid",     "name",        "state",       "t_submit", "t_run",
            "t_inactive", "nnodes",      "ranks",       "nodelist", "duration",
            "expiration", "annotations", "dependencies"};
}

Task<Result<>> call(Connection& flux, std::string topic, Json payload)
{
    auto answer = co_await flux.rpc(std::move(topic), std::move(payload));
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    co_return Result<>{};
}

int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

Result<std::string> base64_decode(std::string_view text)
{
    std::string out;
    while (text.ends_with('='))
        text.remove_suffix(1);
    unsigned bits = 0;
    int count = 0;
    for (char c : text) {
        int value = base64_value(c);
        if (value < 0)
            return std::unexpected(Error{"output is not valid base64", EPROTO});
        bits = bits << 6 | static_cast<unsigned>(value);
        count += 6;
        if (count >= 8) {
            count -= 8;
            out.push_back(static_cast<char>(bits >> count & 0xff));
        }
    }
    return out;
}

void append_bounded(std::string& out, const std::string& data)
{
    out.append(data, 0, command_output_max - std::min(command_output_max, out.size()));
}

} // namespace

Task<Result<std::string>> attribute(Connection& flux, std::string name)
{
    Json payload{{"name", name}};
    auto answer = co_await flux.rpc("attr.get", std::move(payload));
    if (!answer)
        co_return std::unexpected(
            Error{fmt::format("broker attribute {}: {}", name, answer.error().message),
                  answer.error().errnum, answer.error().exit});
    auto value = answer->find("value");
    if (value == answer->end() || !value->is_string())
        co_return incomplete("attr.get", "value");
    co_return value->get<std::string>();
}

Task<Result<std::uint32_t>> attribute_number(Connection& flux, std::string name)
{
    auto text = co_await attribute(flux, name);
    if (!text)
        co_return std::unexpected(std::move(text.error()));
    std::uint32_t number = 0;
    auto [end, status] =
        std::from_chars(text->data(), text->data() + text->size(), number);
    if (status != std::errc{} || end != text->data() + text->size())
        co_return fail("broker attribute {}: \"{}\" is no number", name, *text);
    co_return number;
}

// By the file that marks a sandbox's directory (sandbox/session.h): all others are not
// asked for their clock.
static bool is_of_a_sandbox(const std::string& uri)
{
    constexpr std::string_view local = "local://";
    if (!uri.starts_with(local))
        return false;
    auto run = std::filesystem::path(uri.substr(local.size())).parent_path();
    return access((run.parent_path() / "flux-dat-sandbox").c_str(), F_OK) == 0;
}

Task<Result<>> same_clock(Connection& flux)
{
    if (clock_setting().empty() && !is_of_a_sandbox(flux.uri()))
        co_return Result<>{};
    auto setting = co_await attribute(flux, clock_attribute);
    if (!setting && setting.error().errnum != ENOENT)
        co_return std::unexpected(std::move(setting.error()));
    if (!setting && clock_setting().empty())
        co_return Result<>{};
    if (clock_setting().empty())
        co_return fail(Exit::usage,
                       "{} is not set, and the sandbox at {} has a clock of its own: "
                       "eval \"$(flux-dat sandbox env)\" sets it",
                       clock_variable, flux.uri());
    if (!setting)
        co_return fail(Exit::usage,
                       "{} is set, but {} goes by this machine's clock: unset it",
                       clock_variable, flux.uri());
    if (*setting != clock_setting())
        co_return fail(Exit::usage,
                       "{} is {}, but the sandbox at {} has {}: eval \"$(flux-dat "
                       "sandbox env)\" sets it right",
                       clock_variable, clock_setting(), flux.uri(), *setting);
    co_return Result<>{};
}

Task<Result<Json>> configuration(Connection& flux)
{
    co_return co_await flux.rpc("config.get");
}

Task<Result<JobId>> submit(Connection& flux, std::string signed_jobspec, int urgency)
{
    Json payload{{"J", std::move(signed_jobspec)}, {"urgency", urgency}, {"flags", 0}};
    auto answer = co_await flux.rpc("job-ingest.submit", std::move(payload));
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    auto id = answer->find("id");
    if (id == answer->end() || !id->is_number_unsigned())
        co_return incomplete("job-ingest.submit", "id");
    co_return id->get<JobId>();
}

std::optional<double> begin_time_in(std::string_view dependency)
{
    constexpr std::string_view prefix = "begin-time=";
    if (!dependency.starts_with(prefix))
        return {};
    dependency.remove_prefix(prefix.size());
    double time = 0;
    auto [end, status] =
        std::from_chars(dependency.data(), dependency.data() + dependency.size(), time);
    if (status != std::errc() || !std::isfinite(time) || time <= 0)
        return {};
    return time;
}

double JobInfo::begin_time() const
{
    for (auto& dependency : dependencies)
        if (auto time = begin_time_in(dependency))
            return *time;
    return 0;
}

// An answer that is not as a message or as JSON should be, or too large.
static bool unreadable(const Error& error)
{
    return error.errnum == EPROTO || error.errnum == EMSGSIZE;
}

// Anybody's memo is in the answer for all jobs, and may make it too large to read. One
// message a job then leaves out no others than those whose own cannot be read.
static Task<Result<std::vector<JobInfo>>> list_jobs_singly(Connection& flux,
                                                           Json payload)
{
    std::vector<JobInfo> jobs;
    std::optional<Error> error; // the last answer's
    auto answers = flux.stream("job-list.list", std::move(payload));
    while (true) {
        auto answer = co_await answers.next();
        if (!answer && (!unreadable(answer.error()) || flux.lost()))
            co_return std::unexpected(std::move(answer.error()));
        if (!answer) {
            error = std::move(answer.error());
            continue;
        }
        if (!*answer) // an error that was the end is the service's own
            break;
        error.reset();
        auto list = (*answer)->find("jobs");
        if (list != (*answer)->end() && list->is_array())
            for (auto& job : *list)
                if (job.is_object())
                    jobs.push_back(job_info(job));
    }
    if (error && jobs.empty())
        co_return std::unexpected(std::move(*error));
    co_return jobs;
}

Task<Result<std::vector<JobInfo>>> list_jobs(Connection& flux, Json constraint,
                                             Ends ends)
{
    auto attributes = job_attributes();
    if (ends == Ends::yes)
        for (const char* name : {"t_cleanup", "exception_type", "exception_note"})
            attributes.push_back(name);
    // RFC 43 recommends streaming for long lists; Flux 0.88 then sends one message a
    // job, which takes several times as long as one message for all.
    Json payload{{"max_entries", 0},
                 {"attrs", std::move(attributes)},
                 {"constraint", std::move(constraint)}};
    auto answer = co_await flux.rpc("job-list.list", payload);
    if (!answer && unreadable(answer.error()) && !flux.lost())
        if (auto jobs = co_await list_jobs_singly(flux, std::move(payload)))
            co_return jobs;
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    auto list = answer->find("jobs");
    if (list == answer->end() || !list->is_array())
        co_return incomplete("job-list.list", "jobs");
    std::vector<JobInfo> jobs;
    for (auto& job : *list)
        if (job.is_object())
            jobs.push_back(job_info(job));
    co_return jobs;
}

Task<Result<JobInfo>> list_job(Connection& flux, JobId id)
{
    Json payload{{"id", id}, {"attrs", job_attributes()}};
    auto answer = co_await flux.rpc("job-list.list-id", std::move(payload));
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    auto job = answer->find("job");
    if (job == answer->end() || !job->is_object())
        co_return incomplete("job-list.list-id", "job");
    co_return job_info(*job);
}

Task<Result<JobCounts>> job_counts(Connection& flux)
{
    auto answer = co_await flux.rpc("job-list.job-stats", Json::object());
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    auto states = answer->find("job_states");
    if (states == answer->end())
        co_return incomplete("job-list.job-stats", "job_states");
    auto count = [](const Json& in, const char* name) {
        return integer_at<std::uint64_t>(in, name);
    };
    JobCounts counts;
    for (auto name : {"depend", "priority", "sched"})
        counts.pending += count(*states, name);
    for (auto name : {"run", "cleanup"})
        counts.running += count(*states, name);
    counts.done = count(*answer, "successful");
    counts.failed = count(*answer, "failed") + count(*answer, "timeout");
    counts.canceled = count(*answer, "canceled");
    co_return counts;
}

Task<Result<>> memo(Connection& flux, JobId id, Json memo)
{
    Json payload{{"id", id}, {"memo", std::move(memo)}};
    return call(flux, "job-manager.memo", std::move(payload));
}

Task<Result<>> raise(Connection& flux, JobId id, std::string type, int severity,
                     std::string note)
{
    Json payload{{"id", id},
                 {"type", std::move(type)},
                 {"severity", severity},
                 {"note", std::move(note)}};
    return call(flux, "job-manager.raise", std::move(payload));
}

Task<Result<>> kill(Connection& flux, JobId id, int signum)
{
    Json payload{{"id", id}, {"signum", signum}};
    return call(flux, "job-manager.kill", std::move(payload));
}

Task<Result<std::string>> lookup(Connection& flux, JobId id, std::string key)
{
    Json payload{{"id", id}, {"keys", Json::array({key})}, {"flags", 0}};
    auto answer = co_await flux.rpc("job-info.lookup", std::move(payload));
    if (!answer)
        co_return std::unexpected(std::move(answer.error()));
    auto value = answer->find(key);
    if (value == answer->end() || !value->is_string())
        co_return incomplete("job-info.lookup", key.c_str());
    co_return value->get<std::string>();
}

Result<Event> parse_event(std::string_view line)
{
    auto json = parse_json(line);
    if (!json)
        return std::unexpected(
            Error{fmt::format("eventlog: {}", json.error().message), EPROTO});
    Event event;
    event.size = line.size();
    event.timestamp = number_at(*json, "timestamp");
    event.name = text_at(*json, "name");
    if (event.name.empty())
        return std::unexpected(Error{"eventlog: an event without a name", EPROTO});
    if (auto context = json->find("context"); context != json->end())
        event.context = *context;
    return event;
}

EventlogWatch::EventlogWatch(Connection& flux, JobId id, const std::string& path)
    : stream_(flux.stream("job-info.eventlog-watch",
                          Json{{"id", id}, {"path", path}, {"flags", 0}}, nodeid_any,
                          "job-info.eventlog-watch-cancel"))
{
}

Task<Result<std::optional<Event>>> EventlogWatch::next(Interrupt* interrupt)
{
    while (events_.empty()) {
        auto answer = co_await stream_.next(interrupt);
        if (!answer)
            co_return std::unexpected(std::move(answer.error()));
        if (!*answer)
            co_return std::optional<Event>{};
        // One event a message as observed; several lines are allowed for.
        std::string text = text_at(**answer, "event");
        for (auto line : lines_of(text))
            if (auto event = parse_event(line))
                events_.insert(events_.begin(), std::move(*event));
    }
    auto event = std::move(events_.back());
    events_.pop_back();
    co_return event;
}

Task<Result<>> wait_for_end(Connection& flux, JobId id, Interrupt* interrupt)
{
    EventlogWatch watch(flux, id, "eventlog");
    while (true) {
        auto event = co_await watch.next(interrupt);
        if (!event)
            co_return std::unexpected(std::move(event.error()));
        if (!*event || (*event)->name == "clean")
            co_return Result<>{};
    }
}

Task<CommandResult> run_command(Connection& flux, std::uint32_t rank, Command command,
                                std::string service, Interrupt* interrupt)
{
    constexpr int forward_stdout_and_stderr = 3; // flags of RFC 42
    CommandResult result;
    result.rank = rank;
    Json environment = Json::object();
    for (auto& [name, value] : command.environment)
        environment[name] = value;
    Json payload{{"cmd",
                  {{"cwd", command.cwd},
                   {"cmdline", command.cmdline},
                   {"env", environment},
                   {"opts", Json::object()},
                   {"channels", Json::array()}}},
                 {"flags", forward_stdout_and_stderr},
                 {"local_flags", 0}};
    auto answers = flux.stream(service + ".exec", std::move(payload), rank);
    bool finished = false;
    while (true) {
        auto answer = co_await answers.next(interrupt);
        if (!answer) {
            result.error = std::move(answer.error());
            co_return result;
        }
        if (!*answer) {
            if (!finished)
                result.error = Error{service + ".exec: ended without a status", EPROTO};
            co_return result;
        }
        auto type = text_at(**answer, "type");
        if (type == "finished") {
            result.wait_status = integer_at<int>(**answer, "status");
            finished = true;
        } else if (type == "output" && (*answer)->contains("io")) {
            auto& io = (**answer)["io"];
            auto data = output_data(io);
            if (!data) {
                result.error = std::move(data.error());
                co_return result;
            }
            append_bounded(text_at(io, "stream") == "stderr" ? result.err : result.out,
                           *data);
        }
    }
}

Task<std::vector<CommandResult>> run_command_on(Connection& flux, Idset ranks,
                                                Command command)
{
    std::vector<Task<CommandResult>> runs;
    for (auto rank : ranks)
        runs.push_back(run_command(flux, rank, command));
    co_return co_await when_all(std::move(runs));
}

Result<std::string> output_data(const Json& context)
{
    if (!context.is_object())
        return std::unexpected(Error{"output: no object", EPROTO});
    auto data = text_at(context, "data");
    if (text_at(context, "encoding") == "base64")
        return base64_decode(data);
    return data;
}

} // namespace fluxdat::flux
