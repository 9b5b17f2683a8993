// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/joblist.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace fluxdat::sandbox {

namespace {

const std::map<std::string, unsigned, std::less<>> state_names = {
    {"new", state_new},           {"depend", state_depend},
    {"priority", state_priority}, {"sched", state_sched},
    {"run", state_run},           {"cleanup", state_cleanup},
    {"inactive", state_inactive}, {"pending", state_pending},
    {"running", state_running},   {"active", state_active},
};

const std::map<std::string, unsigned, std::less<>> result_names = {
    {"completed", result_completed},
    {"failed", result_failed},
    {"canceled", result_canceled},
    {"timeout", result_timeout},
};

std::unexpected<Error> bad(std::string message)
{
    return std::unexpected(Error{std::move(message), EPROTO});
}

std::string lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

Result<unsigned> parse_bits(const Json& values, const char* what,
                            const std::map<std::string, unsigned, std::less<>>& names)
{
    unsigned bits = 0;
    for (const auto& value : values) {
        if (value.is_number_unsigned()) {
            bits |= value.get<unsigned>();
        } else if (value.is_string()) {
            const auto& name = value.get_ref<const std::string&>();
            auto found = names.find(lower(name));
            if (found == names.end())
                return bad(fmt::format("invalid {} value '{}' specified", what, name));
            bits |= found->second;
        } else {
            return bad(fmt::format("{} value must be integer or string", what));
        }
    }
    return bits;
}

Result<std::set<std::string>> parse_strings(const Json& values, const std::string& what)
{
    std::set<std::string> out;
    for (const auto& value : values) {
        if (!value.is_string())
            return bad(fmt::format("{} value must be a string", what));
        out.insert(value.get<std::string>());
    }
    return out;
}

using Time = double JobRecord::*;
const std::map<std::string, Time, std::less<>> time_members = {
    {"t_submit", &JobRecord::t_submit},     {"t_depend", &JobRecord::t_depend},
    {"t_run", &JobRecord::t_run},           {"t_cleanup", &JobRecord::t_cleanup},
    {"t_inactive", &JobRecord::t_inactive},
};

// ">946713600.0"
Result<std::function<bool(const JobRecord&)>> parse_time(const Json& values,
                                                         Time member)
{
    if (values.size() != 1 || !values[0].is_string())
        return bad("timestamp value must be a string");
    std::string_view text = values[0].get_ref<const std::string&>();
    bool greater = text.starts_with('>');
    if (!greater && !text.starts_with('<'))
        return bad("timestamp comparison operator not specified");
    text.remove_prefix(1);
    bool equal = text.starts_with('=');
    if (equal)
        text.remove_prefix(1);
    double time;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time);
    if (error != std::errc() || end != text.data() + text.size() || time < 0)
        return bad("timestamp value must be a positive number");
    return [=](const JobRecord& job) {
        double value = job.*member;
        if (value == 0)
            return false;
        return (equal && value == time) || (greater ? value > time : value < time);
    };
}

} // namespace

const std::vector<std::string>& job_attributes()
{
    static const std::vector<std::string> names = {
        "userid",
        "urgency",
        "priority",
        "t_submit",
        "t_depend",
        "t_priority",
        "t_sched",
        "t_run",
        "t_cleanup",
        "t_inactive",
        "state",
        "name",
        "cwd",
        "queue",
        "project",
        "bank",
        "ntasks",
        "ncores",
        "duration",
        "nnodes",
        "ranks",
        "nodelist",
        "success",
        "exception_occurred",
        "exception_type",
        "exception_severity",
        "exception_note",
        "result",
        "expiration",
        "annotations",
        "waitstatus",
        "dependencies",
    };
    return names;
}

Json describe(const JobRecord& job, const std::set<std::string>& attributes)
{
    bool all = attributes.contains("all");
    Json out = {{"id", job.id}};
    auto put = [&](const char* name, auto&& value) {
        if (all || attributes.contains(name))
            out[name] = std::forward<decltype(value)>(value);
    };
    auto put_if = [&](bool has, const char* name, auto&& value) {
        if (has)
            put(name, std::forward<decltype(value)>(value));
    };
    put("userid", job.userid);
    put("urgency", job.urgency);
    put_if(job.priority.has_value(), "priority", job.priority.value_or(0));
    put("t_submit", job.t_submit);
    put_if(job.t_depend > 0, "t_depend", job.t_depend);
    put_if(job.t_priority > 0, "t_priority", job.t_priority);
    put_if(job.t_sched > 0, "t_sched", job.t_sched);
    put_if(job.t_run > 0, "t_run", job.t_run);
    put_if(job.t_cleanup > 0, "t_cleanup", job.t_cleanup);
    put_if(job.t_inactive > 0, "t_inactive", job.t_inactive);
    put("state", job.state);
    put("name", job.name);
    put_if(!job.cwd.empty(), "cwd", job.cwd);
    put_if(job.queue.has_value(), "queue", job.queue.value_or(""));
    put_if(job.project.has_value(), "project", job.project.value_or(""));
    put_if(job.bank.has_value(), "bank", job.bank.value_or(""));
    put("ntasks", job.ntasks);
    put("ncores", job.ncores);
    put("duration", job.duration);
    put_if(job.nnodes > 0, "nnodes", job.nnodes);
    bool allocated = !job.ranks.empty();
    put_if(allocated, "ranks", flux::format_idset_bracketed(job.ranks));
    put_if(allocated, "nodelist", flux::format_hostlist(job.hosts));
    bool inactive = job.state == state_inactive;
    put_if(inactive, "success", job.success);
    put_if(inactive || job.exception, "exception_occurred", job.exception.has_value());
    if (job.exception) {
        put("exception_type", job.exception->type);
        put("exception_severity", job.exception->severity);
        put("exception_note", job.exception->note);
    }
    put_if(inactive, "result", job.result);
    put_if(allocated, "expiration", job.expiration);
    put_if(!job.annotations.is_null(), "annotations", job.annotations);
    put_if(job.waitstatus.has_value(), "waitstatus", job.waitstatus.value_or(0));
    put_if(!job.dependencies.empty(), "dependencies", job.dependencies);
    return out;
}

