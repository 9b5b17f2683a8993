// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/screen.h"

#include "lib/flux/datetime.h"
#include "lib/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

constexpr std::size_t columns_default = 80;

struct Range {
    char32_t first, last;
};

// Of Unicode 15: nonspacing and enclosing marks of the common scripts, joiners,
// variation selectors.
constexpr std::array zero_width{
    Range{0x0300, 0x036f},   Range{0x0483, 0x0489},   Range{0x0591, 0x05bd},
    Range{0x0610, 0x061a},   Range{0x064b, 0x065f},   Range{0x06d6, 0x06dc},
    Range{0x0900, 0x0902},   Range{0x093c, 0x093c},   Range{0x0941, 0x0948},
    Range{0x094d, 0x094d},   Range{0x0e31, 0x0e31},   Range{0x0e34, 0x0e3a},
    Range{0x0e47, 0x0e4e},   Range{0x1160, 0x11ff},   Range{0x1ab0, 0x1aff},
    Range{0x1dc0, 0x1dff},   Range{0x200b, 0x200d},   Range{0x2060, 0x2064},
    Range{0x20d0, 0x20f0},   Range{0x302a, 0x302d},   Range{0x3099, 0x309a},
    Range{0xfe00, 0xfe0f},   Range{0xfe20, 0xfe2f},   Range{0x1f3fb, 0x1f3ff},
    Range{0xe0001, 0xe007f}, Range{0xe0100, 0xe01ef},
};

// East Asian Width W and F, and emoji that are shown as such.
constexpr std::array two_columns{
    Range{0x1100, 0x115f},   Range{0x231a, 0x231b},   Range{0x2329, 0x232a},
    Range{0x23e9, 0x23ec},   Range{0x23f0, 0x23f0},   Range{0x23f3, 0x23f3},
    Range{0x25fd, 0x25fe},   Range{0x2614, 0x2615},   Range{0x2648, 0x2653},
    Range{0x267f, 0x267f},   Range{0x2693, 0x2693},   Range{0x26a1, 0x26a1},
    Range{0x26aa, 0x26ab},   Range{0x26bd, 0x26be},   Range{0x26c4, 0x26c5},
    Range{0x26ce, 0x26ce},   Range{0x26d4, 0x26d4},   Range{0x26ea, 0x26ea},
    Range{0x26f2, 0x26f3},   Range{0x26f5, 0x26f5},   Range{0x26fa, 0x26fa},
    Range{0x26fd, 0x26fd},   Range{0x2705, 0x2705},   Range{0x270a, 0x270b},
    Range{0x2728, 0x2728},   Range{0x274c, 0x274c},   Range{0x274e, 0x274e},
    Range{0x2753, 0x2755},   Range{0x2757, 0x2757},   Range{0x2795, 0x2797},
    Range{0x27b0, 0x27b0},   Range{0x27bf, 0x27bf},   Range{0x2b1b, 0x2b1c},
    Range{0x2b50, 0x2b50},   Range{0x2b55, 0x2b55},   Range{0x2e80, 0x303e},
    Range{0x3041, 0x33ff},   Range{0x3400, 0x4dbf},   Range{0x4e00, 0x9fff},
    Range{0xa000, 0xa4cf},   Range{0xa960, 0xa97f},   Range{0xac00, 0xd7a3},
    Range{0xf900, 0xfaff},   Range{0xfe10, 0xfe19},   Range{0xfe30, 0xfe6f},
    Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},   Range{0x16fe0, 0x18aff},
    Range{0x1b000, 0x1b2ff}, Range{0x1f004, 0x1f004}, Range{0x1f0cf, 0x1f0cf},
    Range{0x1f18e, 0x1f18e}, Range{0x1f191, 0x1f19a}, Range{0x1f200, 0x1f320},
    Range{0x1f32d, 0x1f335}, Range{0x1f337, 0x1f37c}, Range{0x1f37e, 0x1f393},
    Range{0x1f3a0, 0x1f3ca}, Range{0x1f3cf, 0x1f3d3}, Range{0x1f3e0, 0x1f3f0},
    Range{0x1f3f4, 0x1f3f4}, Range{0x1f3f8, 0x1f43e}, Range{0x1f440, 0x1f440},
    Range{0x1f442, 0x1f4fc}, Range{0x1f4ff, 0x1f53d}, Range{0x1f54b, 0x1f54e},
    Range{0x1f550, 0x1f567}, Range{0x1f57a, 0x1f57a}, Range{0x1f595, 0x1f596},
    Range{0x1f5a4, 0x1f5a4}, Range{0x1f5fb, 0x1f64f}, Range{0x1f680, 0x1f6c5},
    Range{0x1f6cc, 0x1f6cc}, Range{0x1f6d0, 0x1f6d2}, Range{0x1f6d5, 0x1f6d7},
    Range{0x1f6dc, 0x1f6df}, Range{0x1f6eb, 0x1f6ec}, Range{0x1f6f4, 0x1f6fc},
    Range{0x1f7e0, 0x1f7eb}, Range{0x1f7f0, 0x1f7f0}, Range{0x1f90c, 0x1f93a},
    Range{0x1f93c, 0x1f945}, Range{0x1f947, 0x1f9ff}, Range{0x1fa70, 0x1faff},
    Range{0x20000, 0x3fffd},
};

template <std::size_t size>
bool is_in(const std::array<Range, size>& ranges, char32_t c)
{
    auto found =
        std::lower_bound(ranges.begin(), ranges.end(), c,
                         [](Range range, char32_t x) { return range.last < x; });
    return found != ranges.end() && found->first <= c;
}

