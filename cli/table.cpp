// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/table.h"

#include "lib/harmless.h"

#include <algorithm>
#include <numeric>

namespace fluxdat::cli {

namespace {

constexpr std::size_t gap = 2; // columns between two columns

std::size_t total(const std::vector<std::size_t>& widths)
{
    return std::accumulate(widths.begin(), widths.end(), std::size_t{0})
           + gap * (widths.empty() ? 0 : widths.size() - 1);
}

// Cuts the columns that may be cut, first those that can best be done without, of these
// the widest, until all fit or none is left to cut.
void shrink(const std::vector<Column>& columns, std::vector<std::size_t>& widths,
            std::size_t columns_max)
{
    while (total(widths) > columns_max) {
        std::size_t next = widths.size();
        auto rank = [&](std::size_t i) {
            return std::pair(columns[i].dispensable, widths[i]);
        };
        for (std::size_t i = 0; i < widths.size(); i++)
            if (columns[i].columns_min > 0 && widths[i] > columns[i].columns_min
                && (next == widths.size() || rank(i) > rank(next)))
                next = i;
        if (next == widths.size())
            return;
        widths[next]--;
    }
}

} // namespace

std::vector<std::string> table_lines(std::vector<Column> columns, std::vector<Row> rows,
                                     bool with_header, const Screen& screen)
{
    if (with_header) {
        Row header;
        for (auto& column : columns)
            header.push_back({column.header, Hue::strong});
        rows.insert(rows.begin(), std::move(header));
    }
    std::vector<std::size_t> widths(columns.size());
    for (auto& row : rows)
        for (std::size_t i = 0; i < row.size(); i++) {
            row[i].text = harmless(row[i].text);
            widths[i] = std::max(widths[i], columns_of(row[i].text));
        }
    if (screen.columns > 0)
        while (true) {
            auto cut = widths;
            shrink(columns, cut, screen.columns);
            auto least = std::max_element(columns.begin(), columns.end(),
                                          [](const Column& a, const Column& b) {
                                              return a.dispensable < b.dispensable;
                                          });
            if (total(cut) <= screen.columns || least->dispensable == 0) {
                widths = cut;
                break;
            }
            auto at = least - columns.begin();
            columns.erase(least);
            widths.erase(widths.begin() + at);
            for (auto& row : rows)
                row.erase(row.begin() + at);
        }
    std::vector<std::string> lines;
    for (auto& row : rows) {
        std::string line;
        std::size_t used = 0;
        for (std::size_t i = 0; i < row.size(); i++) {
            auto room = screen.columns > 0 ? std::min(
                            widths[i], screen.columns - std::min(used, screen.columns))
                                           : widths[i];
            auto text = screen.cut(row[i].text, room);
            used += columns_of(text);
            line += screen.paint(row[i].hue, text);
            if (i + 1 < row.size()) {
                auto spaces = room - columns_of(text) + gap;
                if (screen.columns > 0)
                    spaces = std::min(spaces,
                                      screen.columns - std::min(used, screen.columns));
                line.append(spaces, ' ');
                used += spaces;
            }
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

} // namespace fluxdat::cli