Result<JobFilter> JobFilter::parse(const Json& json)
{
    auto test = parse_test(json);
    if (!test)
        return std::unexpected(std::move(test.error()));
    JobFilter filter;
    filter.test_ = std::move(*test);
    return filter;
}

Result<JobFilter::Test> JobFilter::parse_test(const Json& json)
{
    if (!json.is_object())
        return bad("constraint must be JSON object");
    if (json.empty())
        return Test([](const JobRecord&) { return true; });
    if (json.size() > 1)
        return bad("constraint must only contain 1 element");
    const auto& name = json.begin().key();
    const auto& values = json.begin().value();
    if (!values.is_array())
        return bad(fmt::format("operator {} values not an array", name));

    if (name == "and" || name == "or" || name == "not") {
        std::vector<Test> tests;
        for (const auto& value : values) {
            auto test = parse_test(value);
            if (!test)
                return test;
            tests.push_back(std::move(*test));
        }
        auto all = [tests](const JobRecord& job) {
            return std::all_of(tests.begin(), tests.end(),
                               [&](const Test& test) { return test(job); });
        };
        if (name == "and")
            return Test(all);
        if (name == "not")
            return Test([all](const JobRecord& job) { return !all(job); });
        return Test([tests](const JobRecord& job) {
            return tests.empty()
                   || std::any_of(tests.begin(), tests.end(),
                                  [&](const Test& test) { return test(job); });
        });
    }
    if (name == "userid") {
        std::set<std::int64_t> ids;
        for (const auto& value : values) {
            if (!value.is_number_integer())
                return bad("userid value must be an integer");
            ids.insert(value.get<std::int64_t>());
        }
        // -1 is every user (flux-jobs -A of some versions).
        return Test([ids](const JobRecord& job) {
            return ids.contains(-1) || ids.contains(job.userid);
        });
    }
    if (name == "states" || name == "results") {
        bool states = name == "states";
        auto bits =
            parse_bits(values, name.c_str(), states ? state_names : result_names);
        if (!bits)
            return std::unexpected(std::move(bits.error()));
        return Test([mask = *bits, states](const JobRecord& job) {
            return ((states ? job.state : job.result) & mask) != 0;
        });
    }
    if (name == "name" || name == "queue") {
        auto names = parse_strings(values, name);
        if (!names)
            return std::unexpected(std::move(names.error()));
        if (name == "name")
            return Test([set = *names](const JobRecord& job) {
                return set.contains(job.name);
            });
        return Test([set = *names](const JobRecord& job) {
            return job.queue && set.contains(*job.queue);
        });
    }
    if (name == "hostlist") {
        std::set<std::string> hosts;
        for (const auto& value : values) {
            auto some = value.is_string()
                            ? flux::parse_hostlist(value.get_ref<const std::string&>())
                            : Result<flux::Hostlist>(std::unexpected(Error{}));
            if (!some)
                return bad("host value not in valid Hostlist format");
            hosts.insert(some->begin(), some->end());
        }
        return Test([hosts](const JobRecord& job) {
            return std::any_of(
                job.hosts.begin(), job.hosts.end(),
                [&](const std::string& host) { return hosts.contains(host); });
        });
    }
    if (name == "ranks") {
        Idset ranks;
        for (const auto& value : values) {
            auto some = value.is_string()
                            ? flux::parse_idset(value.get_ref<const std::string&>())
                            : Result<Idset>(std::unexpected(Error{}));
            if (!some)
                return bad("ranks value not in valid Idset format");
            ranks.insert(*some);
        }
        return Test([ranks](const JobRecord& job) {
            return std::any_of(
                job.ranks.begin(), job.ranks.end(),
                [&](std::uint32_t rank) { return ranks.contains(rank); });
        });
    }
    if (auto member = time_members.find(name); member != time_members.end())
        return parse_time(values, member->second);
    return bad("unknown constraint operator: " + name);
}

} // namespace fluxdat::sandbox
