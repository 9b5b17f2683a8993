// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/window.h"

#include "lib/flux/datetime.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <ctime>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

constexpr double begin = 1'800'000'000, hour = 3600, minute = 60;

Span lasting(double seconds)
{
    return {begin, begin + seconds, 0, 0};
}

Window window_of(const WindowOptions& options, const Span& span)
{
    Window window;
    window.options = options;
    window.span = span;
    window.plan = plan_end(options, span);
    return window;
}

} // namespace

TEST_CASE("The plan of a window: warned, closed, SIGTERM, ended before it expires")
{
    auto plan = plan_end({{900, 300}, 600, 30}, lasting(4 * hour));
    double end = begin + 4 * hour;
    CHECK(plan.warn_at == std::vector{end - 900, end - 300});
    CHECK(plan.close_at == end - 600);
    CHECK(plan.end_at == end - end_margin());
    CHECK(plan.term_at == plan.end_at - 30);
    CHECK(plan.passed_over.empty());
}

TEST_CASE("Without --close, the queues close with the SIGTERM")
{
    auto plan = plan_end({}, lasting(hour));
    CHECK(plan.close_at == plan.term_at);
}

TEST_CASE("A window without end has no plan")
{
    CHECK(plan_end({}, Span{begin, 0, 0, 0}) == Plan{});
}

TEST_CASE("A window that is cut short past its --close and --grace closes at once")
{
    const WindowOptions options{{}, 30 * minute, 10 * minute};
    double now = begin + 10 * minute;
    auto cut = expiring_at(begin + 25 * minute, options, lasting(hour), now);
    CHECK(cut.cut_short == now);
    auto plan = plan_end(options, cut);
    CHECK(plan.close_at == now);
    CHECK(plan.term_at == cut.expires - end_margin() - 10 * minute); // still fits
    CHECK(plan.passed_over.empty());
    CHECK(due(window_of(options, cut), now).close);

    // A little more or less of it changes nothing.
    auto again = expiring_at(begin + 26 * minute, options, cut, now + minute);
    CHECK(again.cut_short == now);
    // Past its --grace, too: SIGTERM at once.
    again = expiring_at(begin + 10 * minute, options, lasting(hour), begin + minute);
    plan = plan_end(options, again);
    CHECK(plan.close_at == begin + minute);
    CHECK(plan.term_at == begin + minute);
    CHECK(plan.end_at == again.expires - end_margin());
    // It has its time again.
    auto longer = expiring_at(begin + 2 * hour, options, again, now);
    CHECK(longer == lasting(2 * hour));
    // It had no end before.
    CHECK(expiring_at(begin + 25 * minute, options, Span{begin, 0, 0, 0}, now).cut_short
          == now);
    // Too short from its beginning, or nothing asked for.
    CHECK(expiring_at(begin + 24 * minute, options, lasting(25 * minute), now).cut_short
          == 0);
    CHECK(expiring_at(begin + minute, {{}, 0, 0}, lasting(hour), now).cut_short == 0);
}

TEST_CASE("What a window is too short for is passed over, and named")
{
    auto plan = plan_end({{900, 300}, 600, 30}, lasting(6 * minute));
    double end = begin + 6 * minute;
    CHECK(plan.warn_at == std::vector{end - 300});
    CHECK(plan.close_at == plan.term_at);
    CHECK(plan.term_at == end - end_margin() - 30);
    CHECK(plan.passed_over == std::vector<std::string>{"warn 15m", "close 10m"});

    plan = plan_end({{900}, 0, 30}, lasting(35));
    CHECK(plan.warn_at.empty());
    CHECK(plan.term_at == plan.end_at);
    CHECK(plan.end_at == begin + 35 - end_margin());
    CHECK(plan.passed_over == std::vector<std::string>{"warn 15m", "grace 30s"});

    // Shorter than an orderly end takes: then the parent ends it.
    plan = plan_end({{}, 0, 0}, lasting(5));
    CHECK(plan.end_at == 0);
    CHECK(plan.close_at == 0);
    CHECK(plan.passed_over == std::vector<std::string>{"end"});
}

TEST_CASE("A stop closes at once, is told at once, and ends when it says")
{
    Span span = lasting(4 * hour);
    span.stop_asked = begin + hour;
    span.stop_at = begin + hour + 30 * minute;
    auto plan = plan_end({{900, 300}, 600, 30}, span);
    CHECK(plan.close_at == span.stop_asked);
    CHECK(plan.warn_at
          == std::vector{span.stop_asked, span.stop_at - 900, span.stop_at - 300});
    CHECK(plan.end_at == span.stop_at);
    CHECK(plan.term_at == span.stop_at);
    CHECK(plan.passed_over.empty());

    // Not beyond the window.
    span.stop_at = begin + 10 * hour;
    plan = plan_end({{900}, 0, 30}, span);
    CHECK(plan.end_at == begin + 4 * hour - end_margin());
    CHECK(plan.warn_at == std::vector{span.stop_asked, begin + 4 * hour - 900});

    // Also of a DAT without end.
    plan = plan_end({{}, 0, 30}, Span{begin, 0, begin + 5, begin + 35});
    CHECK(plan.close_at == begin + 5);
    CHECK(plan.end_at == begin + 35);
}

