// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat run: a command as a job in a DAT.
#include "lib/dat/run.h"
#include "cli/command.h"
#include "lib/dat/unseen.h"
#include "lib/flux/fsd.h"
#include "lib/flux/text.h"
#include "lib/imp/base64.h"
#include "lib/say.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

// A stderr that cannot be written is no reason to end a job, unless it is the same
// broken pipe.
Result<> written(std::FILE* file, int errnum)
{
    if (errnum == 0 || (file == stderr && errnum != EPIPE))
        return {};
    return fail_errno(errnum, file == stderr ? "cannot write to stderr"
                                             : "cannot write to stdout");
}

// Writes the tasks' output as it comes; with labels, line by line.
class OutputPrinter
{
public:
    explicit OutputPrinter(bool labels) : labels_(labels) {}
    ~OutputPrinter()
    {
        for (auto& [source, rest] : unfinished_)
            if (!rest.empty())
                (void)print_line(source.first, source.second, rest + "\n");
    }

    Result<> write(const std::string& stream, const std::string& rank,
                   const std::string& data)
    {
        auto* file = stream == "stderr" ? stderr : stdout;
        if (!labels_ || rank.empty())
            return written(file, put(file, data));
        auto& rest = unfinished_[{stream, rank}];
        rest += data;
        std::size_t end;
        while ((end = rest.find('\n')) != rest.npos) {
            auto printed = print_line(stream, rank, rest.substr(0, end + 1));
            rest.erase(0, end + 1);
            if (!printed)
                return printed;
        }
        return {};
    }

private:
    static Result<> print_line(const std::string& stream, const std::string& rank,
                               const std::string& line)
    {
        auto* file = stream == "stderr" ? stderr : stdout;
        return written(file, put(file, fmt::format("{}: {}", rank, line)));
    }

    bool labels_;
    std::map<std::pair<std::string, std::string>, std::string> unfinished_;
};

// One line of JSON for each piece of output, as it comes.
Result<> print_output(const std::string& stream, const std::string& rank,
                      const std::string& data)
{
    Json line{{"version", 1}, {"event", "output"}, {"stream", stream}, {"rank", rank}};
    if (flux::valid_utf8(data)) {
        line["data"] = data;
    } else { // as in RFC 24
        line["encoding"] = "base64";
        line["data"] = imp::base64_encode(data);
    }
    return written(stdout, put(stdout, flux::dump_json(line) + "\n"));
}

void print_end(const dat::JobEnd& end, int status)
{
    Json line{{"version", 1},    {"event", "end"},   {"id", flux::format_jobid(end.id)},
              {"jobid", end.id}, {"status", status}, {"exception", nullptr}};
    if (end.exception)
        line["exception"] = end.exception->message;
    print_json(line);
}

struct Run {
    Common common;
    std::optional<std::string> selector, time_limit, cwd;
    std::optional<std::uint32_t> nodes, tasks;
    std::uint32_t cores = 1;
    std::vector<std::string> environment, command;
    bool labels = false;
    std::string last_notice;
    bool pipe_broken = false; // nobody reads the output any more

    Result<Json> jobspec() const
    {
        dat::Submission submission;
        if (time_limit) {
            auto seconds = flux::parse_time_limit(*time_limit);
            if (!seconds)
                return fail(Exit::usage, "--time-limit: {}", seconds.error().message);
            submission.time_limit = *seconds;
        }
        auto built = dat::job_environment(dat::current_environment(), environment);
        if (!built)
            return std::unexpected(built.error());
        submission.environment = std::move(*built);
        if (cwd) {
            submission.cwd = *cwd;
        } else {
            std::error_code error;
            submission.cwd = std::filesystem::current_path(error).string();
            if (error)
                return fail("cannot tell the working directory: {} (use --cwd)",
                            error.message());
        }
        dat::Tasks shape;
        shape.nodes = nodes;
        shape.tasks = tasks.value_or(nodes.value_or(1));
        shape.cores_per_task = cores;
        return dat::command_jobspec(submission, shape, command);
    }

    // The DAT's own socket, looked up in the parent. Inside a DAT (flux proxy),
    // FLUX_URI is the DAT itself, and there is no other to look up.
    flux::Task<Result<std::unique_ptr<flux::Connection>>> connect(flux::Loop& loop)
    {
        auto parent = co_await connect_parent(loop);
        if (!parent)
            co_return parent;
        auto dat = co_await dat::find_dat_to_use(loop, **parent, selector);
        if (!dat) {
            bool none = !selector && dat.error().exit == Exit::no_such_dat;
            if (none && co_await flux::attribute(**parent, "jobid"))
                co_return parent;
            co_return std::unexpected(dat.error());
        }
        auto uri = dat->uri();
        if (dat->phase() == "pending" || uri.empty())
            co_return fail("the DAT \"{}\" is {}: it takes no jobs yet",
                           dat->record.name, dat->phase());
        if (auto good = check_uri(*dat); !good)
            co_return std::unexpected(good.error());
        std::array<char, 256> host{};
        gethostname(host.data(), host.size() - 1);
        auto here = fmt::format("ssh://{}/", host.data());
        if (uri.starts_with(here)) // no ssh to where we are
            uri = "local:///" + uri.substr(here.size());
        co_return co_await flux::Connection::open(loop, std::move(uri));
    }