// Of the character that the text begins with: its bytes (a stray byte is one), and its
// columns.
struct Extent {
    std::size_t bytes, columns;
};
Extent first_of(std::string_view text)
{
    auto length = utf8_length(text);
    if (length <= 1)
        return {1, 1};
    auto c = utf8_character(text, length);
    return {length, is_in(zero_width, c) ? 0u : is_in(two_columns, c) ? 2u : 1u};
}

// Bytes of the longest beginning of a text that takes at most so many columns.
std::size_t bytes_within(std::string_view text, std::size_t columns)
{
    std::size_t bytes = 0, used = 0;
    while (bytes < text.size()) {
        auto next = first_of(text.substr(bytes));
        if (used + next.columns > columns)
            break;
        used += next.columns;
        bytes += next.bytes;
    }
    return bytes;
}

std::string_view variable(const char* name)
{
    const char* value = std::getenv(name);
    return value ? value : "";
}

bool locale_is_utf8()
{
    for (auto name : {"LC_ALL", "LC_CTYPE", "LANG"})
        if (auto value = variable(name); !value.empty())
            return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos
                   || value.find("UTF8") != value.npos
                   || value.find("utf-8") != value.npos;
    return false;
}

} // namespace

std::string Screen::paint(Hue hue, std::string text) const
{
    if (!colour || hue == Hue::plain || text.empty())
        return text;
    const char* code = hue == Hue::strong  ? "1"
                       : hue == Hue::faint ? "2"
                       : hue == Hue::good  ? "32"
                       : hue == Hue::busy  ? "33"
                                           : "1;31";
    return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string Screen::cut(std::string_view text, std::size_t columns_max) const
{
    if (columns_of(text) <= columns_max)
        return std::string(text);
    if (columns_max == 0)
        return {};
    return std::string(text.substr(0, bytes_within(text, columns_max - 1)))
           + ellipsis();
}

Screen screen_of(int fd)
{
    Screen screen;
    screen.utf8 = locale_is_utf8();
    if (!isatty(fd))
        return screen;
    screen.terminal = true;
    auto term = variable("TERM");
    screen.moves = !term.empty() && term != "dumb";
    screen.colour = screen.moves && variable("NO_COLOR").empty();
    winsize size{};
    if (ioctl(fd, TIOCGWINSZ, &size) == 0) {
        screen.columns = size.ws_col;
        screen.lines = size.ws_row;
    }
    if (auto text = variable("COLUMNS"); screen.columns == 0)
        std::from_chars(text.data(), text.data() + text.size(), screen.columns);
    if (screen.columns == 0)
        screen.columns = columns_default;
    return screen;
}

std::size_t columns_of(std::string_view text)
{
    std::size_t columns = 0;
    while (!text.empty()) {
        auto next = first_of(text);
        columns += next.columns;
        text.remove_prefix(next.bytes);
    }
    return columns;
}

std::string padded(std::string text, std::size_t columns, Align align)
{
    auto used = columns_of(text);
    if (used >= columns)
        return text;
    auto missing = columns - used;
    auto before = align == Align::left    ? 0
                  : align == Align::right ? missing
                                          : missing / 2;
    return std::string(before, ' ') + std::move(text)
           + std::string(missing - before, ' ');
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns)
{
    columns = std::max<std::size_t>(columns, 2); // a wide character must fit
    std::vector<std::string> lines;
    std::string line;
    std::size_t used = 0;
    auto end_line = [&] {
        lines.push_back(std::move(line));
        line.clear();
        used = 0;
    };
    while (!text.empty()) {
        auto word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (word.empty())
            continue;
        if (used > 0 && used + 1 + columns_of(word) > columns)
            end_line();
        if (used > 0) {
            line += ' ';
            used++;
        }
        while (columns_of(word) > columns) {
            auto bytes = bytes_within(word, columns);
            line += word.substr(0, bytes);
            word.remove_prefix(bytes);
            end_line();
        }
        line += word;
        used += columns_of(word);
    }
    if (used > 0 || lines.empty())
        end_line();
    return lines;
}

std::string human_duration(double seconds)
{
    constexpr double centuries = 1e11; // others' numbers may be any
    if (std::isnan(seconds))
        seconds = 0;
    if (seconds < 0)
        return "-" + human_duration(-seconds);
    if (seconds > centuries)
        return "inf";
    auto whole = static_cast<long long>(std::ceil(seconds));
    if (whole < 60)
        return fmt::format("{}s", whole);
    if (whole < 3600)
        return fmt::format("{}m{:02}s", whole / 60, whole % 60);
    whole = (whole + 59) / 60; // minutes
    if (whole < 24 * 60)
        return fmt::format("{}h{:02}m", whole / 60, whole % 60);
    whole = (whole + 59) / 60; // hours
    return fmt::format("{}d{:02}h", whole / 24, whole % 24);
}

std::string human_time(double when, double now, bool with_seconds)
{
    auto in = [](const char* format, double time) {
        return flux::format_local_time(time, format);
    };
    if (in("%Y", when) != in("%Y", now))
        return in("%Y-%m-%d %H:%M", when);
    auto time = in(with_seconds ? "%H:%M:%S" : "%H:%M", when);
    return in("%j", when) == in("%j", now) ? time : in("%m-%d ", when) + time;
}

} // namespace fluxdat::cli
