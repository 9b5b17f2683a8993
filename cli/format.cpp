// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/format.h"

#include "lib/flux/datetime.h"
#include "lib/flux/fsd.h"
#include "lib/flux/text.h"
#include "lib/harmless.h"
#include "lib/utf8.h"

#include <algorithm>

namespace fluxdat::cli {

namespace {

template <class... Args>
std::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args)
{
    return fail(Exit::usage, "-o: {}",
                fmt::format(format, std::forward<Args>(args)...));
}

std::optional<Align> align_of(char c)
{
    return c == '<'   ? std::optional(Align::left)
           : c == '>' ? std::optional(Align::right)
           : c == '^' ? std::optional(Align::centre)
                      : std::nullopt;
}

// The number that the text begins with, and takes it away. Nothing: too large.
std::optional<std::size_t> take_number(std::string_view& text)
{
    std::size_t number = 0;
    while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
        number = number * 10 + static_cast<std::size_t>(text[0] - '0');
        if (number > format_width_max)
            return {};
        text.remove_prefix(1);
    }
    return number;
}

} // namespace

Result<Format> Format::parse(std::string_view text, const std::vector<FieldName>& known)
{
    if (text.size() > format_bytes_max)
        return wrong("longer than {} bytes", format_bytes_max);
    Format format;
    std::string plain;
    for (std::size_t i = 0; i < text.size(); i++) {
        char c = text[i];
        bool twice = i + 1 < text.size() && text[i + 1] == c;
        if ((c == '{' || c == '}') && twice) {
            plain += c;
            i++;
        } else if (c == '}') {
            return wrong(
                "{}: a \"}}\" at column {} that closes nothing (\"}}}}\" is one "
                "to be shown)",
                flux::in_quotes(text), i + 1);
        } else if (c == '{') {
            auto end = text.find('}', i);
            if (end == text.npos)
                return wrong("{}: the \"{{\" at column {} is not closed",
                             flux::in_quotes(text), i + 1);
            auto part = parse_field(text.substr(i + 1, end - i - 1), text, known);
            if (!part)
                return std::unexpected(part.error());
            for (std::string_view prefix : {"?+:", "?:", "+:"})
                if (plain.ends_with(prefix)) {
                    plain.resize(plain.size() - prefix.size());
                    part->drops_empty = prefix[0] == '?';
                    part->fits = prefix[prefix.size() - 2] == '+';
                    break;
                }
            part->before = harmless(std::exchange(plain, {}));
            format.fields_.push_back(part->field);
            format.parts_.push_back(std::move(*part));
            i = end;
        } else {
            plain += c;
        }
    }
    if (format.parts_.empty())
        return wrong(
            "{}: there is no field in it, as in \"{{name}} {{state}}\" (-o help "
            "lists them)",
            flux::in_quotes(text));
    format.end_ = harmless(plain);
    return format;
}

Result<Format::Part> Format::parse_field(std::string_view text, std::string_view whole,
                                         const std::vector<FieldName>& known)
{
    auto shown = "{" + std::string(text) + "}";
    auto name = text.substr(0, text.find_first_of("!:"));
    auto found = std::find_if(known.begin(), known.end(), [&](const FieldName& field) {
        return name == field.name;
    });
    if (found == known.end())
        return wrong("there is no field {} (-o help lists them)",
                     flux::in_quotes(name));
    Part part;
    part.field = static_cast<std::size_t>(found - known.begin());
    part.header = found->header;
    part.number = found->number;
    text.remove_prefix(name.size());
    if (text.starts_with('!')) {
        part.conversion = text.size() > 1 ? text[1] : ' ';
        if (std::string_view("DdFh").find(part.conversion) == std::string_view::npos)
            return wrong("{}: there are the conversions !D, !d, !F and !h",
                         flux::in_quotes(shown));
        if (part.conversion != 'h' && !part.number)
            return wrong("{}: !{} is for fields that are numbers",
                         flux::in_quotes(shown), part.conversion);
        text.remove_prefix(2);
    }
    if (text.starts_with(':'))
        text.remove_prefix(1);
    if (auto length = utf8_length(text);
        length > 0 && text.size() > length && align_of(text[length])) {
        part.fill = harmless(text.substr(0, length));
        if (columns_of(part.fill) != 1)
            return wrong("{}: what it is filled with must take one column",
                         flux::in_quotes(shown));
        part.align = align_of(text[length]);
        text.remove_prefix(length + 1);
    } else if (!text.empty() && align_of(text[0])) {
        part.align = align_of(text[0]);
        text.remove_prefix(1);
    }
    if (text.starts_with('0') && !part.align) {
        part.fill = "0";
        part.align = Align::right;
    }
    auto width = take_number(text);
    std::optional<std::size_t> precision;
    if (width && text.starts_with('.')) {
        text.remove_prefix(1);
        bool digits = !text.empty() && text[0] >= '0' && text[0] <= '9';
        precision = take_number(text);
        if (!digits)
            return wrong("{}: a number is missing behind the \".\"",
                         flux::in_quotes(shown));
        if (!precision)
            width = {};
    }
    if (!width)
        return wrong("{}: at most {}", flux::in_quotes(shown), format_width_max);
    part.width = *width;
    part.precision = precision;
    if (!text.empty()) {
        part.type = text[0];
        text.remove_prefix(1);
    }
    bool type_is_known =
        part.type == 0 || part.type == 's' || part.type == 'd' || part.type == 'f';
    if (!text.empty() || !type_is_known)
        return wrong("{} in {}: a field is "
                     "{{NAME[!CONVERSION][:[[FILL]<>^][WIDTH][.PRECISION][s|d|f]]}}",
                     flux::in_quotes(shown), flux::in_quotes(whole));
    if ((part.type == 'd' || part.type == 'f') && (!part.number || part.conversion))
        return wrong("{}: {} is for numbers", flux::in_quotes(shown), part.type);
    return part;
}