    // Whoever has the job may write into its memo what they like.
    static Result<> check_uri(const dat::Dat& dat)
    {
        auto parsed = flux::parse_uri(dat.uri());
        if (!parsed)
            return fail("the DAT \"{}\" ({}): the memo \"uri\" of its job is no way to "
                        "it: {}",
                        dat.record.name, flux::format_jobid(dat.job.id),
                        parsed.error().message);
        return {};
    }

    flux::Task<Result<dat::JobEnd>> run_job(flux::Loop& loop, const Json& job,
                                            flux::Interrupt& interrupt)
    {
        auto dat = co_await connect(loop);
        if (!dat)
            co_return std::unexpected(dat.error());
        OutputPrinter printer(labels);
        dat::RunEvents events;
        events.output = [&](const std::string& stream, const std::string& rank,
                            const std::string& data) {
            auto done = common.json ? print_output(stream, rank, data)
                                    : printer.write(stream, rank, data);
            pipe_broken = !done && done.error().errnum == EPIPE;
            return done;
        };
        events.notice = [&](const std::string& text) {
            if (common.json)
                (void)print_output("stderr", "", text + "\n");
            else
                for (auto line : flux::lines_of(text)) {
                    last_notice = line;
                    (void)common.report({last_notice});
                }
        };
        events.waiting = [&](flux::JobId id) {
            if (common.shows_progress())
                common.note(fmt::format("job {} is waiting for resources",
                                        flux::format_jobid(id)));
        };
        co_return co_await dat::run_job(loop, **dat, job, interrupt, events);
    }

    // As a program ends that writes to a pipe that nobody reads from any more.
    static int end_by_sigpipe()
    {
        std::signal(SIGPIPE, SIG_DFL);
        std::raise(SIGPIPE);
        return 128 + SIGPIPE;
    }

    int run()
    {
        auto job = jobspec();
        if (!job)
            return common.report(job.error());
        flux::Loop loop;
        flux::Interrupt interrupt;
        flux::InterruptSources sources(loop, interrupt);
        auto end = loop.run(run_job(loop, *job, interrupt));
        if (!end && pipe_broken)
            return end_by_sigpipe();
        if (!end)
            return common.report(end.error());
        // An exception that says what a notice said already says nothing new.
        if (end->exception
            && (last_notice.empty() || !end->exception->message.ends_with(last_notice)))
            common.report(*end->exception);
        int status = end->exit_status.value_or(1);
        if (common.json)
            print_end(*end, status);
        return finish(common, status);
    }
};

} // namespace

void add_run(CLI::App& app, Chosen& chosen, std::vector<std::string> after_dashes)
{
    auto run = std::make_shared<Run>();
    auto* command = add_command(app, run->common, "run",
                                "Run a command as a job in a DAT and wait for it");
    add_dat_option(*command, run->selector);
    auto count = [&](const char* names, auto& value, const char* text) {
        add_number_option(
            *command, names, [&value](std::uint32_t number) { value = number; }, 1,
            count_max, text);
    };
    count("-N,--nodes", run->nodes, "On how many nodes");
    count("-n,--ntasks", run->tasks, "How many tasks (default: one a node, or 1)");
    count("-c,--cores-per-task", run->cores, "Cores a task (default 1)");
    command->add_option("-t,--time-limit", run->time_limit, "A bare number is minutes")
        ->type_name("MINUTES|FSD");
    command->add_option("--cwd", run->cwd, "The job's working directory")
        ->type_name("DIR");
    command->add_option("--env", run->environment, "A rule for its environment")
        ->type_name("RULE")
        ->allow_extra_args(false);
    command->add_flag("-l,--label-io", run->labels,
                      "Put the task's rank before a line");
    // What begins with the first word that is no option is the command, options and
    // all.
    command->prefix_command();
    command->footer("After the options: COMMAND [ARGUMENT...]");
    command->callback([run, command, after_dashes, &chosen] {
        run->command = command->remaining();
        if (!run->command.empty() && run->command.front().starts_with('-'))
            throw CLI::ExtrasError({run->command.front()});
        auto first = after_dashes.begin();
        if (run->command.empty() && first != after_dashes.end())
            ++first; // the "--" was ours
        run->command.insert(run->command.end(), first, after_dashes.end());
        if (run->command.empty())
            throw CLI::RequiredError("a command to run");
        chosen = [run] { return run->run(); };
    });
}

} // namespace fluxdat::cli
