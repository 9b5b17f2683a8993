// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/grants.h"

#include "lib/imp/credentials.h"
#include "lib/imp/fd.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>

namespace fluxdat::imp {

namespace {

constexpr std::string_view first_line = "flux-dat-grants 1";
constexpr std::string_view f58 =
    "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
constexpr std::string_view name_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$@\\";
constexpr std::size_t name_max = 32;   // bytes
constexpr std::size_t job_id_max = 16; // bytes, with the f

template <class Number>
std::optional<Number> number(std::string_view text)
{
    Number value = 0;
    auto end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end || text[0] == '-'
        || (text[0] == '0' && text.size() > 1))
        return {};
    return value;
}

// The lines of the file in the order that the format prescribes.
class Lines
{
public:
    explicit Lines(std::string_view text) : rest_(text) {}

    bool next()
    {
        line_number_++;
        auto length = rest_.find('\n');
        if (length == rest_.npos)
            return false;
        line_ = rest_.substr(0, length);
        rest_.remove_prefix(length + 1);
        return true;
    }

    // What follows "KEY " in this line.
    std::optional<std::string_view> value(std::string_view key) const
    {
        if (!line_.starts_with(key) || line_.size() < key.size() + 2
            || line_[key.size()] != ' ')
            return {};
        return line_.substr(key.size() + 1);
    }

    // The same of the next line.
    std::optional<std::string_view> next_value(std::string_view key)
    {
        return next() ? value(key) : std::nullopt;
    }

    std::string_view line() const { return line_; }
    bool at_end() const { return rest_.empty(); }

    std::unexpected<Error> bad(const std::string& what) const
    {
        return fail("line " + std::to_string(line_number_) + ": " + what, EINVAL);
    }

private:
    std::string_view rest_;
    std::string_view line_;
    std::size_t line_number_ = 0;
};

Result<> parse_header(Lines& lines, Grants& grants)
{
    if (!lines.next() || lines.line() != first_line)
        return lines.bad("expected `" + std::string(first_line) + "`");
    auto owner = lines.next_value("owner");
    auto uid = owner ? number<uid_t>(*owner) : std::nullopt;
    if (!uid)
        return lines.bad("expected `owner UID`");
    grants.owner = *uid;
    auto job = lines.next_value("job");
    if (!job || job->size() < 2 || job->size() > job_id_max || (*job)[0] != 'f'
        || job->find_first_not_of(f58, 1) != job->npos)
        return lines.bad("expected `job JOBID` in F58");
    auto generation = lines.next_value("generation");
    if (!generation || !number<std::uint64_t>(*generation))
        return lines.bad("expected `generation NUMBER`");
    auto open = lines.next_value("open");
    if (!open || (*open != "yes" && *open != "no"))
        return lines.bad("expected `open yes` or `open no`");
    grants.open = *open == "yes";
    return {};
}

// The id of "ID NAME".
std::optional<std::uint32_t> guest_id(std::string_view fields)
{
    auto space = fields.find(' ');
    if (space == fields.npos)
        return {};
    auto name = fields.substr(space + 1);
    if (name.empty() || name.size() > name_max
        || name.find_first_not_of(name_characters) != name.npos)
        return {};
    auto id = number<std::uint32_t>(fields.substr(0, space));
    // -1 is no id, and 0 is root's: neither is ever a guest.
    return id && *id != 0 && *id != UINT32_MAX ? id : std::nullopt;
}

Result<> parse_guests(Lines& lines, Grants& grants)
{
    for (;;) {
        if (!lines.next())
            return lines.bad("the file is cut off: no `end`");
        if (lines.line() == "end")
            return {};
        auto user = lines.value("user");
        auto group = lines.value("group");
        if (!user && !group)
            return lines.bad("expected `user ...`, `group ...` or `end`");
        auto id = guest_id(user ? *user : *group);
        if (!id)
            return lines.bad("expected a guest's id and a name or `-`");
        if (user && *id == grants.owner)
            return lines.bad("the owner is no guest");
        if (user && !grants.groups.empty())
            return lines.bad("a user after a group");
        auto& ids = user ? grants.users : grants.groups;
        if (!ids.empty() && *id <= ids.back())
            return lines.bad("the ids do not ascend");
        if (grants.users.size() + grants.groups.size() == grants_guests_max)
            return lines.bad("more than " + std::to_string(grants_guests_max)
                             + " guests");
        ids.push_back(*id);
    }
}

Result<std::string> read_file(int fd, const std::string& path)
{
    std::string text(grants_bytes_max + 1, '\0');
    std::size_t length = 0;
    while (length < text.size()) {
        auto got = read(fd, text.data() + length, text.size() - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(path + ": " + std::strerror(errno), errno);
        if (got == 0)
            break;
        length += static_cast<std::size_t>(got);
    }
    if (length > grants_bytes_max)
        return fail(path + ": larger than " + std::to_string(grants_bytes_max)
                        + " bytes, which no grants file is",
                    E2BIG);
    text.resize(length);
    return text;
}

Result<> check_file(int fd, const std::string& path, uid_t owner)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return fail(path + ": " + std::strerror(errno), errno);
    if (!S_ISREG(status.st_mode))
        return fail(path + ": is not a regular file", EPERM);
    if (status.st_uid != owner)
        return fail(path + ": belongs to uid " + std::to_string(status.st_uid)
                        + " and not to the owner of the DAT, uid "
                        + std::to_string(owner),
                    EPERM);
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return fail(path + ": can be written by others than the owner of the DAT",
                    EPERM);
    return {};
}

} // namespace

