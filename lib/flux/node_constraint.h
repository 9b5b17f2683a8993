// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Which nodes a constraint of a jobspec allows: RFC 31, as constraint.h makes it of
// what people write. The operators of job-list (RFC 43) are another set.
#pragma once

#include "lib/flux/hostlist.h"
#include "lib/flux/idset.h"
#include "lib/flux/json.h"

#include <set>
#include <string>
#include <vector>

namespace fluxdat::flux {

// What a constraint is asked about.
struct NodeTraits {
    std::uint32_t rank;
    const std::string& host;
    const std::set<std::string>& properties;
};

class Constraint
{
public:
    // Matches everything.
    Constraint() = default;

    // From JSON. The messages are those of Flux's validator: an unknown operator, a
    // bad hostlist or idset, a value that is no string.
    static Result<Constraint> parse(const Json& json);

    bool matches(const NodeTraits& node) const;
    // All hosts that it names, for the check that they exist.
    std::set<std::string> hosts() const;

    // Both must match.
    void also(Constraint other);
    static Constraint properties(std::vector<std::string> required);

private:
    enum class Operator { always, all, any, none, properties, hosts, ranks };
    Operator operator_ = Operator::always;
    std::vector<Constraint> operands_; // all, any; none: not all of them
    std::vector<std::string> properties_;
    std::set<std::string> hosts_;
    Idset ranks_;
};

} // namespace fluxdat::flux
