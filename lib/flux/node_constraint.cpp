// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/node_constraint.h"

#include <algorithm>

namespace fluxdat::flux {

Result<Constraint> Constraint::parse(const Json& json)
{
    if (!json.is_object())
        return fail("constraints must be a mapping");
    if (json.empty())
        return Constraint{};
    if (json.size() > 1)
        return fail("constraint must only contain one operator");
    const auto& name = json.begin().key();
    const auto& values = json.begin().value();
    if (!values.is_array())
        return fail("{} value must be an array", name);

    Constraint out;
    if (name == "and" || name == "or" || name == "not") {
        out.operator_ = name == "and"  ? Operator::all
                        : name == "or" ? Operator::any
                                       : Operator::none;
        for (const auto& value : values) {
            auto operand = parse(value);
            if (!operand)
                return operand;
            out.operands_.push_back(std::move(*operand));
        }
        return out;
    }
    if (name != "properties" && name != "hostlist" && name != "ranks")
        return fail("unknown constraint operator '{}'", name);
    for (const auto& value : values) {
        if (!value.is_string())
            return fail("{} value must be a string", name);
        const auto& text = value.get_ref<const std::string&>();
        if (name == "properties") {
            out.operator_ = Operator::properties;
            out.properties_.push_back(text);
        } else if (name == "hostlist") {
            auto hosts = parse_hostlist(text);
            if (!hosts)
                return fail("Invalid hostlist: '{}'", text);
            out.operator_ = Operator::hosts;
            out.hosts_.insert(hosts->begin(), hosts->end());
        } else {
            auto ranks = parse_idset(text);
            if (!ranks)
                return fail("Invalid idset: '{}'", text);
            out.operator_ = Operator::ranks;
            out.ranks_.insert(*ranks);
        }
    }
    return out;
}

bool Constraint::matches(const NodeTraits& node) const
{
    auto fits = [&](const Constraint& operand) { return operand.matches(node); };
    switch (operator_) {
    case Operator::always:
        return true;
    case Operator::all:
        return std::all_of(operands_.begin(), operands_.end(), fits);
    case Operator::any:
        return operands_.empty()
               || std::any_of(operands_.begin(), operands_.end(), fits);
    case Operator::none:
        return !std::all_of(operands_.begin(), operands_.end(), fits);
    case Operator::properties:
        return std::all_of(properties_.begin(), properties_.end(),
                           [&](const std::string& name) {
                               if (name.starts_with('^'))
                                   return !node.properties.contains(name.substr(1));
                               return node.properties.contains(name);
                           });
    case Operator::hosts:
        return hosts_.contains(node.host);
    case Operator::ranks:
        return ranks_.contains(node.rank);
    }
    return false;
}

std::set<std::string> Constraint::hosts() const
{
    auto out = hosts_;
    for (const auto& operand : operands_)
        out.merge(operand.hosts());
    return out;
}

void Constraint::also(Constraint other)
{
    Constraint both;
    both.operator_ = Operator::all;
    both.operands_ = {std::move(*this), std::move(other)};
    *this = std::move(both);
}

Constraint Constraint::properties(std::vector<std::string> required)
{
    Constraint out;
    out.operator_ = Operator::properties;
    out.properties_ = std::move(required);
    return out;
}

} // namespace fluxdat::flux
