// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/source.h"

#include "lib/conf/text.h"
#include "lib/fd.h"
#include "lib/utf8.h"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::conf {

namespace {

// A configuration goes to every rank in the jobspec; the largest sensible ones list
// some thousand hosts in resource.config.
constexpr std::size_t file_size_max = 1u << 20; // bytes
constexpr std::size_t text_size_max =
    1u << 20; // bytes; more than Linux lets an argument be
constexpr std::size_t site_files_max = 256;

std::unexpected<Error> refuse(const Origin& origin, std::string_view what,
                              int errnum = 0)
{
    return std::unexpected(
        Error{fmt::format("{}: {}", origin.str(), what), errnum, origin.exit()});
}

Result<std::string> contents(const std::string& path, const Origin& origin)
{
    // Nonblocking, lest a FIFO keep us waiting for its writer.
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd)
        return refuse(origin, strerror(errno), errno);
    struct stat status;
    if (fstat(fd.get(), &status) < 0)
        return refuse(origin, strerror(errno), errno);
    if (S_ISDIR(status.st_mode))
        return refuse(origin, "is a directory, where a file is expected", EISDIR);
    if (!S_ISREG(status.st_mode))
        return refuse(origin, "is not a regular file", EINVAL);
    std::string text;
    char buffer[16384];
    ssize_t n;
    while ((n = read(fd.get(), buffer, sizeof(buffer))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return refuse(origin, strerror(errno), errno);
        text.append(buffer, static_cast<std::size_t>(n));
        if (text.size() > file_size_max)
            return refuse(origin,
                          fmt::format("larger than {} KiB, the most that a "
                                      "configuration file may be",
                                      file_size_max / 1024),
                          EFBIG);
    }
    return text;
}

Result<Value> table_only(Result<Value> value)
{
    if (value && !value->table())
        return refuse(
            value->origin,
            fmt::format("expected a table of keys and values at the top, not {}",
                        value->type_name()));
    return value;
}

Result<Value> read_text(const std::string& text, std::size_t index)
{
    const Origin origin{fmt::format("--conf text (argument {})", index),
                        Origin::Kind::text, true};
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start == std::string::npos)
        return refuse(origin, "empty");
    if (text.size() > text_size_max)
        return refuse(origin, fmt::format("larger than {} KiB", text_size_max / 1024));
    return text[start] == '{' ? table_only(parse_json(text, origin))
                              : parse_toml(text, origin);
}

std::string_view trim(std::string_view text)
{
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos)
        return {};
    return text.substr(start, text.find_last_not_of(" \t") - start + 1);
}

// The first '=' that is not in a quoted part of the key.
std::size_t find_equals(std::string_view argument)
{
    char quote = 0;
    for (std::size_t i = 0; i < argument.size(); ++i) {
        if (quote) {
            if (argument[i] == quote)
                quote = 0;
        } else if (argument[i] == '"' || argument[i] == '\'') {
            quote = argument[i];
        } else if (argument[i] == '=') {
            return i;
        }
    }
    return argument.find('=');
}

Result<Value> read_assignment(std::string_view argument)
{
    const Origin origin{fmt::format("--conf {}", printable(argument)),
                        Origin::Kind::argument, true};
    const std::size_t equals = find_equals(argument);
    const std::string_view name = trim(argument.substr(0, equals));
    const std::string_view text = trim(argument.substr(equals + 1));
    auto key = split_key(name);
    if (!key)
        return refuse(origin, fmt::format("bad key: {}", key.error().message));
    if (text.empty())
        return refuse(origin,
                      fmt::format("no value after '='; for an empty string write "
                                  "{}=\\\"\\\" in the shell",
                                  printable(name)));
    auto value = parse_argument_value(text, origin);
    if (!value)
        return value;
    Value root{Table{}, origin};
    put(root, *key, std::move(*value));
    return root;
}

