// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/config.h"

#include "lib/imp/fd.h"
#include "lib/imp/trusted.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <glob.h>
#include <string_view>

// Header only: the setuid program links no library for it. Errors are values here, too.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
// What toml++ 3.3 asserts in its parser, it also refuses a few lines later with a
// message
// ("[, x]"). A file of a person must not end the program without one.
#define TOML_ASSERT(expr) static_cast<void>(0)
// toml++ does not know that GCC 12 has from_chars(3) for these; streams bring the
// locales.
#define TOML_FLOAT_CHARCONV 1
#define TOML_ENABLE_FORMATTERS 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

namespace fluxdat::imp {

namespace {

using Severity = Problem::Severity;

// Where in the two sets of files a top-level key belongs.
constexpr std::array<std::string_view, 4> imp_keys{"exec", "run", "allow-sudo",
                                                   "log-level"};
constexpr std::array<std::string_view, 1> security_keys{"sign"};

template <class Keys>
bool is_one_of(std::string_view key, const Keys& keys)
{
    return std::ranges::find(keys, key) != std::ranges::end(keys);
}

// One file as it is read: what to fill, what to call it, where to complain.
class Reading
{
public:
    Reading(Config& config, const std::string& file, std::vector<Problem>& problems)
        : config_(config), file_(file), problems_(problems)
    {
    }

    void imp_table(const toml::table& root);
    void security_table(const toml::table& root);
    void complain(Severity severity, const toml::node* node, std::string message)
    {
        unsigned line = node ? static_cast<unsigned>(node->source().begin.line) : 0;
        problems_.push_back({severity, file_, line, std::move(message)});
    }

private:
    void exec_table(const toml::table& table);
    void run_table(const toml::table& table);
    void run_command(const std::string& name, const toml::table& table);
    void sign_table(const toml::table& table);
    void log_level(const toml::node& node);

    const toml::table* table_of(const toml::node& node, const std::string& key);
    bool boolean_of(const toml::node& node, const std::string& key);
    std::string string_of(const toml::node& node, const std::string& key);
    std::vector<std::string> strings_of(const toml::node& node, const std::string& key);
    void unknown(const toml::node& node, const std::string& key)
    {
        complain(Severity::note, &node, key + " is not known here; it has no effect");
    }

