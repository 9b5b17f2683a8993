// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/window.h"

#include "lib/clock.h"
#include "lib/flux/fsd.h"
#include "lib/flux/text.h"

#include <algorithm>
#include <cmath>

namespace fluxdat::dat {

namespace {

// A span as in "warn 15m".
std::string named(const char* what, double span)
{
    return fmt::format("{} {}", what, flux::format_fsd(span));
}

// A member that must be a time or a span: finite and not negative, or else nothing.
double time_at(const Json& json, const char* key, double otherwise = 0)
{
    double value = flux::number_at(json, key, otherwise);
    return std::isfinite(value) && value >= 0 ? value : otherwise;
}

// Likewise a list of them, of at most warnings_max.
std::vector<double> times_at(const Json& json, const char* key,
                             std::vector<double> otherwise = {})
{
    if (!json.is_object() || !json.contains(key) || !json[key].is_array())
        return otherwise;
    std::vector<double> times;
    for (auto& value : json[key])
        if (value.is_number() && std::isfinite(value.get<double>())
            && value.get<double>() >= 0 && times.size() < warnings_max)
            times.push_back(value.get<double>());
    return times;
}

} // namespace

double end_margin()
{
    constexpr double margin = 10, real_margin = 1;
    return std::max(margin, real_margin / real_seconds(1));
}

double Span::end() const
{
    if (!stopped())
        return expires;
    return expires > 0 ? std::min(expires, stop_at) : stop_at;
}

Plan plan_end(const WindowOptions& options, const Span& span)
{
    Plan plan;
    double end = span.end();
    if (end <= 0)
        return plan;
    double own_end = span.expires - end_margin();
    // Nothing can have been due before there was a DAT.
    auto fits = [&](double at) { return span.expires > 0 && at > span.begin; };
    auto pass_over = [&](std::string what) {
        if (!span.stopped())
            plan.passed_over.push_back(std::move(what));
    };
    for (double before : options.warn) {
        double at = end - before;
        if (at > std::max(span.begin, span.stop_asked))
            plan.warn_at.push_back(at);
        else
            pass_over(named("warn", before));
    }
    if (span.stopped())
        plan.warn_at.push_back(span.stop_asked);
    std::sort(plan.warn_at.begin(), plan.warn_at.end());

    if (span.stopped())
        plan.end_at = fits(own_end) ? std::min(own_end, span.stop_at) : span.stop_at;
    else if (fits(own_end))
        plan.end_at = own_end;
    plan.term_at = plan.end_at;
    if (options.grace > 0 && fits(own_end - options.grace))
        plan.term_at = std::min(plan.end_at, own_end - options.grace);
    else if (options.grace > 0 && span.cut_short > 0)
        plan.term_at = std::min(plan.end_at, span.cut_short);
    else if (options.grace > 0)
        pass_over(named("grace", options.grace));
    plan.close_at = plan.term_at;
    if (span.stopped())
        plan.close_at = std::min(span.stop_asked, plan.term_at);
    else if (options.close > 0 && fits(span.expires - options.close))
        plan.close_at = std::min(plan.term_at, span.expires - options.close);
    else if (options.close > 0 && span.cut_short > 0)
        plan.close_at = std::min(plan.term_at, span.cut_short);
    else if (options.close > 0)
        pass_over(named("close", options.close));
    if (plan.end_at <= 0)
        pass_over("end");
    return plan;
}

Span expiring_at(double expires, const WindowOptions& options, Span span, double now)
{
    auto too_short = [&](const Span& of, double at) {
        return of.expires > 0 && at <= of.begin;
    };
    auto closes_late = [&](const Span& of) {
        return options.close > 0 && too_short(of, of.expires - options.close);
    };
    auto ends_abruptly = [&](const Span& of) {
        return options.grace > 0
               && too_short(of, of.expires - end_margin() - options.grace);
    };
    Span before = span;
    span.expires = expires;
    if (!closes_late(span) && !ends_abruptly(span))
        span.cut_short = 0;
    else if ((closes_late(span) && !closes_late(before))
             || (ends_abruptly(span) && !ends_abruptly(before)))
        span.cut_short = now;
    return span;
}

Due due(const Window& window, double now)
{
    auto& plan = window.plan;
    auto is_due = [&](double at, double done) { return at > 0 && at <= now && !done; };
    Due due;
    due.end = is_due(plan.end_at, 0);
    if (due.end)
        return due;
    due.close = is_due(plan.close_at, window.closed);
    due.term = is_due(plan.term_at, window.termed);
    for (double at : plan.warn_at)
        due.warn = due.warn || (at <= now && at > window.warned);
    return due;
}

double next_after(const Plan& plan, double now)
{
    double next = 0;
    auto take = [&](double at) {
        if (at > now && (next <= 0 || at < next))
            next = at;
    };
    for (double at : plan.warn_at)
        take(at);
    take(plan.close_at);
    take(plan.term_at);
    take(plan.end_at);
    return next;
}

Json to_json(const Window& window)
{
    Json json{{"warn", window.options.warn},
              {"close", window.options.close},
              {"grace", window.options.grace}};
    if (window.span.begin <= 0)
        return json;
    json.update({{"begin", window.span.begin},
                 {"expires", window.span.expires},
                 {"stop_asked", window.span.stop_asked},
                 {"cut_short", window.span.cut_short},
                 {"warn_at", window.plan.warn_at},
                 {"close_at", window.plan.close_at},
                 {"term_at", window.plan.term_at},
                 {"end_at", window.plan.end_at},
                 {"passed_over", window.plan.passed_over},
                 {"warned", window.warned},
                 {"closed", window.closed},
                 {"termed", window.termed}});
    return json;
}

Window window_from_json(const Json& json, double stop_at)
{
    Window window;
    const WindowOptions defaults;
    window.options = {times_at(json, "warn", defaults.warn),
                      time_at(json, "close", defaults.close),
                      time_at(json, "grace", defaults.grace)};
    window.span = {time_at(json, "begin"), time_at(json, "expires"),
                   time_at(json, "stop_asked"), stop_at, time_at(json, "cut_short")};
    window.warned = time_at(json, "warned");
    window.closed = time_at(json, "closed");
    window.termed = time_at(json, "termed");
    // Not read but made: it follows from the rest, and what is read is somebody's word.
    if (window.span.begin > 0)
        window.plan = plan_end(window.options, window.span);
    return window;
}

Result<std::vector<double>> parse_warnings(const std::string& text)
{
    std::vector<double> warnings;
    if (text == "none")
        return warnings;
    for (std::size_t begin = 0; begin <= text.size();) {
        auto comma = std::min(text.find(',', begin), text.size());
        auto seconds = flux::parse_fsd(text.substr(begin, comma - begin));
        if (!seconds)
            return std::unexpected(seconds.error());
        if (!std::isfinite(*seconds) || *seconds <= 0)
            return fail(Exit::usage,
                        "\"{}\": a warning comes some time before the end (or "
                        "give \"none\")",
                        text.substr(begin, comma - begin));
        warnings.push_back(*seconds);
        begin = comma + 1;
    }
    std::sort(warnings.rbegin(), warnings.rend());
    warnings.erase(std::unique(warnings.begin(), warnings.end()), warnings.end());
    if (warnings.size() > warnings_max)
        return fail(Exit::usage, "{} warnings are too many: at most {} are possible",
                    warnings.size(), warnings_max);
    return warnings;
}

Result<double> parse_before_end(const std::string& text)
{
    auto seconds = flux::parse_fsd(text);
    if (seconds && !std::isfinite(*seconds))
        return fail(Exit::usage, "{}: must be finite", flux::in_quotes(text));
    return seconds;
}

WindowOptions WindowWish::over(WindowOptions options) const
{
    options.warn = warn.value_or(std::move(options.warn));
    options.close = close.value_or(options.close);
    options.grace = grace.value_or(options.grace);
    return options;
}

Result<> check_window(const WindowOptions& options, double time_limit)
{
    for (auto [name, span] :
         {std::pair("--close", options.close), std::pair("--grace", options.grace)})
        if (time_limit > 0 && span > time_limit)
            return fail(Exit::usage, "{} {}: longer than the DAT's time limit of {}",
                        name, flux::format_fsd(span), flux::format_fsd(time_limit));
    return {};
}

} // namespace fluxdat::dat
