// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/jobid.h"

#include "lib/flux/text.h"

#include <charconv>
#include <clocale>
#include <cstdlib>
#include <langinfo.h>
#include <limits>

namespace fluxdat::flux {

namespace {

constexpr std::string_view f58_prefix = "\xc6\x92"; // U+0192 ƒ
constexpr std::string_view base58 =
    "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
constexpr std::size_t dothex_groups = 4;
constexpr std::size_t dothex_digits_max = 4; // in a group

bool in_ascii = false;

std::unexpected<Error> no_jobid(std::string_view text, std::string_view why)
{
    return fail(Exit::usage, "{} is no job id: {}", in_quotes(text), why);
}

std::unexpected<Error> too_large(std::string_view text)
{
    return no_jobid(text, "it does not fit in 64 bits");
}

Result<JobId> parse_number(std::string_view whole, std::string_view digits, int base)
{
    JobId id = 0;
    auto end = digits.data() + digits.size();
    auto [rest, error] = std::from_chars(digits.data(), end, id, base);
    if (error == std::errc::result_out_of_range)
        return too_large(whole);
    if (error != std::errc() || rest != end)
        return no_jobid(whole, base == 16
                                   ? "a hexadecimal number was expected after 0x"
                                   : "expected a number, or F58 as in ƒuZZybuNNy or "
                                     "fuZZybuNNy");
    return id;
}

Result<JobId> parse_f58(std::string_view whole, std::string_view digits)
{
    if (digits.empty())
        return no_jobid(whole, "nothing follows the F58 prefix");
    JobId id = 0;
    for (char c : digits) {
        auto digit = base58.find(c);
        if (digit == std::string_view::npos)
            return no_jobid(whole,
                            fmt::format("F58 has no {} (base 58 leaves out 0, O, "
                                        "I and l)",
                                        in_quotes(std::string_view(&c, 1))));
        if (__builtin_mul_overflow(id, base58.size(), &id)
            || __builtin_add_overflow(id, digit, &id))
            return too_large(whole);
    }
    return id;
}

Result<JobId> parse_dothex(std::string_view whole)
{
    JobId id = 0;
    std::size_t groups = 0;
    for (std::string_view rest = whole;; groups++) {
        auto group = rest.substr(0, rest.find('.'));
        std::uint16_t value = 0;
        auto end = group.data() + group.size();
        auto [after, error] = std::from_chars(group.data(), end, value, 16);
        if (groups == dothex_groups || group.size() > dothex_digits_max
            || error != std::errc() || after != end)
            break;
        id = id << 16 | value;
        if (group.size() == rest.size()) {
            if (groups + 1 == dothex_groups)
                return id;
            break;
        }
        rest.remove_prefix(group.size() + 1);
    }
    return no_jobid(whole, "dotted hexadecimal is four groups of up to four digits, as "
                           "in 0017.e9fb.8df1.6c2e");
}

std::string f58_digits(JobId id)
{
    std::string digits;
    do {
        digits.insert(digits.begin(), base58[id % base58.size()]);
        id /= base58.size();
    } while (id > 0);
    return digits;
}

} // namespace

Result<JobId> parse_jobid(std::string_view text)
{
    auto id = trimmed(text);
    if (id.empty())
        return no_jobid(text, "it is empty");
    if (id.find('.') != std::string_view::npos)
        return parse_dothex(id);
    if (id.front() == '-')
        return no_jobid(id, "it is negative");
    if (id.find('-') != std::string_view::npos)
        return no_jobid(id, "the mnemonic form (words) is not supported, use F58 or a "
                            "number");
    if (id.starts_with(f58_prefix))
        return parse_f58(id, id.substr(f58_prefix.size()));
    if (id.starts_with('f'))
        return parse_f58(id, id.substr(1));
    if (id.starts_with("\xf0\x9f"))
        return no_jobid(id, "the emoji form is not supported, use F58 or a number");
    if (id.starts_with("0x"))
        return parse_number(id, id.substr(2), 16);
    return parse_number(id, id, 10);
}

std::string format_jobid(JobId id)
{
    return std::string(in_ascii ? "f" : f58_prefix) + f58_digits(id);
}

bool jobids_need_ascii()
{
    if (const char* forced = std::getenv("FLUX_F58_FORCE_ASCII"); forced && *forced)
        return true;
    // Of this alone: the program itself stays in the C locale.
    locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
    if (!locale)
        return true;
    bool utf8 = std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
    freelocale(locale);
    return !utf8;
}

void show_jobids_in_ascii(bool ascii)
{
    in_ascii = ascii;
}

std::string format_jobid_ascii(JobId id)
{
    return "f" + f58_digits(id);
}

} // namespace fluxdat::flux
