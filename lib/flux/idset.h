// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Sets of ids: RFC 22. Ranks of brokers and tasks, resource ids: "0-3,7", "[2-3]".
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::flux {

// A text that stands for more ids than this is refused: Flux gives each broker 14 bits
// in a job id (RFC 19), and no node has a million of anything.
constexpr std::size_t idset_ids_max = 1u << 20;
// 2^32 - 1 means "any node" in a message, and is no id.
constexpr std::uint32_t idset_id_max = 0xfffffffe;

// A set of ids, kept as ranges: a DAT on all nodes of a machine is one of them.
class Idset
{
public:
    struct Range {
        std::uint32_t first;
        std::uint32_t last; // belongs to the range
        bool operator==(const Range&) const = default;
    };

    // In ascending order.
    class Iterator
    {
    public:
        using value_type = std::uint32_t;
        using difference_type = std::ptrdiff_t;
        Iterator() = default;
        std::uint32_t operator*() const { return id_; }
        Iterator& operator++();
        Iterator operator++(int);
        bool operator==(const Iterator&) const = default;

    private:
        friend class Idset;
        using Ranges = std::vector<Range>::const_iterator;
        Iterator(Ranges range, Ranges end)
            : range_(range), end_(end), id_(range == end ? 0 : range->first)
        {
        }
        Ranges range_;
        Ranges end_;
        std::uint32_t id_ = 0; // 0 at the end
    };

    Idset() = default;
    explicit Idset(std::uint32_t id) { insert(id); }
    Idset(std::uint32_t first, std::uint32_t last) { insert(first, last); }

    bool empty() const { return ranges_.empty(); }
    std::size_t size() const;
    bool contains(std::uint32_t id) const;
    std::optional<std::uint32_t> first() const;
    std::optional<std::uint32_t> last() const;

    void insert(std::uint32_t id) { insert(id, id); }
    void insert(std::uint32_t first, std::uint32_t last); // last included
    void insert(const Idset& other);                      // becomes the union
    void remove(std::uint32_t id) { remove(id, id); }
    void remove(std::uint32_t first, std::uint32_t last);
    void remove(const Idset& other);

    Iterator begin() const { return {ranges_.begin(), ranges_.end()}; }
    Iterator end() const { return {ranges_.end(), ranges_.end()}; }
    const std::vector<Range>& ranges() const { return ranges_; }
    bool operator==(const Idset&) const = default;

private:
    std::vector<Range> ranges_; // ascending, disjoint, not adjacent
};

// Takes ids and ranges in ascending order, with or without brackets around them all; ""
// and "[]" are the empty set. A usage error with the column of what RFC 22 does not
// allow: another character (also white space), a leading zero, an id that does not
// ascend, too many or too large ids.
Result<Idset> parse_idset(std::string_view text);

// "0-3,7"; the empty set is "".
std::string format_idset(const Idset& ids);

// The same with brackets where it is more than one id: "[0-3,7]", "2". Flux shows ranks
// so.
std::string format_idset_bracketed(const Idset& ids);

} // namespace fluxdat::flux