std::string Format::shown(const Part& part, const Value& value)
{
    if (part.conversion == 'h')
        return value.text.empty() ? "-" : value.text;
    if (part.conversion && value.number <= 0)
        return {}; // there is none (yet)
    if (part.conversion == 'D')
        return flux::format_local_time(value.number, "%Y-%m-%dT%H:%M:%S");
    if (part.conversion == 'd')
        return flux::format_local_time(value.number, "%b%d %H:%M");
    if (part.conversion == 'F')
        return flux::format_fsd(value.number);
    if (part.type == 'd')
        return fmt::format("{:.0f}", value.number);
    if (part.number && (part.type == 'f' || (part.precision && part.type == 0)))
        return fmt::format("{:.{}f}", value.number, part.precision.value_or(6));
    return value.text;
}

std::string Format::aligned(const Part& part, std::string text, bool as_number)
{
    if (part.precision && !as_number) {
        std::string cut;
        while (!text.empty()) { // precision cuts without an ellipsis, as in Python
            auto length = std::max<std::size_t>(utf8_length(text), 1);
            if (columns_of(cut + text.substr(0, length)) > *part.precision)
                break;
            cut += text.substr(0, length);
            text.erase(0, length);
        }
        text = cut;
    }
    auto used = columns_of(text);
    if (used >= part.width)
        return text;
    auto missing = part.width - used;
    auto align = part.align.value_or(part.number && !part.conversion ? Align::right
                                                                     : Align::left);
    auto before = align == Align::left    ? 0
                  : align == Align::right ? missing
                                          : missing / 2;
    std::string out;
    for (std::size_t i = 0; i < before; i++)
        out += part.fill;
    out += text;
    for (std::size_t i = before; i < missing; i++)
        out += part.fill;
    return out;
}

std::vector<std::string> Format::lines(const std::vector<std::vector<Value>>& rows,
                                       bool with_header) const
{
    auto parts = parts_;
    std::vector<std::vector<std::string>> texts(rows.size());
    std::vector<bool> dropped(parts.size());
    for (std::size_t i = 0; i < parts.size(); i++) {
        bool empty = true;
        std::size_t widest = with_header ? columns_of(parts[i].header) : 0;
        for (std::size_t row = 0; row < rows.size(); row++) {
            auto text = shown(parts[i], rows[row][i]);
            bool nothing =
                text.empty() || text == "-" || (parts[i].number && text == "0");
            empty = empty && nothing;
            widest = std::max(widest, columns_of(text));
            texts[row].push_back(std::move(text));
        }
        dropped[i] = parts[i].drops_empty && empty;
        if (parts[i].fits)
            parts[i].width = std::max(parts[i].width, widest);
    }
    std::vector<std::string> lines;
    auto add = [&](auto&& text_of) {
        std::string line;
        for (std::size_t i = 0; i < parts.size(); i++)
            if (!dropped[i])
                line += parts[i].before + text_of(i);
        line += end_;
        if (end_.empty())
            line.erase(line.find_last_not_of(' ') + 1);
        lines.push_back(std::move(line));
    };
    if (with_header)
        add([&](std::size_t i) {
            auto part = parts[i];
            part.fill = " ";
            return aligned(part, part.header, part.number);
        });
    for (auto& row : texts)
        add([&](std::size_t i) {
            bool as_number = parts[i].number && parts[i].type != 's';
            return aligned(parts[i], row[i], as_number && !parts[i].conversion);
        });
    return lines;
}

} // namespace fluxdat::cli
