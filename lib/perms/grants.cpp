// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/grants.h"

#include "lib/perms/replace_file.h"

#include "lib/accounts.h"
#include "lib/in_time.h"
#include "lib/perms/fd.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <grp.h>
#include <memory>
#include <pwd.h>
#include <sys/stat.h>

namespace fluxdat::perms {

namespace {

constexpr std::string_view first_line = "flux-dat-grants 1";
constexpr std::string_view no_name = "-";
constexpr std::size_t names_looked_up_max = 256;
constexpr double names_time_max = 2; // seconds, for all of them

bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || std::string_view("_.-$@\\").find(c) != std::string_view::npos;
}

bool is_name(std::string_view text)
{
    return !text.empty() && text.size() <= grants_name_max
           && std::all_of(text.begin(), text.end(), is_name_character);
}

// Names from a directory server can be anything; what would not be one field is left
// out.
std::string_view name_field(std::string_view name)
{
    return is_name(name) ? name : no_name;
}

// The lines of a grants file, one after the other.
class LineReader
{
public:
    LineReader(std::string_view text, std::string_view file) : rest_(text), file_(file)
    {
    }

    // The next line, without its LF.
    Result<std::string_view> next()
    {
        number_++;
        auto length = rest_.find('\n');
        if (length == std::string_view::npos)
            return bad(rest_.empty() ? "the file is cut off: no `end`"
                                     : "the file is cut off within this line");
        auto line = rest_.substr(0, length);
        rest_.remove_prefix(length + 1);
        return line;
    }

    bool at_end() const { return rest_.empty(); }

    // Of the line that next() gave last.
    std::unexpected<Error> bad(std::string_view what) const
    {
        return fail("{}:{}: {}", file_, number_, what);
    }

private:
    std::string_view rest_;
    std::string_view file_;
    std::size_t number_ = 0;
};

// Takes "KEY " off the front of a line.
bool take_key(std::string_view& line, std::string_view key)
{
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ')
        return false;
    line.remove_prefix(key.size() + 1);
    return true;
}

template <class Number>
bool parse_number(std::string_view text, Number& number)
{
    if (text.empty() || (text.size() > 1 && text[0] == '0'))
        return false;
    auto end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && stop == end && text[0] != '-';
}

// The value of the line "KEY VALUE".
Result<std::string_view> header(LineReader& lines, std::string_view key)
{
    auto line = lines.next();
    if (line && !take_key(*line, key))
        return lines.bad(fmt::format("expected `{} ...`", key));
    return line;
}

template <class Number>
Result<> number_header(LineReader& lines, std::string_view key, Number& number)
{
    auto value = header(lines, key);
    if (!value)
        return std::unexpected(value.error());
    if (!parse_number(*value, number))
        return lines.bad(fmt::format("expected a decimal number after `{}`", key));
    return {};
}

// "ID NAME", what is left of a guest's line.
struct GuestLine {
    std::uint32_t id;
    std::string_view name;
};
Result<GuestLine> guest(const LineReader& lines, std::string_view fields)
{
    std::uint32_t id = 0;
    auto space = fields.find(' ');
    if (!parse_number(fields.substr(0, space), id))
        return lines.bad("expected a decimal id");
    if (space == std::string_view::npos || !is_name(fields.substr(space + 1)))
        return lines.bad("expected a name or `-` after the id");
    return GuestLine{id, fields.substr(space + 1)};
}

Result<> parse_header(LineReader& lines, Grants& grants)
{
    auto version = lines.next();
    if (!version)
        return std::unexpected(version.error());
    if (*version != first_line)
        return lines.bad(fmt::format("not a grants file of a version known here: "
                                     "expected `{}`",
                                     first_line));
    if (auto owner = number_header(lines, "owner", grants.owner); !owner)
        return owner;
    auto job = header(lines, "job");
    if (!job)
        return std::unexpected(job.error());
    if (!is_job_id(*job))
        return lines.bad("expected a job id in F58 after `job`");
    grants.job = *job;
    if (auto number = number_header(lines, "generation", grants.guests.generation);
        !number)
        return number;
    auto open = header(lines, "open");
    if (!open)
        return std::unexpected(open.error());
    if (*open != "yes" && *open != "no")
        return lines.bad("expected `open yes` or `open no`");
    grants.guests.open = *open == "yes";
    return {};
}

// The lines of users and groups, up to `end`.
Result<> parse_guests(LineReader& lines, Grants& grants)
{
    auto& users = grants.guests.users;
    auto& groups = grants.guests.groups;
    for (;;) {
        auto line = lines.next();
        if (!line)
            return std::unexpected(line.error());
        if (*line == "end")
            return {};
        bool is_user = take_key(*line, "user");
        if (!is_user && !take_key(*line, "group"))
            return lines.bad("expected `user ...`, `group ...` or `end`");
        auto one = guest(lines, *line);
        if (!one)
            return std::unexpected(one.error());
        auto valid =
            is_user ? validate_user(one->id, grants.owner) : validate_group(one->id);
        if (!valid)
            return lines.bad(valid.error().message);
        if (is_user && !groups.empty())
            return lines.bad("a user after a group");
        auto& ids = is_user ? users : groups;
        if (!ids.empty() && one->id <= ids.back())
            return lines.bad("the ids do not ascend");
        if (users.size() + groups.size() == guests_max)
            return lines.bad(fmt::format("more than {} guests", guests_max));
        ids.push_back(one->id);
        (is_user ? grants.user_names : grants.group_names).emplace_back(one->name);
    }
}

// The name that stands beside `id`, where it does.
const std::string* name_beside(std::uint32_t id, const std::vector<std::uint32_t>& ids,
                               const std::vector<std::string>& names)
{
    auto found = std::lower_bound(ids.begin(), ids.end(), id);
    auto place = static_cast<std::size_t>(found - ids.begin());
    return found != ids.end() && *found == id && place < names.size() ? &names[place]
                                                                      : nullptr;
}

} // namespace

