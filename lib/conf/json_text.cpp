// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/text.h"

#include <iterator>
#include <limits>
#include <optional>

namespace fluxdat::conf {

namespace {

// nlohmann-json's events have no positions. An iterator that publishes how far the
// lexer has read supplies them: when an event comes, it is just behind the event's
// token (or one character more, after a number), and the token before ended where the
// last event left it.
struct Cursor {
    using iterator_category = std::forward_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    const char* at = nullptr;
    const char** reached = nullptr;

    reference operator*() const { return *at; }
    Cursor& operator++()
    {
        *reached = ++at;
        return *this;
    }
    Cursor operator++(int)
    {
        Cursor before = *this;
        ++*this;
        return before;
    }
    bool operator==(const Cursor& other) const { return at == other.at; }
    bool operator!=(const Cursor& other) const { return at != other.at; }
};

// Builds the tree from the events of the parser. After the first false it is not called
// again, and error() says why.
class Builder
{
public:
    Builder(std::string_view text, const Origin& where)
        : text_(text), where_(where), reached_(text.data())
    {
    }

    Cursor begin() { return {text_.data(), &reached_}; }
    Cursor end() { return {text_.data() + text_.size(), &reached_}; }

    bool null() { return refuse(here(), "null has no place in a configuration"); }
    bool boolean(bool value) { return scalar(value); }
    bool number_integer(std::int64_t value) { return scalar(value); }
    bool number_unsigned(std::uint64_t value)
    {
        if (value > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
            return refuse(here(), "integer beyond 64 bits signed");
        return scalar(static_cast<std::int64_t>(value));
    }
    bool number_float(double value, const std::string& text)
    {
        // Integers too large for 64 bits arrive as numbers with rounded digits.
        if (text.find_first_of(".eE") == std::string::npos)
            return refuse(here(), "integer beyond 64 bits signed");
        return scalar(value);
    }
    bool string(std::string& value) { return scalar(std::move(value)); }
    bool binary(Json::binary_t&) { return refuse(here(), "binary"); }
    bool start_object(std::size_t) { return start(Table{}); }
    bool start_array(std::size_t) { return start(Array{}); }
    bool end_object() { return finish(); }
    bool end_array() { return finish(); }

    bool key(std::string& name)
    {
        const Origin origin = here();
        if (open_.back().value.table()->contains(name))
            return refuse(origin,
                          fmt::format("key \"{}\" is given twice", printable(name)));
        open_.back().key = std::move(name);
        open_.back().key_origin = origin;
        return true;
    }

    bool parse_error(std::size_t, const std::string&, const Json::exception& error)
    {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax
        // ..."
        std::string_view what = error.what();
        for (std::string_view prefix : {"syntax error ", "] "}) {
            const std::size_t found = what.find(prefix);
            if (found != std::string_view::npos) {
                what.remove_prefix(found + (prefix == "] " ? prefix.size() : 0));
                break;
            }
        }
        return refuse(here(), fmt::format("not JSON: {}", printable(what)));
    }

    Result<Value> take()
    {
        if (!error_.message.empty())
            return std::unexpected(error_);
        return std::move(root_);
    }

private:
    struct Open {
        Value value;
        std::string key; // of the member that comes, in a table
        Origin key_origin;
    };

    // Where the token of this event starts.
    Origin here()
    {
        const std::size_t offset = text_.find_first_not_of(" \t\r\n,:", last_);
        last_ = static_cast<std::size_t>(reached_ - text_.data());
        position_.advance(text_, offset);
        return position_.in(where_);
    }

    bool refuse(const Origin& origin, std::string_view what)
    {
        error_ = Error{fmt::format("{}: {}", origin.str(), what), 0, origin.exit()};
        return false;
    }

    template <class Data>
    bool scalar(Data data)
    {
        place(Value{std::move(data), here()});
        return true;
    }

    template <class Data>
    bool start(Data data)
    {
        const Origin origin = here();
        if (open_.size() == value_depth_max)
            return refuse(origin,
                          fmt::format("nested more than {} deep", value_depth_max));
        open_.push_back({Value{std::move(data), origin}, {}, {}});
        return true;
    }

    bool finish()
    {
        here();
        Value value = std::move(open_.back().value);
        open_.pop_back();
        place(std::move(value));
        return true;
    }

    void place(Value value)
    {
        if (open_.empty()) {
            root_ = std::move(value);
        } else if (Array* array = open_.back().value.array()) {
            array->push_back(std::move(value));
        } else {
            value.origin = open_.back().key_origin;
            open_.back().value.table()->emplace(std::move(open_.back().key),
                                                std::move(value));
        }
    }

    std::string_view text_;
    const Origin& where_;
    const char* reached_;  // the lexer has read to here
    std::size_t last_ = 0; // where it had read to at the event before
    Position position_;    // of the token of the latest event
    std::vector<Open> open_;
    Value root_;
    Error error_;
};

} // namespace

Result<Value> parse_json(std::string_view text, const Origin& where)
{
    Builder builder(text, where);
    // sax_parse reports its errors to the builder and throws none.
    Json::sax_parse(builder.begin(), builder.end(), &builder);
    return builder.take();
}

} // namespace fluxdat::conf
