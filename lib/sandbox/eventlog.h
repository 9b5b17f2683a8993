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

    // Whoever watches it waits for the first event, until this is called: from then on
    // a log without events is one that does not exist (ENOENT). As Flux has it of what
    // a job writes, from the job's start.
    void begin();
    // Answers with one event each, those of the past first. `patient`: also waits for a
    // log that does not exist.
    void watch(Ticket request, bool patient);
    // Forgets watchers that fit, without an answer.
    void forget(const Departure& departure);
    // Ends one stream (job-info.eventlog-watch-cancel). False when it is not here.
    bool cancel(const Message& canceler, std::uint32_t matchtag);

private:
    struct Watcher {
        Ticket ticket;
        bool patient;
    };
    void send(const Ticket& watcher, const std::string& line);
    bool missing() const { return begun_ && lines_.empty(); }

    Router& router_;
    std::vector<std::string> lines_;
    std::size_t bytes_ = 0;
    bool begun_ = false;
    bool finished_ = false;
    std::vector<Watcher> watchers_;
};

} // namespace fluxdat::sandbox
