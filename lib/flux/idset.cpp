// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/idset.h"

#include "lib/flux/text.h"

#include <algorithm>
#include <charconv>

namespace fluxdat::flux {

Idset::Iterator& Idset::Iterator::operator++()
{
    if (id_ < range_->last)
        ++id_;
    else
        *this = Iterator(range_ + 1, end_);
    return *this;
}

Idset::Iterator Idset::Iterator::operator++(int)
{
    auto before = *this;
    ++*this;
    return before;
}

std::size_t Idset::size() const
{
    std::size_t count = 0;
    for (const auto& range : ranges_)
        count += std::size_t{range.last} - range.first + 1;
    return count;
}

bool Idset::contains(std::uint32_t id) const
{
    auto range = std::ranges::lower_bound(ranges_, id, {}, &Range::last);
    return range != ranges_.end() && range->first <= id;
}

std::optional<std::uint32_t> Idset::first() const
{
    if (ranges_.empty())
        return {};
    return ranges_.front().first;
}

std::optional<std::uint32_t> Idset::last() const
{
    if (ranges_.empty())
        return {};
    return ranges_.back().last;
}

void Idset::insert(std::uint32_t first, std::uint32_t last)
{
    // The first range that the new one reaches, or touches.
    auto begin =
        std::ranges::lower_bound(ranges_, first == 0 ? 0 : first - 1, {}, &Range::last);
    auto end = begin;
    for (; end != ranges_.end() && (end->first <= last || end->first - 1 == last);
         ++end) {
        first = std::min(first, end->first);
        last = std::max(last, end->last);
    }
    begin = ranges_.erase(begin, end);
    ranges_.insert(begin, Range{first, last});
}

void Idset::insert(const Idset& other)
{
    for (auto range : other.ranges_)
        insert(range.first, range.last);
}

void Idset::remove(std::uint32_t first, std::uint32_t last)
{
    auto begin = std::ranges::lower_bound(ranges_, first, {}, &Range::last);
    auto end = begin;
    std::vector<Range> rest;
    for (; end != ranges_.end() && end->first <= last; ++end) {
        if (end->first < first)
            rest.push_back({end->first, first - 1});
        if (end->last > last)
            rest.push_back({last + 1, end->last});
    }
    begin = ranges_.erase(begin, end);
    ranges_.insert(begin, rest.begin(), rest.end());
}

void Idset::remove(const Idset& other)
{
    if (&other == this) {
        ranges_.clear();
        return;
    }
    for (auto range : other.ranges_)
        remove(range.first, range.last);
}

namespace {

// Reads an idset from left to right; `rest` is what is still to be read.
class IdsetReader
{
public:
    explicit IdsetReader(std::string_view text) : text_(text), rest_(text) {}

    Result<Idset> read()
    {
        if (rest_.starts_with('[')) {
            if (!rest_.ends_with(']'))
                return error("the bracket is never closed");
            rest_ = rest_.substr(1, rest_.size() - 2);
        }
        Idset ids;
        if (rest_.empty())
            return ids;
        for (;;) {
            auto range = read_range();
            if (!range)
                return std::unexpected(std::move(range.error()));
            if (!ids.empty() && range->first <= *ids.last())
                return error("ids must ascend, and none come twice");
            count_ += std::size_t{range->last} - range->first + 1;
            if (count_ > idset_ids_max)
                return error(fmt::format("more than {} ids", idset_ids_max));
            ids.insert(range->first, range->last);
            if (rest_.empty())
                return ids;
            if (rest_.front() != ',')
                return error("expected a comma or a hyphen");
            rest_.remove_prefix(1);
        }
    }

private:
    Result<Idset::Range> read_range()
    {
        auto first = read_id();
        if (!first)
            return std::unexpected(std::move(first.error()));
        if (!rest_.starts_with('-'))
            return Idset::Range{*first, *first};
        rest_.remove_prefix(1);
        auto last = read_id();
        if (!last)
            return std::unexpected(std::move(last.error()));
        if (*last < *first)
            return error("the range is the wrong way round");
        return Idset::Range{*first, *last};
    }

    Result<std::uint32_t> read_id()
    {
        std::uint32_t id = 0;
        auto [after, failed] =
            std::from_chars(rest_.data(), rest_.data() + rest_.size(), id);
        auto digits = static_cast<std::size_t>(after - rest_.data());
        if (digits == 0)
            return error("expected an id (a number)");
        if (rest_[0] == '0' && digits > 1)
            return error("an id has no leading zeros");
        if (failed != std::errc() || id > idset_id_max)
            return error("the id is too large");
        rest_.remove_prefix(digits);
        return id;
    }

    std::unexpected<Error> error(std::string_view why) const
    {
        return fail(Exit::usage, "{} is no idset: column {}: {}", in_quotes(text_),
                    rest_.data() - text_.data() + 1, why);
    }

    std::string_view text_;
    std::string_view rest_;
    std::size_t count_ = 0;
};

} // namespace

Result<Idset> parse_idset(std::string_view text)
{
    return IdsetReader(text).read();
}

std::string format_idset(const Idset& ids)
{
    std::string out;
    for (const auto& range : ids.ranges()) {
        if (!out.empty())
            out.push_back(',');
        out += std::to_string(range.first);
        if (range.last != range.first)
            out += "-" + std::to_string(range.last);
    }
    return out;
}

std::string format_idset_bracketed(const Idset& ids)
{
    auto text = format_idset(ids);
    return ids.size() > 1 ? "[" + text + "]" : text;
}

} // namespace fluxdat::flux
