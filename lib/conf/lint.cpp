// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/conf.h"

#include "lib/conf/merge.h"

#include <charconv>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::conf {

namespace {

std::unexpected<Error> refuse(const Value& value, const std::string& what)
{
    return fail(value.origin.exit(), "{}: {}", value.origin.str(), what);
}

Result<> check_access(const Value& root)
{
    const Value* allow = root.find("access.allow-guest-user");
    if (!allow)
        return fail(
            "access.allow-guest-user is not set: guests could not enter; set it "
            "to true in the site's file or with --conf");
    if (!allow->boolean() || !*allow->boolean())
        return refuse(*allow,
                      "access.allow-guest-user is false: guests could not enter; "
                      "remove the line or make it true");
    return {};
}

Result<> check_imp(const Value& root)
{
    const Value* imp = root.find("exec.imp");
    if (!imp)
        return fail("no IMP: guests' jobs could not run; give one with --imp, install "
                    "the bundled flux-dat-imp setuid root, or set exec.imp");
    const std::string path = imp->string() ? *imp->string() : "";
    const auto bad = [&](std::string_view why) {
        return refuse(*imp, fmt::format("exec.imp = '{}': {}", printable(path), why));
    };
    if (!path.starts_with('/'))
        return bad("must be an absolute path");
    struct stat status;
    if (path.find('\0') != std::string::npos || stat(path.c_str(), &status) < 0)
        return bad(strerror(errno));
    if (!S_ISREG(status.st_mode))
        return bad("not a regular file");
    if (eaccess(path.c_str(), X_OK) < 0)
        return bad(fmt::format("cannot be executed: {}", strerror(errno)));
    return {};
}

// Without the plugin a prolog is silently not run.
Result<> check_perilog(const Value& root)
{
    if (loads_plugin(root.find("job-manager.plugins"), "perilog.so"))
        return {};
    for (const char* key : {"job-manager.prolog", "job-manager.epilog"}) {
        if (const Value* table = root.find(key))
            return refuse(*table, fmt::format("{} would not run: job-manager.plugins "
                                              "does not load perilog.so",
                                              key));
    }
    return {};
}

// The brokers find one another through the parent, and a DAT booted from configuration
// does not know that it is a job.
Result<> check_bootstrap(const Value& root)
{
    if (const Value* bootstrap = root.find("bootstrap"))
        return refuse(*bootstrap, "[bootstrap] has no place in a DAT: its brokers find "
                                  "one another through the parent; remove it");
    return {};
}

Result<> check_queues(const Value& root)
{
    const Value* chosen = root.find("policy.jobspec.defaults.system.queue");
    if (!chosen || !chosen->string() || root.find({"queues", *chosen->string()}))
        return {};
    return refuse(
        *chosen, fmt::format("policy.jobspec.defaults.system.queue is '{0}', but there "
                             "is no [queues.{0}]",
                             printable(*chosen->string())));
}

Result<> check_service(const Value& root)
{
    const Value* service = root.find("exec.service");
    if (!service || !service->string() || *service->string() != "sdexec")
        return {};
    const Value* enable = root.find("systemd.enable");
    if (!enable || !enable->boolean() || !*enable->boolean())
        return refuse(*service, "exec.service is 'sdexec', but systemd.enable is not "
                                "true: no job could run");
    return {};
}

bool is_whole_number(std::string_view text)
{
    unsigned value = 0;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc{} && end == text.data() + text.size();
}

// The brokers would end as they come up, one rank sooner than the other, and their
// output would have to tell. flux-broker-attributes(7), tbon.topo.
Result<> check_topology(const Value& root)
{
    const Value* topology = root.find("tbon.topo");
    if (!topology || !topology->string())
        return {};
    const std::string_view text = *topology->string();
    const std::string_view scheme = text.substr(0, text.find(':'));
    const bool has_argument = scheme.size() < text.size();
    const bool number = has_argument && is_whole_number(text.substr(scheme.size() + 1));
    if ((scheme == "kary" && number)
        || (scheme == "mincrit" && (!has_argument || number)) || text == "binomial"
        || text == "custom")
        return {};
    return refuse(*topology,
                  fmt::format("tbon.topo = '{}': no topology that brokers know; use "
                              "kary:K, mincrit, mincrit:K or binomial",
                              printable(text)));
}

} // namespace

Result<> lint(const Composed& composed)
{
    for (const auto check : {check_access, check_imp, check_perilog, check_bootstrap,
                             check_queues, check_service, check_topology}) {
        if (auto result = check(composed.root); !result)
            return result;
    }
    return {};
}

} // namespace fluxdat::conf
