// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What a DAT is in short: the fields of `flux-dat status -o`, and the cells of its
// table.
#pragma once

#include "cli/format.h"
#include "cli/table.h"
#include "lib/dat/find.h"

namespace fluxdat::cli {

// A directory server may take its time for each: names for the first ones only.
constexpr std::size_t names_max = 100;

const std::vector<FieldName>& dat_fields();
// The value of the field with that index in dat_fields(). `now` in seconds since the
// epoch.
Value dat_field(const dat::Dat& dat, std::size_t field, double now);
// A line for each field, for -o help.
std::vector<std::string> help_of_fields();

// All DATs, a line each, with the columns that flux-dat(1) promises.
std::vector<std::string> dat_table(const std::vector<dat::Dat>& dats, double now,
                                   bool with_header, const Screen& screen);

// "ready", or "ready (1/2 ranks up)" where some were lost, "degraded", "pending (in
// 2h05m)" where it waits for its begin time.
std::string state_in_short(const dat::Dat& dat, double now);
Hue hue_of_state(const dat::Dat& dat);
// Until its end; of one that has not begun, how long it will be. "-": without end.
std::string time_left(const flux::JobInfo& job, double now);

std::string join(const std::vector<std::string>& words,
                 std::string_view between = ", ");
std::string or_dash(std::string text);
std::string plural(std::size_t count, const char* thing); // "1 node", "2 nodes"
// The names of the first ones, and how many more there are.
template <class Id>
std::vector<std::string> names_of(const std::vector<Id>& ids,
                                  std::string (*name_of)(Id),
                                  std::size_t shown_max = names_max)
{
    std::vector<std::string> names;
    for (auto id : ids) {
        if (names.size() == shown_max) {
            names.push_back(fmt::format("and {} more", ids.size() - shown_max));
            break;
        }
        names.push_back(name_of(id));
    }
    return names;
}

} // namespace fluxdat::cli
