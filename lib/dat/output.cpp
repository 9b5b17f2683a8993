// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/output.h"

#include "lib/flux/text.h"

#include <algorithm>

namespace fluxdat::dat {

namespace {

constexpr std::size_t line_length_max = 500; // bytes; the rest of a line is dropped

std::string printable(std::string line)
{
    line.resize(std::min(line.size(), line_length_max));
    for (auto& c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            c = ' ';
    return line;
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
            lines.push_back(
                fmt::format("rank {}: {}", rank, printable(std::string(line))));
            if (lines.size() > count)
                lines.erase(lines.begin());
        }
    }
}

} // namespace fluxdat::dat
