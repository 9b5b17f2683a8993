// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The value of -o, --format, as flux-jobs(1) has it: text with fields in braces,
//
//     {name:<12} {id.f58} {state} {left:>8}
//
// each with an optional conversion and an optional format as in Python,
//
//     {FIELD[!CONVERSION][:[[FILL]ALIGN][WIDTH][.PRECISION][TYPE]]}
//
// ALIGN is one of <, >, ^; TYPE is s, d or f, the last two of fields that are numbers.
// Conversions, of fields that are seconds: !D a local time as 2026-11-30T18:00:00, !d
// as "Nov30 18:00", !F a duration in FSD; of any: !h "-" where there is nothing. "{{"
// and "}}" are braces. Before a field, "?:" leaves its column out where all of its
// values are empty, "+:" makes it as wide as its widest value, "?+:" both.
#pragma once

#include "cli/screen.h"
#include "lib/result.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::cli {

constexpr std::size_t format_bytes_max = 4096;
constexpr std::size_t format_width_max = 4096; // columns; also digits of a precision

struct FieldName {
    const char* name;
    const char* header;
    const char* about;
    bool number = false;
};

// What a field is for one row. A number's text is what it gives without a format.
struct Value {
    std::string text; // harmless
    double number = 0;
};

class Format
{
public:
    // Exit 2, with the place and what is wrong, and the nearest that is known.
    static Result<Format> parse(std::string_view text,
                                const std::vector<FieldName>& known);

    // Index into `known` of each field, in their order, as often as it is there.
    const std::vector<std::size_t>& fields() const { return fields_; }

    // A line for each row, its values in the order of fields(); the header first.
    std::vector<std::string> lines(const std::vector<std::vector<Value>>& rows,
                                   bool with_header) const;

private:
    struct Part {
        std::string before; // text
        std::size_t field = 0;
        std::string header;
        bool number = false;
        bool drops_empty = false, fits = false;
        char conversion = 0; // 0: none
        std::string fill = " ";
        std::optional<Align> align;
        std::size_t width = 0;
        std::optional<std::size_t> precision;
        char type = 0; // 0: none
    };
    static Result<Part> parse_field(std::string_view text, std::string_view whole,
                                    const std::vector<FieldName>& known);
    static std::string shown(const Part& part, const Value& value);
    static std::string aligned(const Part& part, std::string text, bool as_number);

    std::vector<Part> parts_;
    std::vector<std::size_t> fields_;
    std::string end_;
};

} // namespace fluxdat::cli
