// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/inherit.h"

#include "lib/conf/merge.h"

#include <algorithm>

namespace fluxdat::conf {

namespace {

// Of [resource], what holds for any set of nodes. The rest names hosts or ranks of the
// parent (path, config, exclude, scheduling), would discard what the parent says about
// the DAT's nodes (rediscover), or is about restarts (history).
constexpr std::string_view resource_keys[] = {"journal-max", "norestrict", "noverify",
                                              "verify"};

const Json* find(const Json& json, std::initializer_list<const char*> key)
{
    const Json* at = &json;
    for (const char* part : key) {
        if (!at->is_object())
            return nullptr;
        const auto member = at->find(part);
        if (member == at->end())
            return nullptr;
        at = &*member;
    }
    return at;
}

Origin parent_origin(const std::string& label)
{
    return {printable(label), Origin::Kind::parent};
}

// Builds the layer; take() and keep() stop at the first error.
class Heir
{
public:
    Heir(const Json& parent, const std::string& label)
        : parent_(parent), origin_(parent_origin(label))
    {
        inherited_.tables = Value{Table{}, origin_};
    }

    void take_perilog(const char* which)
    {
        const Json* table = find(parent_, {"job-manager", which});
        if (!table)
            return;
        keep({"job-manager", which}, *table);
        if (const Json* common = find(parent_, {"job-manager", "perilog"}))
            keep({"job-manager", "perilog"}, *common);
        keep({"job-manager", "plugins"}, Json::array({perilog_directive()}));
    }

    void take_policy()
    {
        if (const Json* policy = find(parent_, {"policy"}))
            keep({"policy"}, *policy);
    }

    void take_queues()
    {
        const Json* found = find(parent_, {"queues"});
        if (!found)
            return;
        Json queues = *found;
        for (auto& [name, queue] : queues.items()) {
            if (queue.is_object() && queue.erase("hosts") > 0)
                notice(
                    join_key("queues", name) + ".hosts",
                    "it names hosts of the parent; the queue has all nodes of the DAT");
        }
        keep({"queues"}, queues);
    }

    void take_resource()
    {
        const Json* resource = find(parent_, {"resource"});
        if (!resource || !resource->is_object())
            return;
        for (const auto& [key, value] : resource->items()) {
            if (std::find(std::begin(resource_keys), std::end(resource_keys), key)
                != std::end(resource_keys))
                keep({"resource", key}, value);
            else
                notice(join_key("resource", key),
                       "it is about the parent's own nodes and ranks");
        }
    }

    void note_units()
    {
        const std::string why = "its systemd units would have the names of the "
                                "parent's on the same nodes";
        const Json* service = find(parent_, {"exec", "service"});
        if (service && *service == "sdexec")
            notice("exec.service = \"sdexec\"", why);
        if (find(parent_, {"job-manager", "housekeeping"}))
            notice("job-manager.housekeeping", why);
    }

    Result<Inherited> result()
    {
        if (error_)
            return std::unexpected(*error_);
        return std::move(inherited_);
    }

private:
    void keep(const std::vector<std::string>& key, const Json& json)
    {
        auto value = from_json(json, origin_);
        if (!value) {
            error_ = error_.value_or(value.error());
            return;
        }
        Value layer{Table{}, origin_};
        put(layer, key, std::move(*value));
        merge(inherited_.tables, std::move(layer));
    }

    void notice(const std::string& key, const std::string& why)
    {
        inherited_.notices.push_back(fmt::format("{} of {} is left out: {}",
                                                 printable(key), origin_.source, why));
    }

    // The parent's own, for its conf. By its bare name, as the template has it: a path
    // would load it twice.
    Json perilog_directive() const
    {
        Json directive = {{"load", "perilog.so"}};
        const Json* plugins = find(parent_, {"job-manager", "plugins"});
        if (!plugins || !plugins->is_array())
            return directive;
        for (const Json& plugin : *plugins) {
            const Json* load = find(plugin, {"load"});
            const Json* conf = find(plugin, {"conf"});
            if (!load || !load->is_string() || !conf)
                continue;
            const std::string path = load->get<std::string>();
            if (path.substr(path.rfind('/') + 1) == "perilog.so")
                directive["conf"] = *conf;
        }
        return directive;
    }

    const Json& parent_;
    Origin origin_;
    Inherited inherited_;
    std::optional<Error> error_;
};

// One key of [exec], as a layer.
Result<std::optional<Value>>
inherit_exec(const Json& parent, const std::string& parent_label, const char* key)
{
    const Json* found = find(parent, {"exec", key});
    if (!found)
        return std::nullopt;
    auto value = from_json(*found, parent_origin(parent_label));
    if (!value)
        return std::unexpected(value.error());
    Value layer{Table{}, value->origin};
    put(layer, {"exec", key}, std::move(*value));
    return layer;
}

} // namespace

Result<Inherit> Inherit::parse(const std::vector<std::string>& lists)
{
    static constexpr const char* known =
        "prolog, epilog, policy, queues, resource or none";
    Inherit what{false, false, false, false, false};
    std::size_t count = 0;
    bool none = false;
    for (const std::string& list : lists) {
        for (std::size_t at = 0; at <= list.size(); ++count) {
            const std::size_t comma = std::min(list.find(',', at), list.size());
            const std::string name = list.substr(at, comma - at);
            at = comma + 1;
            if (name == "prolog")
                what.prolog = true;
            else if (name == "epilog")
                what.epilog = true;
            else if (name == "policy")
                what.policy = true;
            else if (name == "queues")
                what.queues = true;
            else if (name == "resource")
                what.resource = true;
            else if (name == "none")
                none = true;
            else
                return fail(Exit::usage, "cannot inherit '{}'; it is {}",
                            printable(name), known);
        }
    }
    if (none && count > 1)
        return fail(Exit::usage, "cannot inherit 'none' together with other tables");
    return what;
}

Result<Inherited> inherit(const Json& parent, const std::string& parent_label,
                          const Inherit& what)
{
    Heir heir(parent, parent_label);
    if (what.prolog)
        heir.take_perilog("prolog");
    if (what.epilog)
        heir.take_perilog("epilog");
    if (what.policy)
        heir.take_policy();
    if (what.queues)
        heir.take_queues();
    if (what.resource)
        heir.take_resource();
    if (what.prolog || what.epilog || what.policy || what.queues || what.resource)
        heir.note_units();
    return heir.result();
}

Result<std::optional<Value>> inherit_imp(const Json& parent,
                                         const std::string& parent_label)
{
    return inherit_exec(parent, parent_label, "imp");
}

Result<std::optional<Value>> inherit_job_shell(const Json& parent,
                                               const std::string& parent_label)
{
    return inherit_exec(parent, parent_label, "job-shell");
}

} // namespace fluxdat::conf
