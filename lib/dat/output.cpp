// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/output.h"

#include "lib/dat/changes.h"
#include "lib/flux/text.h"
#include "lib/harmless.h"

namespace fluxdat::dat {

namespace {

constexpr std::size_t line_length_max = 500; // bytes; the rest of a line is dropped

std::string printable(std::string_view line)
{
    return harmless(line, line_length_max);
}

} // namespace

flux::Task<std::vector<std::string>> output_tail(flux::Connection& parent,
                                                 flux::JobId id, std::size_t count)
{
    std::vector<std::string> lines;
    flux::EventlogWatch watch(parent, id, "guest.output");
    while (true) {
        auto event = co_await watch.next();
        if (!event || !*event)
            co_return lines;
        if ((*event)->name != "data")
            continue;
        auto data = flux::output_data((*event)->context);
        if (!data)
            continue;
        auto rank = flux::text_at((*event)->context, "rank");
        for (auto line : flux::lines_of(*data)) {
            lines.push_back(fmt::format("rank {}: {}", rank, printable(line)));
            if (lines.size() > count)
                lines.erase(lines.begin());
        }
    }
}

flux::Task<std::string> imp_last_line(flux::Connection& parent, flux::JobId id)
{
    std::string last;
    auto log = co_await flux::lookup(parent, id, "guest.exec.eventlog");
    if (!log)
        co_return last;
    for (auto& event : parse_eventlog(*log)) {
        auto data = flux::output_data(event.context);
        if (event.name != "log" || !data)
            continue;
        for (auto line : flux::lines_of(*data))
            last = fmt::format("rank {}: {}",
                               printable(flux::text_at(event.context, "rank")),
                               printable(line));
    }
    co_return last;
}

} // namespace fluxdat::dat
