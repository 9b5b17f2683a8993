// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Eventlogs: RFC 18, and those who watch them: RFC 41 (job-info.eventlog-watch).
#pragma once

#include "lib/sandbox/router.h"

#include <string>
#include <vector>

namespace fluxdat::sandbox {

// One event as a line of an eventlog, with its newline. A null context is left out.
std::string format_event(double timestamp, std::string_view name, const Json& context);

class Eventlog
{
public:
    explicit Eventlog(Router& router) : router_(router) {}

    void append(double timestamp, std::string_view name, const Json& context = nullptr);
    // No more events will come: ends the streams of all who watch.
    void finish();

    // Each with its newline.
    const std::vector<std::string>& lines() const { return lines_; }
    bool empty() const { return lines_.empty(); }
    bool finished() const { return finished_; }
    std::size_t bytes() const { return bytes_; }
    std::string text() const;

    // Answers with one event each, those of the past first.
    void watch(Ticket request);
    // Forgets watchers that fit, without an answer.
    void forget(const Departure& departure);
    // Ends one stream (job-info.eventlog-watch-cancel). False when it is not here.
    bool cancel(const Message& canceler, std::uint32_t matchtag);

private:
    void send(const Ticket& watcher, const std::string& line);

    Router& router_;
    std::vector<std::string> lines_;
    std::size_t bytes_ = 0;
    bool finished_ = false;
    std::vector<Ticket> watchers_;
};

} // namespace fluxdat::sandbox