Result<Value> read_named(const std::string& name,
                         const std::vector<std::string>& search_path)
{
    for (const std::string& directory : search_path) {
        for (const char* extension : {".toml", ".json"}) {
            auto value =
                read_file(directory + "/" + name + extension, Origin::Kind::file, true);
            if (value || value.error().errnum != ENOENT)
                return value;
        }
    }
    return fail(
        Exit::usage,
        "--conf {}: no {}.toml or {}.json in {}; a file is given by a name that "
        "ends in .toml or .json, a key as KEY=VALUE",
        printable(name), printable(name), printable(name),
        search_path.empty()
            ? "any directory (HOME is not set)"
            : printable(fmt::format("{}", fmt::join(search_path, ", "))));
}

bool ends_in_file_extension(std::string_view name)
{
    return name.ends_with(".toml") || name.ends_with(".json");
}

} // namespace

Result<Value> read_file(const std::string& path, Origin::Kind kind, bool command_line)
{
    const Origin origin{printable(path), kind, command_line};
    auto text = contents(path, origin);
    if (!text)
        return std::unexpected(text.error());
    if (path.ends_with(".json"))
        return table_only(parse_json(*text, origin));
    return parse_toml(*text, origin);
}

Result<std::vector<Value>> read_site(const std::string& directory)
{
    const Origin origin{printable(directory), Origin::Kind::file};
    std::vector<std::string> names;
    {
        const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()),
                                                      closedir);
        if (!dir && errno == ENOENT)
            return std::vector<Value>{};
        if (!dir)
            return refuse(origin, strerror(errno), errno);
        while (const dirent* entry = readdir(dir.get())) {
            const std::string_view name = entry->d_name;
            if (name.ends_with(".toml") && !name.starts_with("."))
                names.emplace_back(name);
        }
    }
    if (names.size() > site_files_max)
        return refuse(origin, fmt::format("more than {} files", site_files_max));
    std::sort(names.begin(), names.end());
    std::vector<Value> layers;
    for (const std::string& name : names) {
        auto value = read_file(directory + "/" + name, Origin::Kind::file, false);
        if (!value)
            return std::unexpected(value.error());
        layers.push_back(std::move(*value));
    }
    return layers;
}

Result<Value> read_argument(const std::string& argument, std::size_t index,
                            const std::vector<std::string>& search_path)
{
    for (std::size_t at = 0; at < argument.size();) {
        const std::size_t length = utf8_length(std::string_view(argument).substr(at));
        if (length == 0)
            return fail(Exit::usage, "--conf {}: not UTF-8 at byte {}",
                        printable(argument), at + 1);
        at += length;
    }
    if (trim(argument).empty())
        return fail(
            Exit::usage,
            "--conf: argument {} is empty; it takes FILE, KEY=VALUE, TEXT or NAME",
            index);
    // flux-alloc(1) reads text in braces only where it has several lines; there is
    // nothing else that it could be.
    if (argument.find('\n') != std::string::npos || trim(argument).starts_with("{"))
        return read_text(argument, index);
    if (argument.find('=') != std::string::npos)
        return read_assignment(argument);
    if (ends_in_file_extension(argument))
        return read_file(argument, Origin::Kind::file, true);
    if (argument.find('/') != std::string::npos)
        return fail(
            Exit::usage,
            "--conf {}: a configuration file's name ends in .toml or .json, and "
            "a directory cannot be given",
            printable(argument));
    return read_named(argument, search_path);
}

std::vector<std::string> search_path_from_environment()
{
    const auto environment = [](const char* name) {
        const char* value = getenv(name);
        return std::string(value ? value : "");
    };
    std::vector<std::string> path;
    const auto add = [&](const std::string& base) {
        path.push_back(base + "/flux/config");
    };
    if (const std::string home = environment("XDG_CONFIG_HOME"); !home.empty())
        add(home);
    else if (const std::string user = environment("HOME"); !user.empty())
        add(user + "/.config");
    std::string directories = environment("XDG_CONFIG_DIRS");
    if (directories.empty())
        directories = "/etc/xdg";
    for (std::size_t at = 0; at <= directories.size();) {
        const std::size_t colon =
            std::min(directories.find(':', at), directories.size());
        if (colon > at)
            add(directories.substr(at, colon - at));
        at = colon + 1;
    }
    return path;
}

} // namespace fluxdat::conf
