// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The end of a DAT's window, planned. A DAT lasts until its job expires in the parent
// (R's expiration, RFC 20), which somebody may move (RFC 21, resource-update), or until
// it was stopped. Before that:
//
//     warn    those who have jobs or a terminal are told, at each of --warn before it
//     close   the queues close, --close before it: nothing is accepted, nothing starts
//     term    SIGTERM to what runs, so that it has --grace until the end
//     end     what is left is killed, and the DAT ends itself, end_margin before
//             its job expires: so it ends in order, and not by the parent's
//             timeout
//
// What would have to be done before the window began is passed over: then the window is
// shorter than that. Not so where it was long enough and somebody cut it short: then it
// is due at once. A stop is the same with an end of its own, and closes at once.
//
// All times are seconds since the epoch, all spans seconds; 0 is none. There is no
// local time in it, and so no summer.
#pragma once

#include "lib/flux/json.h"
#include "lib/result.h"

#include <optional>
#include <string>
#include <vector>

namespace fluxdat::dat {

using Json = nlohmann::json;

// What the orderly end of a DAT takes: to kill what is left, and to take the instance
// down (2.5 s in Flux 0.88). By a sandbox's clock (lib/clock.h), which may run faster,
// at least a second of real time, which is plenty there.
double end_margin();
constexpr std::size_t warnings_max = 8;

// --warn, --close, --grace: seconds before the end.
struct WindowOptions {
    std::vector<double> warn{15 * 60, 5 * 60};
    double close = 0; // 0: with the SIGTERM
    double grace = 30;

    bool operator==(const WindowOptions&) const = default;
};

// What of it somebody asked for.
struct WindowWish {
    std::optional<std::vector<double>> warn;
    std::optional<double> close, grace;

    // These options, with what was asked for in their place.
    WindowOptions over(WindowOptions options) const;
};

// When the window began, and what ends it.
struct Span {
    double begin = 0;      // when the job got its nodes
    double expires = 0;    // when the parent ends the job; 0: never
    double stop_asked = 0; // when somebody stopped the DAT; 0: nobody did
    double stop_at = 0;    // and its end by that
    double cut_short = 0;  // when somebody made it too short for --close or --grace

    bool stopped() const { return stop_at > 0; }
    // When the DAT ends as people are told: the expiration, or the stop.
    double end() const;
    bool operator==(const Span&) const = default;
};

struct Plan {
    std::vector<double> warn_at;                  // in order
    double close_at = 0, term_at = 0, end_at = 0; // close_at <= term_at <= end_at
    // What the window is too short for: "warn 15m", "close 10m", "grace 30s", "end".
    std::vector<std::string> passed_over;

    bool operator==(const Plan&) const = default;
};
Plan plan_end(const WindowOptions& options, const Span& span);

// The span with another expiration, as of `now`: whether that cuts it short.
Span expiring_at(double expires, const WindowOptions& options, Span span, double now);

// When something is to be done next, after `now`; 0: nothing more.
double next_after(const Plan& plan, double now);

// All of it, as it stands in the record (record.h) under "window":
//
//     {"begin": T, "expires": T,               T: seconds since the epoch, 0: none
//      "warn": [S..], "close": S, "grace": S,  as asked for; S: seconds before the end
//      "warn_at": [T..], "close_at": T,        the plan; what was passed over is not in
//      "term_at": T, "end_at": T,              it. end_at is a little before `expires`
//      "passed_over": ["warn 15m"..],          for people
//      "stop_asked": T,                        flux-dat stop; its end is record.stop_at
//      "cut_short": T,                         since when it is too short for --close
//      "warned": T, "closed": T, "termed": T}  when that was done last; 0: not, or
//                                              taken back, since the end moved away
//
// All keys are there once the DAT is ready; before, only what was asked for.
struct Window {
    WindowOptions options;
    Span span;
    Plan plan;
    double warned = 0, closed = 0, termed = 0;
};
Json to_json(const Window& window);

// What is to be done at `now`. Of several warnings that are due, one is; with the end,
// nothing else.
struct Due {
    bool warn = false, close = false, term = false, end = false;

    bool none() const { return !warn && !close && !term && !end; }
    bool operator==(const Due&) const = default;
};
Due due(const Window& window, double now);

// What is missing or of another type is as if nothing were known of it. `stop_at` is
// the record's.
Window window_from_json(const Json& json, double stop_at);

// "15m,5m", or "none". The largest first, each once. A usage error otherwise.
Result<std::vector<double>> parse_warnings(const std::string& text);

// A span before the end: an FSD, finite. A usage error otherwise.
Result<double> parse_before_end(const std::string& text);

// A usage error, if more time before the end is asked for than the window has. (A
// warning that comes too early is only passed over.) `time_limit` 0: not known.
Result<> check_window(const WindowOptions& options, double time_limit);

} // namespace fluxdat::dat
