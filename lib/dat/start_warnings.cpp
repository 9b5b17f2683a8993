// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/start_warnings.h"

#include "lib/flux/fsd.h"

#include <cmath>

namespace fluxdat::dat {

namespace {

std::string nodes_text(std::uint32_t count)
{
    return fmt::format("{} node{}", count, count == 1 ? "" : "s");
}

// What is passed over is told as "warn 15m": whether somebody asked for it.
bool is_asked_for(const WindowWish& wish, std::string_view what)
{
    return (wish.warn && what.starts_with("warn "))
           || (wish.close && what.starts_with("close "))
           || (wish.grace && what.starts_with("grace "));
}

} // namespace

std::vector<std::string> window_warnings(const WindowWish& wish,
                                         const WindowOptions& options, double limit)
{
    std::vector<std::string> out;
    if (limit <= 0 || !std::isfinite(limit)) {
        std::string asked;
        auto add = [&asked](bool is_asked, const char* option) {
            if (is_asked)
                asked += (asked.empty() ? "" : ", ") + std::string(option);
        };
        add(wish.warn && !wish.warn->empty(), "--warn");
        add(wish.close.has_value(), "--close");
        add(wish.grace.has_value(), "--grace");
        if (!asked.empty())
            out.push_back(fmt::format("the DAT has no end, as there is no time limit "
                                      "(-t): nothing comes of {}",
                                      asked));
        return out;
    }
    constexpr double some_time = 1e9;
    for (auto& what : plan_end(options, {some_time, some_time + limit}).passed_over)
        if (is_asked_for(wish, what))
            out.push_back(fmt::format("{} is too long before the end of a DAT of {}: "
                                      "it is passed over",
                                      "--" + what, flux::format_fsd(limit)));
    return out;
}

Difference difference(const flux::JobInfo& job, const Submission& submission)
{
    constexpr double rounding = 1; // seconds
    Difference out;
    if (job.nnodes > 0 && job.nnodes != submission.nodes)
        out.nodes = fmt::format("{}, not {}", nodes_text(job.nnodes), submission.nodes);
    if (submission.time_limit > 0
        && std::abs(job.duration - submission.time_limit) > rounding)
        out.time = fmt::format(
            "{}, not for {}",
            job.duration > 0 ? "for " + flux::format_fsd(job.duration) : "without end",
            flux::format_fsd(submission.time_limit));
    return out;
}

flux::Task<bool> is_stand_in(flux::Connection& parent, std::string imp)
{
    auto method = co_await flux::attribute(parent, "broker.boot-method");
    auto rundir = co_await flux::attribute(parent, "rundir");
    co_return method&&* method == "sandbox"
        && rundir&& imp == *rundir + "/bin/flux-imp";
}

} // namespace fluxdat::dat
