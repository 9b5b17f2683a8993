// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/start_options.h"

#include "cli/command.h"
#include "lib/clock.h"
#include "lib/flux/datetime.h"
#include "lib/flux/text.h"
#include "lib/program.h"

namespace fluxdat::cli {

namespace {

constexpr const char* default_name = "dat";

Result<int> parse_urgency(const std::string& text)
{
    if (text == "default")
        return flux::urgency_default;
    if (text == "hold")
        return flux::urgency_hold;
    if (text == "expedite")
        return flux::urgency_expedite;
    auto value = number<int>(text);
    if (value && *value >= flux::urgency_hold && *value <= flux::urgency_expedite)
        return *value;
    return fail(Exit::usage,
                "--urgency {}: use 0 to 31, \"hold\", \"expedite\" or \"default\"",
                text);
}

} // namespace

void StartArguments::add_to(CLI::App& command, const std::string& timeout_help)
{
    request.add_to(command);
    command.add_option("--name,--job-name", name,
                       "What to call the DAT (default \"dat\")");
    guests.add_to(command);
    add_list_option(command, "--manager", managers, "USER,...",
                    "Who may change the guest list besides the owner (repeatable)");
    window.add_to(command);
    command.add_option("--begin-time", begin_time, "Not before this time")
        ->type_name("+FSD|TIME");
    command
        .add_option("--early", early,
                    "Before --begin-time by more than this, or after the window, "
                    "do nothing and succeed")
        ->type_name("FSD");
    command.add_option("--urgency", urgency, "0 to 31, hold, expedite or default (16)");
    configuration.add_to(command);
    doors.add_to(command);
    command.add_flag("--if-not-running", if_not_running,
                     "With a DAT of that name there already, print its id and "
                     "succeed");
    command.add_flag("--no-wait", no_wait,
                     "Do not wait until guests can work; print the id at once");
    auto* timeout_option =
        command.add_option("--timeout", timeout, timeout_help)->type_name("FSD");
    command.add_flag("--cancel-on-timeout", cancel_on_timeout, "The job does not stay")
        ->needs(timeout_option);
}

Result<dat::Submission> StartArguments::submission() const
{
    dat::Submission submission;
    submission.name = name.value_or(default_name);
    if (auto good = dat::check_name(submission.name); !good)
        return std::unexpected(good.error());
    if (auto applied = request.apply_to(submission); !applied)
        return std::unexpected(applied.error());
    if (begin_time) {
        auto when = flux::parse_begin_time(*begin_time, wall_clock());
        if (!when)
            return fail(Exit::usage, "--begin-time: {}", when.error().message);
        submission.begin_time = *when;
    }
    return submission;
}

Result<dat::Timeliness> StartArguments::keep_to_window(dat::StartOptions& options) const
{
    auto seconds = seconds_of("--early", *early);
    if (!seconds)
        return std::unexpected(seconds.error());
    if (!options.submission.begin_time)
        return fail(Exit::usage, "--early: needs a --begin-time");
    if (begin_time->starts_with('+') || *begin_time == "now")
        return fail(Exit::usage,
                    "--early: needs a --begin-time of the calendar; {} is from "
                    "each call on anew",
                    *begin_time);
    dat::FixedWindow fixed{*options.submission.begin_time,
                           options.submission.time_limit, *seconds};
    double now = wall_clock();
    auto left = dat::limit_from(fixed, now);
    options.limit_is_rest = left < options.submission.time_limit;
    options.submission.window = options.submission.time_limit;
    options.submission.time_limit = left;
    return dat::timeliness(fixed, now);
}

Result<dat::StartOptions> StartArguments::options() const
{
    dat::StartOptions options;
    auto inputs = configuration.inputs();
    if (!inputs)
        return std::unexpected(inputs.error());
    options.configuration = std::move(*inputs);
    auto job = submission();
    if (!job)
        return std::unexpected(job.error());
    options.submission = std::move(*job);
    auto list = first_guest_list(guests.users, guests.groups, doors.open);
    if (!list)
        return std::unexpected(list.error());
    options.guests = std::move(*list);
    auto manager_uids = find_users(managers, "--manager");
    if (!manager_uids)
        return std::unexpected(manager_uids.error());
    options.managers = std::move(*manager_uids);
    auto wish = window.wish();
    if (!wish)
        return std::unexpected(wish.error());
    // Of the window as it was asked for: one that is started late (--early) is
    // shorter, and what it is too short for then is passed over.
    auto good =
        dat::check_window(wish->over({{}, 0, 0}), options.submission.time_limit);
    if (!good)
        return std::unexpected(good.error());
    options.window = std::move(*wish);
    if (urgency) {
        auto value = parse_urgency(*urgency);
        if (!value)
            return std::unexpected(value.error());
        options.urgency = *value;
    }
    if (auto fits = doors.check(); !fits)
        return std::unexpected(fits.error());
    options.door_dir = doors.dir;
    options.program = program_path();
    options.unique_name = name.has_value();
    options.if_not_running = if_not_running;
    options.wait = !no_wait;
    options.cancel_on_timeout = cancel_on_timeout;
    return options;
}

std::optional<std::string>
StartArguments::begin_that_has_passed(const dat::Submission& submission) const
{
    // Cron calls in the minute that was asked for.
    constexpr double moment = 60; // seconds
    if (early || !submission.begin_time
        || *submission.begin_time > wall_clock() - moment)
        return {};
    return fmt::format("--begin-time {} is {}, which has passed: it starts now",
                       flux::in_quotes(*begin_time),
                       flux::format_datetime(*submission.begin_time));
}

} // namespace fluxdat::cli