TEST_CASE("What is due, and when something is next")
{
    auto window = window_of({{900, 300}, 600, 30}, lasting(4 * hour));
    double end = begin + 4 * hour;
    CHECK(due(window, begin).none());
    CHECK(next_after(window.plan, begin) == end - 900);
    CHECK(due(window, end - 900).warn);
    CHECK_FALSE(due(window, end - 900).close);
    window.warned = end - 900;
    CHECK(due(window, end - 899).none());
    CHECK(next_after(window.plan, end - 900) == end - 600);
    CHECK(due(window, end - 600).close);
    window.closed = end - 600;
    CHECK(due(window, end - 599).none());
    CHECK(due(window, end - 300) == Due{true, false, false, false});
    // Somebody was away for long: what is due of one kind counts once.
    CHECK(due(window, end - 35) == Due{true, false, true, false});
    // With the end, nothing else.
    CHECK(due(window, end - 5) == Due{false, false, false, true});
    CHECK(next_after(window.plan, end) == 0);
}

TEST_CASE("Nothing is due of a window without end, ever")
{
    CHECK(due(window_of({}, Span{begin, 0, 0, 0}), begin + 1e9).none());
}

TEST_CASE("An end that comes nearer makes due what was still to come")
{
    auto window = window_of({{900}, 600, 30}, lasting(4 * hour));
    window.span.expires = begin + hour;
    window.plan = plan_end(window.options, window.span);
    CHECK(due(window, begin + hour - 60) == Due{true, true, false, false});
}

TEST_CASE("An end that moves away makes due again what comes before it")
{
    auto window = window_of({{900}, 600, 30}, lasting(hour));
    window.warned = begin + hour - 900;
    window.span.expires += hour;
    window.plan = plan_end(window.options, window.span);
    CHECK(due(window, begin + hour).none());
    CHECK(due(window, begin + 2 * hour - 900).warn);
}

TEST_CASE("A window reads back as it was written")
{
    auto window = window_of({{600}, 300, 20}, lasting(hour));
    window.warned = begin + 1;
    window.closed = begin + 2;
    window.termed = begin + 3;
    auto json = to_json(window);
    auto read = window_from_json(json, 0);
    CHECK(read.options == window.options);
    CHECK(read.span == window.span);
    CHECK(read.plan == window.plan);
    CHECK(to_json(read) == json);
    // Before it has begun, what was asked for is all there is.
    Window to_come;
    CHECK(to_json(to_come)
          == Json{{"warn", {900.0, 300.0}}, {"close", 0.0}, {"grace", 30.0}});
}

TEST_CASE("What is no window is as if nothing were known of it")
{
    auto plain = window_from_json(nullptr, 0);
    CHECK(plain.options == WindowOptions{});
    CHECK(plain.plan == Plan{});
    auto odd = window_from_json({{"warn", {"x", -1, 60}},
                                 {"close", "soon"},
                                 {"grace", -5},
                                 {"begin", INFINITY},
                                 {"expires", {}}},
                                0);
    CHECK(odd.options == WindowOptions{{60}, 0, 30});
    CHECK(odd.span == Span{});
    std::vector<double> many(100, 5);
    CHECK(window_from_json({{"warn", many}}, 0).options.warn.size() == warnings_max);
}

TEST_CASE("--warn")
{
    CHECK(parse_warnings("5m,15m,300s").value() == std::vector<double>{900, 300});
    CHECK(parse_warnings("none").value().empty());
    using Catch::Contains;
    auto error_of = [](const std::string& text) {
        auto parsed = parse_warnings(text);
        REQUIRE(!parsed);
        CHECK(parsed.error().exit == Exit::usage);
        return parsed.error().message;
    };
    CHECK_THAT(error_of("soon"), Contains("soon"));
    CHECK_THAT(error_of(""), Contains("\"\""));
    CHECK_THAT(error_of("5m,"), Contains("\"\""));
    CHECK_THAT(error_of("-5m"), Contains("-5m"));
    CHECK_THAT(error_of("0"), Contains("before the end"));
    CHECK_THAT(error_of("inf"), Contains("before the end"));
    CHECK_THAT(error_of("1,2,3,4,5,6,7,8,9"), Contains("at most 8"));
    CHECK_THAT(parse_before_end("inf").error().message, Contains("finite"));
}

TEST_CASE("More before the end than there is time is a mistake, and a warning is not")
{
    CHECK(check_window({{7200}, 600, 30}, hour));
    CHECK(check_window({{}, 7200, 7200}, 0)); // not known
    using Catch::Contains;
    auto close = check_window({{}, 2 * hour, 30}, hour);
    REQUIRE(!close);
    CHECK(close.error().exit == Exit::usage);
    CHECK_THAT(close.error().message,
               Contains("--close 2h") && Contains("time limit of 1h"));
    CHECK_THAT(check_window({{}, 0, 2 * hour}, hour).error().message,
               Contains("--grace 2h"));
}

TEST_CASE("Of two moments that clocks show alike, each is told by its zone")
{
    const char* before = std::getenv("TZ");
    std::string saved = before ? before : "";
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    // 2026-10-25 01:00 UTC: from 3:00 back to 2:00.
    constexpr double change = 1792890000;
    CHECK(flux::format_datetime(change - 1800) == "2026-10-25 02:30:00 CEST");
    CHECK(flux::format_datetime(change + 1800) == "2026-10-25 02:30:00 CET");
    // A plan knows nothing of it.
    auto plan = plan_end({{3600}, 0, 30}, {change - 7200, change + 1800, 0, 0});
    CHECK(plan.warn_at == std::vector{change - 1800});
    if (before)
        setenv("TZ", saved.c_str(), 1);
    else
        unsetenv("TZ");
    tzset();
    CHECK(flux::format_datetime(1e300) == "?");
    CHECK(flux::format_datetime(NAN) == "?");
}