Result<Grants> parse_grants(std::string_view text)
{
    if (text.size() > grants_bytes_max)
        return fail("larger than " + std::to_string(grants_bytes_max) + " bytes",
                    E2BIG);
    Lines lines(text);
    Grants grants;
    if (auto header = parse_header(lines, grants); !header)
        return std::unexpected(std::move(header.error()));
    if (auto guests = parse_guests(lines, grants); !guests)
        return std::unexpected(std::move(guests.error()));
    if (!lines.at_end())
        return lines.bad("something follows `end`");
    return grants;
}

Result<Grants> read_grants(const std::string& path, uid_t owner, gid_t owner_gid)
{
    auto shown = in_quotes(path);
    if (!path.starts_with('/'))
        return fail(shown + ": is not an absolute path", EINVAL);
    Fd file;
    {
        FileAccessAs as_owner(owner, owner_gid);
        if (!as_owner)
            return fail(shown + ": cannot look at it as uid " + std::to_string(owner),
                        EPERM);
        // O_NONBLOCK: a FIFO in its place must not make the IMP wait.
        file = Fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!file && errno == ELOOP)
            return fail(shown + ": is a symbolic link", EPERM);
        if (!file)
            return fail(shown + ": " + std::strerror(errno), errno);
    }
    if (auto fit = check_file(file.get(), shown, owner); !fit)
        return std::unexpected(std::move(fit.error()));
    auto text = read_file(file.get(), shown);
    if (!text)
        return std::unexpected(std::move(text.error()));
    auto grants = parse_grants(*text);
    if (!grants)
        return fail(shown + ": " + grants.error().message, EINVAL);
    if (grants->owner != owner)
        return fail(shown + ": is the list of uid " + std::to_string(grants->owner)
                        + ", not of uid " + std::to_string(owner),
                    EPERM);
    return grants;
}

bool is_granted(const Grants& grants, const User& user,
                const std::vector<gid_t>& groups)
{
    if (grants.open || user.uid == grants.owner
        || std::ranges::binary_search(grants.users, user.uid))
        return true;
    return std::ranges::any_of(groups, [&](gid_t group) {
        return std::ranges::binary_search(grants.groups, group);
    });
}

} // namespace fluxdat::imp