GrantsNames names_by(GrantsNames look_up, double seconds)
{
    struct Left {
        std::size_t lookups = names_looked_up_max;
        TimeLeft time;
    };
    auto left = std::make_shared<Left>(Left{names_looked_up_max, TimeLeft(seconds)});
    auto within = [left](auto function) {
        return [left, function](std::uint32_t id) {
            if (left->lookups == 0)
                return std::string();
            left->lookups--;
            return left->time.call([function, id] { return function(id); })
                .value_or(std::string());
        };
    };
    return {within(std::move(look_up.user)), within(std::move(look_up.group))};
}

GrantsNames system_names()
{
    return names_by(
        {[](uid_t user) {
             std::string name;
             look_up(getpwuid_r, user, [&](auto& entry) { name = entry.pw_name; });
             return name;
         },
         [](gid_t group) {
             std::string name;
             look_up(getgrgid_r, group, [&](auto& entry) { name = entry.gr_name; });
             return name;
         }},
        names_time_max);
}

GrantsNames names_as_written(const Grants& written)
{
    auto system = system_names();
    return {
        [&written, look_up = system.user](uid_t user) {
            auto* name = name_beside(user, written.guests.users, written.user_names);
            return name ? *name : look_up(user);
        },
        [&written, look_up = system.group](gid_t group) {
            auto* name = name_beside(group, written.guests.groups, written.group_names);
            return name ? *name : look_up(group);
        },
    };
}

bool is_job_id(std::string_view text)
{
    constexpr std::string_view f58 =
        "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    return text.size() >= 2 && text.size() <= grants_job_max && text[0] == 'f'
           && text.find_first_not_of(f58, 1) == std::string_view::npos;
}

std::string format_grants(const Grants& grants, const GrantsNames& names)
{
    const auto& guests = grants.guests;
    auto text = fmt::format("{}\nowner {}\njob {}\ngeneration {}\nopen {}\n",
                            first_line, grants.owner, grants.job, guests.generation,
                            guests.open ? "yes" : "no");
    for (uid_t user : guests.users)
        text += fmt::format("user {} {}\n", user, name_field(names.user(user)));
    for (gid_t group : guests.groups)
        text += fmt::format("group {} {}\n", group, name_field(names.group(group)));
    return text + "end\n";
}

Result<Grants> parse_grants(std::string_view text, std::string_view file)
{
    if (text.size() > grants_size_max)
        return fail("{}: larger than {} bytes, which no grants file is", file,
                    grants_size_max);
    LineReader lines(text, file);
    Grants grants;
    if (auto header = parse_header(lines, grants); !header)
        return std::unexpected(header.error());
    if (auto guests = parse_guests(lines, grants); !guests)
        return std::unexpected(guests.error());
    if (!lines.at_end())
        return lines.bad("something follows `end`");
    return grants;
}