    Config& config_;
    const std::string& file_;
    std::vector<Problem>& problems_;
};

std::string text_of(const toml::key& key)
{
    return std::string(key.str());
}

const toml::table* Reading::table_of(const toml::node& node, const std::string& key)
{
    if (!node.is_table())
        complain(Severity::error, &node, key + " is not a table");
    return node.as_table();
}

bool Reading::boolean_of(const toml::node& node, const std::string& key)
{
    if (!node.is_boolean())
        complain(Severity::error, &node, key + " is neither true nor false");
    return node.value_or(false);
}

std::string Reading::string_of(const toml::node& node, const std::string& key)
{
    auto text = node.is_string() ? node.value_or(std::string()) : std::string();
    if (text.empty() || text.find('\0') != text.npos) {
        complain(Severity::error, &node, key + " is not a string with something in it");
        return {};
    }
    return text;
}

std::vector<std::string> Reading::strings_of(const toml::node& node,
                                             const std::string& key)
{
    std::vector<std::string> texts;
    const auto* array = node.as_array();
    if (!array) {
        complain(Severity::error, &node, key + " is not an array of strings");
        return {};
    }
    for (const auto& element : *array)
        texts.push_back(string_of(element, "an entry of " + key));
    return texts;
}

void Reading::log_level(const toml::node& node)
{
    auto name = string_of(node, "log-level");
    if (name == "warning")
        config_.log_level = LogLevel::warning;
    else if (name == "info")
        config_.log_level = LogLevel::info;
    else if (name == "debug")
        config_.log_level = LogLevel::debug;
    else
        complain(Severity::error, &node,
                 "log-level is not one of warning, info, debug");
}

void Reading::imp_table(const toml::table& root)
{
    for (const auto& [key, node] : root) {
        if (key == "exec") {
            if (const auto* table = table_of(node, "exec"))
                exec_table(*table);
        } else if (key == "run") {
            if (const auto* table = table_of(node, "run"))
                run_table(*table);
        } else if (key == "allow-sudo") {
            config_.allow_sudo = boolean_of(node, "allow-sudo");
        } else if (key == "log-level") {
            log_level(node);
        }
    }
}

void Reading::exec_table(const toml::table& table)
{
    ExecConfig exec;
    exec.file = file_;
    for (const auto& [name, node] : table) {
        auto key = "exec." + text_of(name);
        if (name == "allowed-users")
            exec.allowed_users = strings_of(node, key);
        else if (name == "allowed-shells")
            exec.allowed_shells = strings_of(node, key);
        else if (name == "readers")
            exec.readers = strings_of(node, key);
        else if (name == "allow-unprivileged-exec")
            exec.allow_unprivileged_exec = boolean_of(node, key);
        else if (name == "pam-support")
            exec.pam_support = boolean_of(node, key);
        else if (name == "require-grant")
            exec.require_grant = boolean_of(node, key);
        else if (name == "require-containment")
            exec.require_containment = boolean_of(node, key);
        else
            unknown(node, key);
    }
    config_.exec = std::move(exec);
}

void Reading::run_table(const toml::table& table)
{
    config_.run.clear();
    for (const auto& [name, node] : table)
        if (const auto* command = table_of(node, "run." + text_of(name)))
            run_command(text_of(name), *command);
}

void Reading::run_command(const std::string& name, const toml::table& table)
{
    RunCommand command;
    command.file = file_;
    for (const auto& [part, node] : table) {
        auto key = "run." + name + "." + text_of(part);
        if (part == "path")
            command.path = string_of(node, key);
        else if (part == "allowed-users")
            command.allowed_users = strings_of(node, key);
        else if (part == "allowed-environment")
            command.allowed_environment = strings_of(node, key);
        else
            unknown(node, key);
    }
    config_.run[name] = std::move(command);
}

void Reading::security_table(const toml::table& root)
{
    for (const auto& [key, node] : root)
        if (key == "sign")
            if (const auto* table = table_of(node, "sign"))
                sign_table(*table);
}

void Reading::sign_table(const toml::table& table)
{
    SignConfig sign;
    sign.file = file_;
    sign.set = true;
    sign.policy.allowed.clear();
    for (const auto& [name, node] : table) {
        auto key = "sign." + text_of(name);
        if (name == "max-ttl") {
            auto seconds = node.value<std::int64_t>();
            if (!node.is_integer() || !seconds || *seconds <= 0)
                complain(Severity::error, &node, key + " is not a number of seconds");
            else
                sign.policy.max_ttl = *seconds;
        } else if (name == "default-type") {
            sign.default_type = string_of(node, key);
        } else if (name == "allowed-types") {
            sign.allowed_types = strings_of(node, key);
            for (const auto& type : sign.allowed_types) {
                if (auto mechanism = parse_mechanism(type))
                    sign.policy.allowed.push_back(*mechanism);
                else
                    complain(Severity::note, &node,
                             key + " has " + in_quotes(type)
                                 + ", which is not known here; what is signed so is "
                                   "refused");
            }
        } else if (name == "munge") {
            const auto* munge = table_of(node, key);
            const auto* path = munge ? munge->get("socket-path") : nullptr;
            if (path)
                sign.policy.munge_socket = string_of(*path, key + ".socket-path");
        } else if (name != "curve") {
            unknown(node, key);
        }
    }
    if (sign.allowed_types.empty())
        complain(Severity::error, &table, "sign.allowed-types is missing or empty");
    config_.sign = std::move(sign);
}

// Which file set which table (or top-level key) last.
using Origins = std::map<std::string, std::string>;

// Tells of keys that are in a file of the other set, and of those that another file has
// set before.
template <class Keys>
void check_keys(const toml::table& root, const std::string& file, const Keys& keys,
                bool shared, Origins& origins, std::vector<Problem>& problems)
{
    for (const auto& [key, node] : root) {
        auto name = text_of(key);
        auto line = static_cast<unsigned>(node.source().begin.line);
        if (!is_one_of(name, keys)) {
            // With one pattern for both (tests), keys of the other set are in place.
            bool elsewhere =
                shared && (is_one_of(name, imp_keys) || is_one_of(name, security_keys));
            if (!elsewhere)
                problems.push_back(
                    {Severity::note, file, line,
                     in_quotes(name) + " is not known here; it has no effect"});
            continue;
        }
        auto before = origins.find(name);
        if (before != origins.end())
            problems.push_back(
                {Severity::warning, file, line,
                 (node.is_table() ? "[" + name + "]" : name) + " takes the place of "
                     + (name == "run" ? "all of [run.*]" : "the whole of it") + " in "
                     + before->second});
        origins[name] = file;
    }
}

Result<std::string> read_all(int fd, const std::string& path)
{
    std::string text;
    std::array<char, 16384> buffer;
    for (;;) {
        auto got = read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(path + ": " + std::strerror(errno), errno);
        if (got == 0)
            return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
        if (text.size() > config_bytes_max)
            return fail(path + ": larger than " + std::to_string(config_bytes_max)
                        + " bytes");
    }
}

// The files in glob(3)'s order, which is that of strcmp(3) in the C locale. A program
// that does not call setlocale(3) is in it, whatever its environment says.
std::vector<std::string> matching_files(const std::string& pattern,
                                        std::vector<Problem>& problems)
{
    std::vector<std::string> files;
    glob_t found{};
    errno = 0;
    int status = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
    for (std::size_t i = 0; status == 0 && i < found.gl_pathc; i++)
        files.emplace_back(found.gl_pathv[i]);
    globfree(&found);
    bool absent = status == GLOB_NOMATCH || errno == ENOENT;
    if (status != 0 && absent)
        problems.push_back({Severity::warning, pattern, 0, "there is no such file"});
    if (status != 0 && !absent)
        problems.push_back(
            {Severity::error, pattern, 0,
             std::string("cannot be looked for: ") + std::strerror(errno)});
    if (files.size() > config_files_max) {
        problems.push_back(
            {Severity::error, pattern, 0,
             "more than " + std::to_string(config_files_max) + " files"});
        files.clear();
    }
    return files;
}

std::optional<toml::table> parse(std::string_view text, const std::string& file,
                                 std::vector<Problem>& problems)
{
    auto parsed = toml::parse(text, std::string_view(file));
    if (!parsed) {
        problems.push_back({Severity::error, file,
                            static_cast<unsigned>(parsed.error().source().begin.line),
                            "not TOML: " + std::string(parsed.error().description())});
        return {};
    }
    return std::move(parsed).table();
}

std::optional<toml::table> read_file(const std::string& file, uid_t also,
                                     std::vector<Problem>& problems)
{
    // Messages of trusted.h begin with the path in question.
    auto opened = open_trusted(file, also);
    if (!opened) {
        problems.push_back({Severity::error, {}, 0, opened.error().message});
        return {};
    }
    auto text = read_all(opened->get(), file);
    if (!text) {
        problems.push_back({Severity::error, {}, 0, text.error().message});
        return {};
    }
    return parse(*text, file, problems);
}

// Which of the two sets a file is of; both in tests.
struct Set {
    bool imp;
    bool security;
};

void read_table(const toml::table& root, const std::string& file, Set set,
                Config& config, Origins& origins, std::vector<Problem>& problems)
{
    bool shared = set.imp && set.security;
    Reading reading(config, file, problems);
    if (set.imp) {
        check_keys(root, file, imp_keys, shared, origins, problems);
        reading.imp_table(root);
    }
    if (set.security) {
        check_keys(root, file, security_keys, shared, origins, problems);
        reading.security_table(root);
    }
}

void read_set(const std::string& pattern, uid_t also, Set set, Config& config,
              Origins& origins, std::vector<Problem>& problems)
{
    for (const auto& file : matching_files(pattern, problems))
        if (auto root = read_file(file, also, problems))
            read_table(*root, file, set, config, origins, problems);
}

} // namespace

std::string problem_text(const Problem& problem)
{
    if (problem.file.empty())
        return problem.message;
    return problem.file + (problem.line ? ":" + std::to_string(problem.line) : "")
           + ": " + problem.message;
}

Config read_config(const ConfigPlaces& places, std::vector<Problem>& problems)
{
    Config config;
    config.exec.file = places.imp;
    config.sign.file = places.security;
    bool shared = places.imp == places.security;
    Origins origins;
    read_set(places.imp, places.also, {true, shared}, config, origins, problems);
    if (!shared)
        read_set(places.security, places.also, {false, true}, config, origins,
                 problems);
    return config;
}

Config read_config_text(std::string_view text, std::vector<Problem>& problems)
{
    Config config;
    Origins origins;
    if (auto root = parse(text, "text", problems))
        read_table(*root, "text", {true, true}, config, origins, problems);
    return config;
}

} // namespace fluxdat::imp
