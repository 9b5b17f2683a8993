// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/text.h"

#include <cmath>
#include <toml++/toml.h>

namespace fluxdat::conf {

namespace {

// toml++ limits how deep brackets nest, but not how many parts a dotted key has; it
// destroys its tables recursively, so a key of a hundred thousand parts would overflow
// the stack, in its parser, where it cannot be caught. Hence this look ahead. It knows
// strings and comments and nothing else of TOML.
class DepthScan
{
public:
    explicit DepthScan(std::string_view text) : text_(text) {}

    // The offset where it gets too deep, or npos.
    std::size_t too_deep()
    {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '"' || c == '\'') {
                skip_string(c);
                continue;
            }
            if (c == '#') {
                at_ = std::min(text_.find('\n', at_), text_.size());
                continue;
            }
            count(c);
            if (dots_ >= value_depth_max || brackets_ > value_depth_max)
                return at_;
            ++at_;
        }
        return std::string_view::npos;
    }

private:
    void count(char c)
    {
        if (c == '.') {
            ++dots_;
            return;
        }
        if (std::string_view("[]{}=,\n").find(c) != std::string_view::npos)
            dots_ = 0;
        if (c == '[' || c == '{')
            ++brackets_;
        else if ((c == ']' || c == '}') && brackets_ > 0)
            --brackets_;
    }

    void skip_string(char quote)
    {
        const std::string triple(3, quote);
        const bool multiline = text_.substr(at_).starts_with(triple);
        at_ += multiline ? 3 : 1;
        while (at_ < text_.size()) {
            if (quote == '"' && text_[at_] == '\\') {
                at_ += 2;
            } else if (multiline && text_.substr(at_).starts_with(triple)) {
                at_ += 3;
                return;
            } else if (!multiline && (text_[at_] == quote || text_[at_] == '\n')) {
                ++at_;
                return;
            } else {
                ++at_;
            }
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t dots_ = 0;     // since the last separator: parts of a key, less one
    std::size_t brackets_ = 0; // open now
};

Origin at(const Origin& where, const toml::source_region& region)
{
    Origin origin = where;
    origin.line = region.begin.line;
    origin.column = region.begin.column;
    return origin;
}

std::unexpected<Error> refuse(const Origin& origin, std::string_view what)
{
    return fail(origin.exit(), "{}: {}", origin.str(), what);
}

// Elements of arrays stand where they are written, members of tables where their key
// is.
Result<Value> convert(const toml::node& node, const Origin& origin, const Origin& where,
                      std::size_t depth)
{
    if (depth > value_depth_max)
        return refuse(origin, fmt::format("nested more than {} deep", value_depth_max));
    if (const auto* table = node.as_table()) {
        Value value{Table{}, origin};
        for (const auto& [key, member] : *table) {
            auto converted = convert(member, at(where, key.source()), where, depth + 1);
            if (!converted)
                return converted;
            value.table()->emplace(std::string(key.str()), std::move(*converted));
        }
        return value;
    }
    if (const auto* array = node.as_array()) {
        Value value{Array{}, origin};
        for (const toml::node& element : *array) {
            auto converted =
                convert(element, at(where, element.source()), where, depth + 1);
            if (!converted)
                return converted;
            value.array()->push_back(std::move(*converted));
        }
        return value;
    }
    if (const auto* string = node.as_string())
        return Value{string->get(), origin};
    if (const auto* integer = node.as_integer())
        return Value{integer->get(), origin};
    if (const auto* boolean = node.as_boolean())
        return Value{boolean->get(), origin};
    if (const auto* number = node.as_floating_point()) {
        if (!std::isfinite(number->get()))
            return refuse(origin, "infinite and undefined numbers have no JSON form; "
                                  "write a string");
        return Value{number->get(), origin};
    }
    return refuse(origin, "dates and times have no JSON form; write a string");
}

} // namespace

Result<Value> parse_toml(std::string_view text, const Origin& where)
{
    const std::size_t deep = DepthScan(text).too_deep();
    if (deep != std::string_view::npos) {
        Position position;
        position.advance(text, deep);
        return refuse(position.in(where),
                      fmt::format("nested more than {} deep", value_depth_max));
    }
    // Debian's toml++ is built to throw; this is where it stops.
    try {
        const toml::table document = toml::parse(text);
        return convert(document, where, where, 0);
    } catch (const toml::parse_error& error) {
        return refuse(at(where, error.source()),
                      fmt::format("not TOML: {}", printable(error.description())));
    } catch (const std::exception& error) {
        return refuse(where, fmt::format("not TOML: {}", printable(error.what())));
    }
}

} // namespace fluxdat::conf