Result<> write_grants(int directory, const std::string& path, const Grants& grants,
                      const GrantsNames& names)
{
    auto written = replace_file(directory, path, grants_file_name,
                                grants_temporary_name, format_grants(grants, names));
    if (!written
        && (written.error().errnum == ENOSPC || written.error().errnum == EDQUOT))
        written.error().message += "; make room there or choose another --door-dir";
    return written;
}

// Over the beginning first, in one write: what is left of the old list then follows
// `end`, and grants nothing; grants_in_force() finds the generation though it cannot be
// cut off. Cut off first, the file would have none if the write failed. Rejected for a
// whole list: of one that is longer than a page a reader may see parts of both.
Result<> empty_grants(int directory, const std::string& path, Grants grants)
{
    auto file_path = path + "/" + grants_file_name;
    GuestList nobody;
    nobody.generation = grants.guests.generation;
    grants.guests = nobody;
    auto text = format_grants(grants, {});
    Fd file(::openat(directory, grants_file_name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file)
        return fail_errno(errno, "cannot open " + file_path);
    auto size = ::pwrite(file.get(), text.data(), text.size(), 0);
    if (size < 0)
        return fail_errno(errno, "cannot write " + file_path);
    if (static_cast<std::size_t>(size) < text.size())
        return fail("cannot write {}: it took only {} bytes", file_path, size);
    if (::ftruncate(file.get(), size) < 0)
        return fail_errno(errno, "cannot cut off " + file_path);
    return {};
}

namespace {

Result<std::string> read_text(int directory, const std::string& path, uid_t owner)
{
    auto file_path = path + "/" + grants_file_name;
    // O_NONBLOCK: a FIFO in its place must not make the reader wait.
    Fd file(::openat(directory, grants_file_name,
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ELOOP)
        return fail("{} is a symbolic link", file_path);
    if (!file)
        return fail_errno(errno, "cannot open " + file_path);
    struct stat status;
    if (::fstat(file.get(), &status) < 0)
        return fail_errno(errno, "cannot look at " + file_path);
    if (!S_ISREG(status.st_mode))
        return fail("{} is not a regular file", file_path);
    if (status.st_uid != owner)
        return fail("{} belongs to user {}, not to the DAT's owner {}", file_path,
                    status.st_uid, owner);
    if (status.st_mode & 022)
        return fail("{} can be written by others (mode {:04o})", file_path,
                    status.st_mode & 07777);
    if (status.st_size > static_cast<off_t>(grants_size_max))
        return fail("{}: larger than {} bytes, which no grants file is", file_path,
                    grants_size_max);
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        auto got = ::read(file.get(), text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(errno, "cannot read " + file_path);
        if (got == 0)
            break; // shorter than it was: parse_grants() will see that
        size += static_cast<std::size_t>(got);
    }
    text.resize(size);
    return text;
}

// Who parses the file's text: parse_grants(), or the like.
using Parse = Result<Grants> (*)(std::string_view text, std::string_view file);

Result<Grants> read_as(Parse parse, int directory, const std::string& path, uid_t owner)
{
    auto file_path = path + "/" + grants_file_name;
    auto text = read_text(directory, path, owner);
    if (!text)
        return std::unexpected(text.error());
    auto grants = parse(*text, file_path);
    if (grants && grants->owner != owner)
        return fail("{}: says that user {} owns the DAT, but it is user {}'s file",
                    file_path, grants->owner, owner);
    return grants;
}

// Of a list that was cut off, its header.
Result<Grants> parse_in_force(std::string_view text, std::string_view file)
{
    auto grants = parse_grants(text, file);
    LineReader lines(text, file);
    if (Grants header; !grants && parse_header(lines, header)) {
        header.guests.open = false;
        grants = std::move(header);
    }
    return grants;
}

} // namespace

Result<Grants> read_grants(int directory, const std::string& path, uid_t owner)
{
    return read_as(parse_grants, directory, path, owner);
}

Result<Grants> grants_in_force(int directory, const std::string& path, uid_t owner)
{
    return read_as(parse_in_force, directory, path, owner);
}

} // namespace fluxdat::perms
