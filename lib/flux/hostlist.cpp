// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/hostlist.h"

#include "lib/flux/text.h"

#include <charconv>
#include <cstdint>

namespace fluxdat::flux {

namespace {

constexpr std::string_view digits = "0123456789";

// Reads a hostlist from left to right; rest_ is what is still to be read.
class HostlistReader
{
public:
    explicit HostlistReader(std::string_view text) : text_(text), rest_(text) {}

    Result<Hostlist> read()
    {
        while (!rest_.empty()) {
            if (auto done = read_expression(); !done)
                return std::unexpected(std::move(done.error()));
            if (!rest_.empty())
                rest_.remove_prefix(1); // the comma
        }
        return std::move(hosts_);
    }

private:
    struct Range {
        std::uint64_t first;
        std::uint64_t last;
        std::size_t width; // of the numbers, filled with zeros
    };

    // Up to the comma or the end.
    Result<> read_expression()
    {
        auto prefix = read_name_part();
        if (!prefix)
            return std::unexpected(std::move(prefix.error()));
        if (!rest_.starts_with('['))
            return prefix->empty() ? Result<>{} : add(*prefix, {}, {});
        auto bracket = rest_;
        rest_.remove_prefix(1);
        std::vector<Range> ranges;
        for (bool more = true; more; rest_.remove_prefix(1)) {
            auto range = read_range();
            if (!range)
                return std::unexpected(std::move(range.error()));
            ranges.push_back(*range);
            if (rest_.empty()) {
                rest_ = bracket;
                return error("the bracket is never closed");
            }
            if (rest_.front() != ',' && rest_.front() != ']')
                return error("expected a comma, a hyphen or the closing bracket");
            more = rest_.front() == ',';
        }
        auto suffix = read_name_part();
        if (!suffix)
            return std::unexpected(std::move(suffix.error()));
        if (rest_.starts_with('['))
            return error("a second bracket for the same host");
        return add_ranges(*prefix, ranges, *suffix);
    }

    // What stands before or after a bracket; may be empty.
    Result<std::string_view> read_name_part()
    {
        std::size_t length = 0;
        for (; length < rest_.size(); length++) {
            char c = rest_[length];
            if (c == ',' || c == '[')
                break;
            if (c == ']' || c <= ' ' || c > '~') {
                rest_.remove_prefix(length);
                return error(c == ']'   ? "a closing bracket without an opening one"
                             : c == ' ' ? "white space in a host's name (hosts are "
                                          "separated by commas)"
                                        : "a character that no host's name has");
            }
        }
        auto part = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return part;
    }

    Result<Range> read_range()
    {
        auto digits_at = rest_;
        auto first = read_number();
        if (!first)
            return std::unexpected(std::move(first.error()));
        Range range{*first, *first, 0};
        auto length = digits_at.size() - rest_.size();
        if (length > hostlist_host_max)
            return error("the host's name is too long");
        if (digits_at.front() == '0')
            range.width = length;
        if (!rest_.starts_with('-'))
            return range;
        rest_.remove_prefix(1);
        auto last = read_number();
        if (!last)
            return std::unexpected(std::move(last.error()));
        if (*last < *first)
            return error("the range is the wrong way round");
        range.last = *last;
        return range;
    }

    Result<std::uint64_t> read_number()
    {
        std::uint64_t number = 0;
        auto [after, failed] =
            std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
        if (after == rest_.data())
            return error("expected a number");
        if (failed != std::errc())
            return error("the number is too large");
        rest_.remove_prefix(static_cast<std::size_t>(after - rest_.data()));
        return number;
    }

    Result<> add_ranges(std::string_view prefix, const std::vector<Range>& ranges,
                        std::string_view suffix)
    {
        for (const auto& range : ranges) {
            // Also keeps the loop from running over the end of 64 bits.
            if (range.last - range.first >= hostlist_hosts_max)
                return too_many();
            for (std::uint64_t i = 0; i <= range.last - range.first; i++) {
                auto number = fmt::format("{:0{}}", range.first + i, range.width);
                if (auto done = add(prefix, number, suffix); !done)
                    return done;
            }
        }
        return {};
    }

