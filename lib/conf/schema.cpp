// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/schema.h"

#include <algorithm>

namespace fluxdat::conf {

namespace {

enum class Type {
    boolean,
    integer,
    number, // integers too
    string,
    strings,
    array,
    table,
    directives, // of jobtap plugins
    verify,     // boolean, or a table
};

struct Key {
    std::string_view name; // a part "*" stands for any
    Type type;
};

// flux-config-access(5), -exec(5), -ingest(5), -job-manager(5), -policy(5), -queues(5),
// -resource(5), -systemd(5), -tbon(5), as of flux-core 0.88. Where they say FSD,
// brokers want a string: 60 is refused, "60s" is not.
constexpr Key keys[] = {
    {"access", Type::table},
    {"access.allow-guest-user", Type::boolean},
    {"access.allow-root-owner", Type::boolean},
    {"access.private-mode", Type::boolean},
    {"access.roles", Type::table},
    {"access.roles.*", Type::table},
    {"access.roles.*.groups", Type::strings},
    {"access.roles.*.users", Type::strings},
    {"exec", Type::table},
    {"exec.barrier-timeout", Type::string},
    {"exec.imp", Type::string},
    {"exec.job-shell", Type::string},
    {"exec.kill-signal", Type::string},
    {"exec.kill-timeout", Type::string},
    {"exec.max-kill-count", Type::integer},
    {"exec.max-kill-timeout", Type::string},
    {"exec.max-start-delay-percent", Type::number},
    {"exec.method", Type::string},
    {"exec.sdexec-constrain-resources", Type::boolean},
    {"exec.sdexec-properties", Type::table},
    {"exec.sdexec-properties.*", Type::string},
    {"exec.service", Type::string},
    {"exec.shell-exit-timeout", Type::string},
    {"exec.term-signal", Type::string},
    {"ingest", Type::table},
    {"ingest.batch-count", Type::integer},
    {"ingest.buffer-size", Type::string},
    {"ingest.frobnicator", Type::table},
    {"ingest.frobnicator.args", Type::strings},
    {"ingest.frobnicator.disable", Type::boolean},
    {"ingest.frobnicator.plugins", Type::strings},
    {"ingest.validator", Type::table},
    {"ingest.validator.args", Type::strings},
    {"ingest.validator.disable", Type::boolean},
    {"ingest.validator.plugins", Type::strings},
    {"job-manager", Type::table},
    {"job-manager.epilog", Type::table},
    {"job-manager.epilog.cancel-on-exception", Type::boolean},
    {"job-manager.epilog.command", Type::strings},
    {"job-manager.epilog.exit-on-first-error", Type::boolean},
    {"job-manager.epilog.kill-timeout", Type::number},
    {"job-manager.epilog.per-rank", Type::boolean},
    {"job-manager.epilog.timeout", Type::string},
    {"job-manager.housekeeping", Type::table},
    {"job-manager.inactive-age-limit", Type::string},
    {"job-manager.inactive-num-limit", Type::integer},
    {"job-manager.perilog", Type::table},
    {"job-manager.perilog.log-ignore", Type::strings},
    {"job-manager.plugins", Type::directives},
    {"job-manager.prolog", Type::table},
    {"job-manager.prolog.cancel-on-exception", Type::boolean},
    {"job-manager.prolog.command", Type::strings},
    {"job-manager.prolog.exit-on-first-error", Type::boolean},
    {"job-manager.prolog.kill-timeout", Type::number},
    {"job-manager.prolog.per-rank", Type::boolean},
    {"job-manager.prolog.timeout", Type::string},
    {"policy", Type::table},
    {"policy.jobspec", Type::table},
    {"policy.jobspec.defaults", Type::table},
    {"policy.jobspec.defaults.system", Type::table},
    {"policy.jobspec.defaults.system.duration", Type::string},
    {"policy.jobspec.defaults.system.queue", Type::string},
    {"policy.limits", Type::table},
    {"policy.limits.duration", Type::string},
    {"policy.limits.job-size", Type::table},
    {"policy.limits.job-size.*", Type::table},
    {"policy.limits.job-size.*.*", Type::integer},
    {"queues", Type::table},
    {"queues.*", Type::table},
    {"queues.*.parent", Type::string},
    {"queues.*.policy", Type::table},
    {"queues.*.policy.limits", Type::table},
    {"queues.*.policy.limits.duration", Type::string},
    {"queues.*.policy.limits.job-size", Type::table},
    {"queues.*.policy.limits.job-size.*", Type::table},
    {"queues.*.policy.limits.job-size.*.*", Type::integer},
    {"queues.*.requires", Type::strings},
    {"resource", Type::table},
    {"resource.config", Type::array},
    {"resource.exclude", Type::string},
    {"resource.history", Type::string},
    {"resource.journal-max", Type::integer},
    {"resource.norestrict", Type::boolean},
    {"resource.noverify", Type::boolean},
    {"resource.path", Type::string},
    {"resource.rediscover", Type::boolean},
    {"resource.scheduling", Type::string},
    {"resource.verify", Type::verify},
    {"systemd", Type::table},
    {"systemd.enable", Type::boolean},
    {"tbon", Type::table},
    {"tbon.child_rcvhwm", Type::integer},
    {"tbon.connect_timeout", Type::string},
    {"tbon.interface-hint", Type::string},
    {"tbon.tcp_user_timeout", Type::string},
    {"tbon.topo", Type::string},
    {"tbon.torpid_max", Type::string},
    {"tbon.torpid_min", Type::string},
    {"tbon.zmq_io_threads", Type::integer},
    {"tbon.zmqdebug", Type::integer},
};

const char* describe(Type type)
{
    switch (type) {
    case Type::boolean:
        return "a boolean";
    case Type::integer:
        return "an integer";
    case Type::number:
        return "a number";
    case Type::string:
        return "a string";
    case Type::strings:
        return "an array of strings";
    case Type::array:
        return "an array";
    case Type::table:
        return "a table";
    case Type::directives:
        return "an array of tables, each with a string load or remove";
    case Type::verify:
        return "a boolean or a table";
    }
    return "";
}

std::unexpected<Error> mismatch(const std::string& key, Type expected,
                                const Value& value)
{
    return fail(value.origin.exit(), "{}: {} must be {}, not {}", value.origin.str(),
                printable(key), describe(expected), value.type_name());
}

Result<> check_directive(const std::string& key, const Value& value)
{
    const Table* table = value.table();
    if (!table)
        return mismatch(key, Type::table, value);
    bool complete = false;
    for (const auto& [name, member] : *table) {
        const bool directive = name == "load" || name == "remove";
        if (directive && !member.string())
            return mismatch(join_key(key, name), Type::string, member);
        if (name == "conf" && !member.table())
            return mismatch(join_key(key, name), Type::table, member);
        complete = complete || directive;
    }
    if (!complete)
        return fail(value.origin.exit(), "{}: {} has neither load nor remove",
                    value.origin.str(), key);
    return {};
}

Result<> check(const std::string& key, Type type, const Value& value)
{
    const bool integer = std::holds_alternative<std::int64_t>(value.data);
    bool fits = false;
    switch (type) {
    case Type::boolean:
        fits = value.boolean();
        break;
    case Type::integer:
        fits = integer;
        break;
    case Type::number:
        fits = integer || std::holds_alternative<double>(value.data);
        break;
    case Type::string:
        fits = value.string();
        break;
    case Type::table:
        fits = value.table();
        break;
    case Type::verify:
        fits = value.boolean() || value.table();
        break;
    case Type::strings:
    case Type::array:
    case Type::directives:
        fits = value.array();
        break;
    }
    if (!fits)
        return mismatch(key, type, value);
    if (!value.array())
        return {};
    std::size_t index = 0;
    for (const Value& element : *value.array()) {
        const std::string name = fmt::format("{}[{}]", key, index++);
        if (type == Type::strings && !element.string())
            return mismatch(name, Type::string, element);
        if (type == Type::directives) {
            if (auto result = check_directive(name, element); !result)
                return result;
        }
    }
    return {};
}

// Does a key's name match a pattern of `keys`?
bool matches(std::string_view pattern, const std::vector<std::string_view>& key)
{
    for (std::string_view part : key) {
        if (pattern.empty())
            return false;
        const std::size_t dot = std::min(pattern.find('.'), pattern.size());
        const std::string_view expected = pattern.substr(0, dot);
        if (expected != "*" && expected != part)
            return false;
        pattern.remove_prefix(std::min(dot + 1, pattern.size()));
    }
    return pattern.empty();
}

Result<> check_members(const Value& value, std::vector<std::string_view>& path,
                       const std::string& name)
{
    for (const auto& [part, member] : *value.table()) {
        path.push_back(part);
        const std::string key = join_key(name, part);
        const auto known =
            std::find_if(std::begin(keys), std::end(keys), [&](const Key& candidate) {
                return matches(candidate.name, path);
            });
        Result<> result;
        if (known != std::end(keys))
            result = check(key, known->type, member);
        if (result && member.table())
            result = check_members(member, path, key);
        path.pop_back();
        if (!result)
            return result;
    }
    return {};
}

} // namespace

Result<> check_types(const Value& root)
{
    std::vector<std::string_view> path;
    return check_members(root, path, "");
}

} // namespace fluxdat::conf
