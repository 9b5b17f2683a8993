// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/merge.h"

#include <algorithm>
#include <fnmatch.h>

namespace fluxdat::conf {

namespace {

const std::string* member(const Value& directive, std::string_view key)
{
    const Table* table = directive.table();
    const auto found = table ? table->find(key) : Table::const_iterator{};
    return table && found != table->end() ? found->second.string() : nullptr;
}

bool is_directive_list(const Array& array)
{
    return !array.empty()
           && std::all_of(array.begin(), array.end(), [](const Value& element) {
                  return member(element, "load") || member(element, "remove");
              });
}

bool removes(const Value& directive, const std::string& plugin)
{
    const std::string* glob = member(directive, "remove");
    return glob && (*glob == "all" || fnmatch(glob->c_str(), plugin.c_str(), 0) == 0);
}

// The directive that the new one speaks of, or nullptr. Not beyond one that removes the
// plugin again: what is loaded after that is another load.
Value* same_load(Array& base, const Value& directive)
{
    const std::string* plugin = member(directive, "load");
    if (!plugin || member(directive, "remove"))
        return nullptr;
    for (auto it = base.rbegin(); it != base.rend(); ++it) {
        const std::string* load = member(*it, "load");
        if (load && *load == *plugin)
            return &*it;
        if (removes(*it, *plugin))
            return nullptr;
    }
    return nullptr;
}

} // namespace

void merge(Value& base, Value overlay)
{
    if (Table* into = base.table(), *from = overlay.table(); into && from) {
        for (auto& [key, value] : *from) {
            auto [at, added] = into->try_emplace(key);
            if (added)
                at->second = std::move(value);
            else
                merge(at->second, std::move(value));
        }
        return;
    }
    if (Array* into = base.array(), *from = overlay.array();
        into && from && is_directive_list(*into) && is_directive_list(*from)) {
        for (Value& directive : *from) {
            if (Value* same = same_load(*into, directive)) {
                same->origin = directive.origin; // the one to blame now
                merge(*same, std::move(directive));
            } else {
                into->push_back(std::move(directive));
            }
        }
        return;
    }
    base = std::move(overlay);
}

bool loads_plugin(const Value* directives, const std::string& plugin)
{
    bool loaded = false;
    if (!directives || !directives->array())
        return false;
    for (const Value& directive : *directives->array()) {
        if (removes(directive, plugin))
            loaded = false;
        if (const std::string* load = member(directive, "load"))
            loaded = loaded || load->substr(load->rfind('/') + 1) == plugin;
    }
    return loaded;
}

} // namespace fluxdat::conf