    Result<> add(std::string_view prefix, std::string_view number,
                 std::string_view suffix)
    {
        std::string host;
        host.reserve(prefix.size() + number.size() + suffix.size());
        host.append(prefix).append(number).append(suffix);
        if (host.size() > hostlist_host_max)
            return error(fmt::format("a host's name of more than {} characters",
                                     hostlist_host_max));
        bytes_ += host.size();
        if (hosts_.size() == hostlist_hosts_max || bytes_ > hostlist_bytes_max)
            return too_many();
        hosts_.push_back(std::move(host));
        return {};
    }

    std::unexpected<Error> too_many() const
    {
        return error(fmt::format("more than {} hosts, or {} MiB of names",
                                 hostlist_hosts_max, hostlist_bytes_max >> 20));
    }

    std::unexpected<Error> error(std::string_view why) const
    {
        return fail(Exit::usage, "{} is no hostlist: column {}: {}", in_quotes(text_),
                    rest_.data() - text_.data() + 1, why);
    }

    std::string_view text_;
    std::string_view rest_;
    Hostlist hosts_;
    std::size_t bytes_ = 0;
};

// A host's name with the number at its end taken off.
struct Numbered {
    std::string_view prefix;
    std::string_view number; // as written; empty if there is none
    std::uint64_t value = 0;

    explicit Numbered(std::string_view host) : prefix(host)
    {
        auto last = host.find_last_not_of(digits);
        auto at = last == std::string_view::npos ? 0 : last + 1;
        auto tail = host.substr(at);
        auto [end, failed] =
            std::from_chars(tail.data(), tail.data() + tail.size(), value);
        if (tail.empty() || failed != std::errc())
            return;
        prefix = host.substr(0, at);
        number = tail;
    }

    // The width to which numbers in the same bracket are filled with zeros.
    std::size_t width() const { return number[0] == '0' ? number.size() : 0; }
};

// "1-3,5" for hosts of one prefix and width, and their surroundings.
class Bracket
{
public:
    explicit Bracket(const Numbered& first)
        : prefix_(first.prefix), width_(first.width()), first_(first), last_(first)
    {
    }

    bool takes(const Numbered& host) const
    {
        return !host.number.empty() && host.prefix == prefix_
               && host.number == fmt::format("{:0{}}", host.value, width_);
    }

    void add(const Numbered& host)
    {
        if (host.value - last_.value != 1) {
            end_range();
            first_ = host;
        }
        last_ = host;
        single_ = false;
    }

    std::string text()
    {
        end_range();
        return single_ ? fmt::format("{}{}", prefix_, ids_)
                       : fmt::format("{}[{}]", prefix_, ids_);
    }

private:
    void end_range()
    {
        if (!ids_.empty())
            ids_.push_back(',');
        ids_.append(first_.number);
        if (last_.value != first_.value) {
            ids_.push_back('-');
            ids_.append(last_.number);
        }
    }

    std::string_view prefix_;
    std::size_t width_;
    Numbered first_; // of the present range
    Numbered last_;
    bool single_ = true;
    std::string ids_;
};

} // namespace

Result<Hostlist> parse_hostlist(std::string_view text)
{
    return HostlistReader(text).read();
}

std::string format_hostlist(const Hostlist& hosts)
{
    std::string out;
    auto append = [&](std::string_view expression) {
        if (!out.empty())
            out.push_back(',');
        out.append(expression);
    };
    for (std::size_t i = 0; i < hosts.size();) {
        Numbered host(hosts[i++]);
        if (host.number.empty()) {
            append(host.prefix);
            continue;
        }
        Bracket bracket(host);
        for (; i < hosts.size(); i++) {
            Numbered next(hosts[i]);
            if (!bracket.takes(next))
                break;
            bracket.add(next);
        }
        append(bracket.text());
    }
    return out;
}

} // namespace fluxdat::flux
