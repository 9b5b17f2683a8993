// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/environment.h"

#include <array>
#include <cctype>
#include <fnmatch.h>
#include <fstream>
#include <memory>
#include <regex.h>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

constexpr std::size_t rule_file_size_max = 1u << 20; // bytes
constexpr int rule_file_depth_max = 8;               // a rule file may name others

// What belongs to the instance or job that `flux-dat` runs in, not to the new one.
constexpr std::array instance_variables{
    "FLUX_URI",           "FLUX_JOB_ID",        "FLUX_JOB_SIZE",
    "FLUX_JOB_NNODES",    "FLUX_JOB_TMPDIR",    "FLUX_TASK_RANK",
    "FLUX_TASK_LOCAL_ID", "FLUX_KVS_NAMESPACE", "FLUX_PROXY_REMOTE",
    "FLUX_ENCLOSING_ID",
};

std::unexpected<Error> bad_rule(const std::string& rule, std::string why)
{
    return fail(Exit::usage, "--env={}: {}", rule, std::move(why));
}

// A glob, or a regular expression between slashes (the second is optional).
class Pattern
{
public:
    static Result<Pattern> parse(const std::string& rule, std::string text)
    {
        Pattern pattern;
        if (!text.starts_with('/')) {
            pattern.glob_ = std::move(text);
            return pattern;
        }
        text.erase(0, 1);
        if (text.ends_with('/'))
            text.pop_back();
        auto* compiled = new regex_t;
        int status = regcomp(compiled, text.c_str(), REG_EXTENDED | REG_NOSUB);
        if (status != 0) {
            std::array<char, 256> why{};
            regerror(status, compiled, why.data(), why.size());
            delete compiled;
            return bad_rule(rule,
                            fmt::format("bad regular expression: {}", why.data()));
        }
        pattern.regex_ = std::shared_ptr<regex_t>(compiled, [](regex_t* used) {
            regfree(used);
            delete used;
        });
        return pattern;
    }

    bool matches(const std::string& name) const
    {
        if (regex_)
            return regexec(regex_.get(), name.c_str(), 0, nullptr, 0) == 0;
        return fnmatch(glob_.c_str(), name.c_str(), 0) == 0;
    }

private:
    std::string glob_;
    std::shared_ptr<regex_t> regex_;
};

// $VAR, ${VAR} and $$ in a value.
Result<std::string> substitute(const std::string& rule, const std::string& value,
                               const Environment& built, const Environment& process)
{
    std::string out;
    for (std::size_t i = 0; i < value.size(); i++) {
        if (value[i] != '$') {
            out.push_back(value[i]);
            continue;
        }
        if (i + 1 < value.size() && value[i + 1] == '$') {
            out.push_back('$');
            i++;
            continue;
        }
        bool braced = i + 1 < value.size() && value[i + 1] == '{';
        std::size_t begin = i + (braced ? 2 : 1);
        std::size_t end = begin;
        while (end < value.size()
               && (value[end] == '_'
                   || std::isalnum(static_cast<unsigned char>(value[end]))))
            end++;
        if (end == begin || (braced && (end == value.size() || value[end] != '}')))
            return bad_rule(rule, "a $ that names no variable (write $$ for a dollar)");
        auto name = value.substr(begin, end - begin);
        auto found = built.find(name);
        if (found == built.end()) {
            found = process.find(name);
            if (found == process.end())
                return bad_rule(rule, fmt::format("${} is not set", name));
        }
        out += found->second;
        i = braced ? end : end - 1;
    }
    return out;
}

Result<> apply_rule(const std::string& rule, Environment& built,
                    const Environment& process, int depth);

Result<> apply_file(const std::string& rule, std::string path, Environment& built,
                    const Environment& process, int depth)
{
    if (depth >= rule_file_depth_max)
        return bad_rule(rule, "rule files name each other in a circle");
    if (path.starts_with("~/")) {
        auto home = process.find("HOME");
        if (home == process.end())
            return bad_rule(rule, "HOME is not set");
        path.replace(0, 1, home->second);
    }
    std::ifstream file(path);
    if (!file)
        return bad_rule(rule,
                        fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    std::string line;
    std::size_t size = 0;
    while (std::getline(file, line)) {
        size += line.size() + 1;
        if (size > rule_file_size_max)
            return bad_rule(rule, fmt::format("{} is larger than {} bytes", path,
                                              rule_file_size_max));
        auto first = line.find_first_not_of(" \t\r");
        if (first == line.npos || line[first] == '#')
            continue;
        auto last = line.find_last_not_of(" \t\r");
        auto applied =
            apply_rule(line.substr(first, last - first + 1), built, process, depth + 1);
        if (!applied)
            return applied;
    }
    return {};
}

Result<> apply_rule(const std::string& rule, Environment& built,
                    const Environment& process, int depth)
{
    if (rule.empty())
        return bad_rule(rule, "the rule is empty");
    if (rule[0] == '^')
        return apply_file(rule, rule.substr(1), built, process, depth);
    if (rule[0] == '-') {
        auto pattern = Pattern::parse(rule, rule.substr(1));
        if (!pattern)
            return std::unexpected(pattern.error());
        std::erase_if(built,
                      [&](auto& entry) { return pattern->matches(entry.first); });
        return {};
    }
    if (auto equals = rule.find('='); equals != rule.npos) {
        if (equals == 0)
            return bad_rule(rule, "no variable's name before the =");
        auto value = substitute(rule, rule.substr(equals + 1), built, process);
        if (!value)
            return std::unexpected(value.error());
        built[rule.substr(0, equals)] = std::move(*value);
        return {};
    }
    auto pattern = Pattern::parse(rule, rule);
    if (!pattern)
        return std::unexpected(pattern.error());
    for (auto& [name, value] : process)
        if (pattern->matches(name))
            built.emplace(name, value);
    return {};
}

} // namespace

Environment current_environment()
{
    Environment environment;
    for (char** entry = environ; *entry; entry++) {
        std::string_view text = *entry;
        if (auto equals = text.find('='); equals != text.npos && equals > 0)
            environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return environment;
}

Result<Environment> job_environment(const Environment& process,
                                    const std::vector<std::string>& rules)
{
    Environment built = process;
    for (const char* name : instance_variables)
        built.erase(name);
    for (auto& rule : rules) {
        auto applied = apply_rule(rule, built, process, 0);
        if (!applied)
            return std::unexpected(applied.error());
    }
    return built;
}

} // namespace fluxdat::dat
