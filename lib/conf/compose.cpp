// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/conf.h"

#include "lib/conf/inherit.h"
#include "lib/conf/merge.h"
#include "lib/conf/schema.h"
#include "lib/conf/source.h"
#include "lib/conf/template.h"
#include "lib/conf/text.h"
#include "paths.h"

#include <unistd.h>

namespace fluxdat::conf {

namespace {

constexpr std::string_view default_queue_key = "policy.jobspec.defaults.system.queue";

// Everything that was read, before anything is merged: the [dat] tables of the late
// layers decide about the early ones.
struct Sources {
    Value base;               // the template
    std::vector<Value> site;  // in order
    std::vector<Value> given; // --conf, in order
    Value dat{Table{}, {}};   // [dat] of all of them, merged
};

struct DatKeys {
    std::optional<std::string> door_dir;
    std::optional<Inherit> inherit;
    std::optional<Setting> warn, close, grace;
};

Result<Value> read_template(const std::string& path)
{
    if (!path.empty()) {
        auto value = read_file(path, Origin::Kind::file, false);
        if (value || value.error().errnum != ENOENT)
            return value;
    }
    return parse_toml(builtin_template,
                      {"built-in multiuser.toml", Origin::Kind::builtin});
}

void take_dat(Value& layer, Value& dat)
{
    const auto found = layer.table()->find("dat");
    if (found == layer.table()->end())
        return;
    merge(dat, std::move(found->second));
    layer.table()->erase(found);
}

Result<Sources> read_sources(const Inputs& inputs)
{
    Sources sources;
    auto base = read_template(inputs.template_path);
    if (!base)
        return std::unexpected(base.error());
    sources.base = std::move(*base);
    auto site = read_site(inputs.site_directory);
    if (!site)
        return std::unexpected(site.error());
    sources.site = std::move(*site);
    for (std::size_t i = 0; i < inputs.conf.size(); ++i) {
        auto given = read_argument(inputs.conf[i], i + 1, inputs.search_path);
        if (!given)
            return std::unexpected(given.error());
        sources.given.push_back(std::move(*given));
    }
    take_dat(sources.base, sources.dat);
    for (Value& layer : sources.site)
        take_dat(layer, sources.dat);
    for (Value& layer : sources.given)
        take_dat(layer, sources.dat);
    return sources;
}

Result<std::string> read_door_dir(const Value& value)
{
    const Origin& origin = value.origin;
    const std::string* path = value.string();
    if (!path)
        return fail(origin.exit(), "{}: dat.door-dir must be a string, not {}",
                    origin.str(), value.type_name());
    if (!path->starts_with('/') || path->find('\0') != std::string::npos)
        return fail(origin.exit(),
                    "{}: dat.door-dir must be an absolute path, not '{}'", origin.str(),
                    printable(*path));
    return *path;
}

Result<Inherit> read_inherit(const Value& value)
{
    const Origin& origin = value.origin;
    std::vector<std::string> names;
    bool strings = value.array() != nullptr;
    if (strings) {
        for (const Value& element : *value.array()) {
            strings = strings && element.string();
            if (element.string())
                names.push_back(*element.string());
        }
    }
    if (!strings)
        return fail(origin.exit(), "{}: dat.inherit must be an array of strings",
                    origin.str());
    auto inherit = Inherit::parse(names);
    if (!inherit)
        return fail(origin.exit(), "{}: dat.inherit: {}", origin.str(),
                    inherit.error().message);
    return inherit;
}

// The table is flux-dat's own: a key that it does not know is a spelling mistake.
Result<DatKeys> read_dat(const Value& dat)
{
    DatKeys keys;
    if (!dat.table())
        return fail(dat.origin.exit(), "{}: dat must be a table, not {}",
                    dat.origin.str(), dat.type_name());
    for (const auto& [name, value] : *dat.table()) {
        if (name == "door-dir") {
            auto path = read_door_dir(value);
            if (!path)
                return std::unexpected(path.error());
            keys.door_dir = std::move(*path);
        } else if (name == "inherit") {
            auto inherit = read_inherit(value);
            if (!inherit)
                return std::unexpected(inherit.error());
            keys.inherit = *inherit;
        } else if (auto* setting = name == "warn"    ? &keys.warn
                                   : name == "close" ? &keys.close
                                   : name == "grace" ? &keys.grace
                                                     : nullptr) {
            if (!value.string())
                return fail(value.origin.exit(), "{}: dat.{} must be a string, not {}",
                            value.origin.str(), name, value.type_name());
            *setting = Setting{*value.string(), value.origin};
        } else {
            return fail(value.origin.exit(),
                        "{}: unknown key {}; [dat] has door-dir, inherit, warn, close "
                        "and grace",
                        value.origin.str(), printable(join_key("dat", name)));
        }
    }
    return keys;
}

constexpr const char* bundled_origin = "bundled IMP";

// exec.imp where nothing explicit sets it: the bundled IMP, else the parent's.
Result<std::optional<Value>> default_imp(const Inputs& inputs,
                                         std::vector<std::string>& notices)
{
    auto fit = inputs.probe_bundled_imp(inputs.bundled_imp);
    if (fit) {
        const Origin origin{bundled_origin, Origin::Kind::builtin};
        Value layer{Table{}, origin};
        put(layer, {"exec", "imp"}, Value{inputs.bundled_imp, origin});
        return layer;
    }
    if (fit.error().errnum != ENOENT)
        notices.push_back(fmt::format(
            "the bundled IMP is not used: {}{}", printable(fit.error().message),
            fit.error().errnum == EPERM && is_installed_imp(inputs.bundled_imp)
                ? " (as root: chmod 4755)"
                : ""));
    return inherit_imp(inputs.parent, inputs.parent_label);
}

void apply_imp_option(Composed& composed, const std::string& path)
{
    const Value* before = composed.root.find("exec.imp");
    if (before && before->origin.kind != Origin::Kind::builtin
        && before->origin.kind != Origin::Kind::parent)
        composed.notices.push_back(
            fmt::format("--imp goes over exec.imp ({})", before->origin.str()));
    const Origin origin{"--imp", Origin::Kind::argument, true};
    put(composed.root, {"exec", "imp"}, Value{path, origin});
}

// What is right in the parent or alone, but not in this combination.
void settle_queues(Composed& composed)
{
    const Value* queues = composed.root.find("queues");
    const bool named = queues && queues->table() && !queues->table()->empty();
    const Value* chosen = composed.root.find(default_queue_key);
    if (chosen && chosen->origin.kind == Origin::Kind::parent && chosen->string()
        && !composed.root.find({"queues", *chosen->string()})) {
        composed.notices.push_back(fmt::format(
            "{} of {} is left out: the DAT has no queue {}", default_queue_key,
            chosen->origin.str(), printable(*chosen->string())));
        erase(composed.root, default_queue_key);
        chosen = nullptr;
    }
    if (named && !chosen)
        composed.notices.push_back(fmt::format(
            "the queues have no default ({}): every job must name its queue",
            default_queue_key));
}

void warn(Composed& composed, const Value& value, std::string_view key,
          std::string_view consequence)
{
    composed.warnings.push_back(
        fmt::format("{} ({}): {}", key, value.origin.str(), consequence));
}

// The explicit is kept; whoever wrote it may know better.
void warn_of_units(Composed& composed)
{
    const std::string why =
        "its systemd units have the names of the parent's on the same nodes; "
        "jobs of both may end or hinder one another";
    const Value* service = composed.root.find("exec.service");
    if (service && service->string() && *service->string() == "sdexec")
        warn(composed, *service, "exec.service = \"sdexec\"", why);
    if (const Value* housekeeping = composed.root.find("job-manager.housekeeping"))
        warn(composed, *housekeeping, "job-manager.housekeeping", why);
}

constexpr std::string_view no_guests_jobs = "; guests' jobs will not run";

// It may be of use all the same: to the owner, or on the nodes of the DAT, which need
// not be like this one.
void warn_of_imp(Composed& composed, const Inputs& inputs)
{
    const Value* imp = composed.root.find("exec.imp");
    if (!imp || eaccess(imp->string()->c_str(), X_OK) < 0)
        return;
    const std::string& path = *imp->string();
    if (imp->origin.source == bundled_origin) // probed already
        return;
    auto fit = path == inputs.bundled_imp ? inputs.probe_bundled_imp(path)
                                          : inputs.probe_imp(path);
    if (!fit)
        warn(composed, *imp, "exec.imp",
             fmt::format("{}{}", fit.error().message, no_guests_jobs));
}

void warn_of_surprises(Composed& composed)
{
    const Value& root = composed.root;
    const auto is = [](const Value* value, bool expected) {
        return value && value->boolean() && *value->boolean() == expected;
    };
    const Value* prolog = root.find("job-manager.prolog");
    const Value* perilog = prolog ? prolog : root.find("job-manager.epilog");
    const Value* root_owner = root.find("access.allow-root-owner");
    if (perilog && !is(root_owner, true))
        warn(composed, root_owner ? *root_owner : *perilog,
             root_owner ? "access.allow-root-owner is false"
                        : "access.allow-root-owner is not set",
             "a prolog or epilog that asks this instance about its job as root is "
             "refused");
    const Value* disabled = root.find("ingest.validator.disable");
    if (is(disabled, true))
        warn(composed, *disabled, "ingest.validator.disable",
             "jobs of guests are not validated");
}

Result<Composed> merge_sources(const Inputs& inputs, Sources sources)
{
    auto dat = read_dat(sources.dat);
    if (!dat)
        return std::unexpected(dat.error());
    Composed composed;
    composed.door_dir = std::move(dat->door_dir);
    composed.warn = std::move(dat->warn);
    composed.close = std::move(dat->close);
    composed.grace = std::move(dat->grace);
    composed.root = std::move(sources.base);
    const auto set = [](const Value& layer) {
        return layer.find("exec.imp") != nullptr;
    };
    bool imp_is_set = inputs.imp || set(composed.root);
    for (const auto* layers : {&sources.site, &sources.given})
        for (const Value& layer : *layers)
            imp_is_set = imp_is_set || set(layer);
    if (!imp_is_set) {
        auto imp = default_imp(inputs, composed.notices);
        if (!imp)
            return std::unexpected(imp.error());
        if (*imp)
            merge(composed.root, std::move(**imp));
    }
    if (!composed.root.find("exec.job-shell")) {
        auto job_shell = inherit_job_shell(inputs.parent, inputs.parent_label);
        if (!job_shell)
            return std::unexpected(job_shell.error());
        if (*job_shell)
            merge(composed.root, std::move(**job_shell));
    }
    auto inherited = inherit(inputs.parent, inputs.parent_label,
                             inputs.inherit.value_or(dat->inherit.value_or(Inherit{})));
    if (!inherited)
        return std::unexpected(inherited.error());
    merge(composed.root, std::move(inherited->tables));
    for (std::string& notice : inherited->notices)
        composed.notices.push_back(std::move(notice));
    for (Value& layer : sources.site)
        merge(composed.root, std::move(layer));
    for (Value& layer : sources.given)
        merge(composed.root, std::move(layer));
    if (inputs.imp)
        apply_imp_option(composed, *inputs.imp);
    return composed;
}

} // namespace

Inputs::Inputs()
    : template_path(FLUX_DAT_DATADIR "/flux-dat/multiuser.toml"),
      bundled_imp(FLUX_DAT_LIBEXECDIR "/flux-dat/flux-dat-imp"),
      probe_bundled_imp(conf::probe_bundled_imp), probe_imp(probe_setuid_imp),
      site_directory(FLUX_DAT_SYSCONFDIR "/flux/dat/conf.d"),
      search_path(search_path_from_environment())
{
}

Result<Composed> compose(const Inputs& inputs)
{
    auto sources = read_sources(inputs);
    if (!sources)
        return std::unexpected(sources.error());
    auto composed = merge_sources(inputs, std::move(*sources));
    if (!composed)
        return composed;
    if (auto typed = check_types(composed->root); !typed)
        return std::unexpected(typed.error());
    settle_queues(*composed);
    warn_of_units(*composed);
    warn_of_imp(*composed, inputs);
    warn_of_surprises(*composed);
    return composed;
}

Json Composed::json() const
{
    return root.json();
}

const Origin* Composed::origin(std::string_view key) const
{
    const Value* value = root.find(key);
    return value ? &value->origin : nullptr;
}

bool is_of_imp(std::string_view warning)
{
    return warning.ends_with(no_guests_jobs);
}

} // namespace fluxdat::conf
