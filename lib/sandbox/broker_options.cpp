// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/broker_options.h"

namespace fluxdat::sandbox {

namespace {

struct Known {
    const char* name;
    char letter;
    bool has_value;
};
constexpr Known known[] = {
    {"config-path", 'c', true}, {"setattr", 'S', true},     {"verbose", 'v', false},
    {"module-path", 'X', true}, {"broker-opts", 'o', true},
};

Result<> set_attribute(BrokerOptions& out, const std::string& setting)
{
    auto equals = setting.find('=');
    auto name = setting.substr(0, equals);
    if (name.empty())
        return fail("--setattr: no attribute in \"{}\"", setting);
    out.attributes[name] = equals == setting.npos ? "" : setting.substr(equals + 1);
    return {};
}

} // namespace

Result<BrokerOptions> parse_broker_options(const std::vector<std::string>& arguments)
{
    BrokerOptions out;
    std::size_t i = 0;
    for (; i < arguments.size(); i++) {
        const auto& argument = arguments[i];
        if (argument == "--") {
            i++;
            break;
        }
        if (argument.size() < 2 || argument[0] != '-')
            break; // the initial program, whose options are its own
        bool is_long = argument[1] == '-';
        auto equals = is_long ? argument.find('=') : argument.npos;
        auto name = is_long ? argument.substr(2, equals - 2) : argument.substr(1, 1);
        const Known* option = nullptr;
        for (const auto& candidate : known)
            if (is_long ? name == candidate.name : name[0] == candidate.letter)
                option = &candidate;
        if (!option)
            return fail("unrecognized option '{}'", argument);
        std::string value;
        if (option->has_value) {
            if (is_long && equals != argument.npos)
                value = argument.substr(equals + 1);
            else if (!is_long && argument.size() > 2)
                value = argument.substr(2);
            else if (++i < arguments.size())
                value = arguments[i];
            else
                return fail("option '{}' requires an argument", argument);
        }
        if (option->letter == 'c')
            out.config_path = value;
        else if (option->letter == 'S')
            if (auto rc = set_attribute(out, value); !rc)
                return std::unexpected(std::move(rc.error()));
    }
    out.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i),
                       arguments.end());
    return out;
}

} // namespace fluxdat::sandbox
