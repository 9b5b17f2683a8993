// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Typed key-value pairs: RFC 38. The header of a signed job (RFC 39) is one, and so is
// everything that the unprivileged half of the IMP says to the privileged one. The
// encoding is small enough to be checked by reading kv.cpp:
//
//     key NUL type-character value-text NUL, one pair after the other
//
// Nothing is converted: an integer is not had as a real number, a string not as an
// integer. What decode() accepts, encode() gives back byte for byte: values must be
// written as RFC 38 has them written ("42", not "+42" or "042"), so two texts never
// mean the same. RFC 38 says nothing of a key that comes twice; here it is refused, in
// decode() and in put, so that no two readers can disagree on which one counts.
// That keys and strings are UTF-8 is not checked: environments hold other bytes too,
// and nothing here looks into them.
#pragma once

#include "lib/imp/result.h"

#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::imp {

// Most bytes of an encoding that decode() takes. A signed job is the largest thing that
// is sent in one: sign_bytes_max (sign.h) and something for the rest.
constexpr std::size_t kv_bytes_max = 20u << 20;
// Most pairs. An argv or an environment of this size is far beyond execve(2).
constexpr std::size_t kv_pairs_max = 65536;

class Kv
{
public:
    enum class Type : char {
        string = 's',
        integer = 'i',   // 64 bits, signed
        real = 'd',      // double, six decimals; infinite but not NaN
        boolean = 'b',   // "true" or "false"
        timestamp = 't', // UTC, "2023-08-18T14:59:45Z"
    };
    struct Pair {
        std::string key;
        Type type;
        std::string value; // as text, as it is encoded
        bool operator==(const Pair&) const = default;
    };

    // Each adds a pair at the end. Fails on an empty key, a NUL in key or string, a key
    // that is there already (EEXIST), a value that cannot be written (NaN, a year of
    // more than four digits), or kv_pairs_max.
    Result<> put_string(std::string_view key, std::string value);
    Result<> put_integer(std::string_view key, std::int64_t value);
    Result<> put_real(std::string_view key, double value);
    Result<> put_boolean(std::string_view key, bool value);
    Result<> put_timestamp(std::string_view key, std::time_t value);

    // Each fails if there is no such key (ENOENT) or its value is of another type
    // (EINVAL); the message names key and types.
    Result<std::string> get_string(std::string_view key) const;
    // The same without a copy, good as long as this Kv is not changed.
    Result<std::string_view> view_string(std::string_view key) const;
    Result<std::int64_t> get_integer(std::string_view key) const;
    Result<double> get_real(std::string_view key) const;
    Result<bool> get_boolean(std::string_view key) const;
    Result<std::time_t> get_timestamp(std::string_view key) const;

    bool contains(std::string_view key) const { return index_.contains(key); }
    std::size_t size() const { return pairs_.size(); }
    const std::vector<Pair>& pairs() const { return pairs_; } // in the order of putting
    bool operator==(const Kv& other) const { return pairs_ == other.pairs_; }

    std::string encode() const;

    // The whole of bytes, no more than kv_bytes_max; no bytes are no pairs.
    static Result<Kv> decode(std::string_view bytes);

private:
    friend Result<> kv_join(Kv& whole, const Kv& part, std::string_view prefix);
    friend Kv kv_split(const Kv& whole, std::string_view prefix);
    Result<> put(std::string_view key, Type type, std::string value);
    Result<const Pair*> get(std::string_view key, Type type) const;

    std::vector<Pair> pairs_;
    std::map<std::string, std::size_t, std::less<>> index_; // key to place in pairs_
};

// Adds all pairs of `part` to `whole`, each key with `prefix` before it.
Result<> kv_join(Kv& whole, const Kv& part, std::string_view prefix);

// The pairs whose keys start with `prefix`, without it. A key that is nothing but the
// prefix is left out.
Kv kv_split(const Kv& whole, std::string_view prefix);

// An argument vector: strings under the keys "0", "1", and so on. kv_to_argv() fails
// unless the keys are these, in this order, and all values strings.
Result<Kv> kv_from_argv(const std::vector<std::string>& argv);
Result<std::vector<std::string>> kv_to_argv(const Kv& kv);

// An environment: "NAME=VALUE" is the string VALUE under the key NAME. Fails on an
// entry without "=" or without a name, on a name that comes twice, and, on the way
// back, on a value that is no string and a name that contains "=".
Result<Kv> kv_from_environment(const std::vector<std::string>& environment);
Result<std::vector<std::string>> kv_to_environment(const Kv& kv);

} // namespace fluxdat::imp
