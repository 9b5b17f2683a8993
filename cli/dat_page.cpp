// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/dat_page.h"

#include "cli/dat_fields.h"
#include "cli/window_line.h"
#include "lib/accounts.h"
#include "lib/dat/changes.h"
#include "lib/dat/doors.h"
#include "lib/dat/evict.h"
#include "lib/dat/ranks.h"
#include "lib/flux/datetime.h"
#include "lib/harmless.h"

namespace fluxdat::cli {

namespace {

using dat::Json;

constexpr std::size_t page_names_max = 20; // of a page; --json has all

// What the supervisor says of the ranks.
struct RankState {
    dat::Rank rank;
    dat::Doors::Rank list;
};

std::vector<RankState> ranks_of(const Details& details)
{
    std::vector<RankState> states;
    auto& ranks = member(details.supervisor, "ranks");
    if (ranks.is_array())
        for (auto& rank : ranks)
            states.push_back(
                {dat::rank_from_json(rank), dat::door_rank_from_json(rank)});
    return states;
}

// Empty: all is right.
std::string what_is_wrong(const RankState& state, std::uint64_t generation)
{
    auto verdict = join(state.rank.wrong);
    auto add = [&](const std::string& text) {
        verdict += (verdict.empty() ? "" : "; ") + text;
    };
    if (state.list.applied < generation)
        add(fmt::format("has guest list {} of {}{}", state.list.applied, generation,
                        state.list.reason.empty() ? "" : ": " + state.list.reason));
    if (!state.list.warnings.empty())
        add(join(state.list.warnings));
    return verdict;
}

std::string jobs_in_short(const Json& jobs)
{
    auto count = [&](const char* state) {
        return flux::integer_at<std::uint64_t>(jobs, state);
    };
    auto text =
        fmt::format("{} pending, {} running", count("pending"), count("running"));
    if (jobs.contains("done")) // not of supervisors before 0.2
        text += fmt::format(", {} done, {} failed", count("done"), count("failed"));
    if (count("canceled") > 0)
        text += fmt::format(", {} canceled", count("canceled"));
    return text;
}

// Empty where their jobs are cancelled.
std::string evictor_fault(const Details& details)
{
    auto fault = flux::text_at(details.supervisor, "evictor_fault");
    return fault.empty() ? "" : "jobs of those revoked are not cancelled: " + fault;
}

std::string imp_in_short(const Json& imp)
{
    return fmt::format("{}: {}", flux::text_at(imp, "path"),
                       member(imp, "asks_guest_list") == true
                           ? "asks the guest list"
                           : "does not know of the guest list, which doors and "
                             "supervisor enforce");
}

// Whether whoever asks may come in, and how.
std::string admission(const dat::Dat& dat, uid_t viewer)
{
    dat::Desired list(dat.record, dat.job.userid, 0);
    if (!list.admits(viewer, dat::groups_of))
        return list.is_manager(viewer)
                   ? "a manager, and not on the guest list"
                   : "not on the guest list; ask the owner or a manager";
    if (dat.phase() != "ready")
        return "on the guest list";
    return fmt::format("on the guest list: flux proxy {0}, or flux-dat run --dat {0}",
                       flux::format_jobid_ascii(dat.job.id));
}

std::string window_in_words(const dat::Dat& dat, double now)
{
    auto& job = dat.job;
    if (job.t_run <= 0) {
        auto length = job.duration > 0 ? human_duration(job.duration) : "no time limit";
        if (auto begin = job.begin_time(); begin > 0)
            return fmt::format("not before {}; {}", flux::format_datetime(begin),
                               length);
        return fmt::format("not begun; {}", length);
    }
    auto begin = flux::format_datetime(job.t_run);
    if (job.expiration <= 0)
        return fmt::format("{}, no end", begin);
    return fmt::format("{} to {} ({} left)", begin,
                       flux::format_datetime(job.expiration), time_left(job, now));
}

// A line for each guest of a kind, of `list` as the supervisor tells it.
template <class Id>
void add_guests(std::vector<Row>& rows, const char* kind, const Json& list,
                std::string (*name_of)(Id))
{
    if (!list.is_array())
        return;
    for (std::size_t i = 0; i < list.size(); i++) {
        if (i == names_max) {
            rows.push_back({{kind},
                            {fmt::format("and {} more (--json names them)",
                                         list.size() - names_max)}});
            return;
        }
        rows.push_back(
            {{kind},
             {fmt::format("{}, since {}, by {}",
                          name_of(flux::integer_at<Id>(list[i], "id")),
                          flux::format_datetime(flux::number_at(list[i], "since")),
                          user_name(flux::integer_at<uid_t>(list[i], "by")))}});
    }
}

// A page as it grows: keys in a column of their own, values beside them.
class Page
{
public:
    explicit Page(const Screen& screen) : screen_(screen) {}

    std::size_t room() const
    {
        auto columns = screen_.columns > 0 ? screen_.columns : columns_default;
        return columns > key_columns + 1 ? columns - key_columns : 1;
    }

    // On one line, cut where it is too long: lists of hosts, addresses.
    void cut(const char* key, const std::string& value, Hue hue = Hue::plain)
    {
        add(key, screen_.paint(hue, screen_.cut(harmless(value), room())));
    }
    // On as many lines as it takes.
    void wrap(const char* key, const std::string& value, Hue hue = Hue::plain)
    {
        for (auto& line : wrapped(harmless(value), room())) {
            add(key, screen_.paint(hue, line));
            key = "";
        }
    }
    // Made for this screen.
    void add(const char* key, const std::string& value)
    {
        auto name = padded(screen_.cut(key, key_columns - 1), key_columns);
        lines.push_back(screen_.paint(Hue::faint, name) + value);
    }

    std::vector<std::string> lines;

private:
    static constexpr std::size_t key_columns = 9;      // "managers" and a space
    static constexpr std::size_t columns_default = 80; // of what has no width
    const Screen& screen_;
};

void add_window(Page& page, const dat::Dat& dat, double now, const Screen& screen)
{
    auto window = window_of(dat);
    if (window.begin <= 0)
        return page.wrap("window", window_in_words(dat, now), Hue::busy);
    page.add("window", window_line(window, now, page.room(), screen));
    if (window.end <= 0)
        return page.wrap("", fmt::format("since {}, without end",
                                         human_duration(now - window.begin)));
    auto left = window.end - now;
    page.wrap("left",
              left > 0 ? fmt::format("{} of {}", human_duration(left),
                                     human_duration(window.end - window.begin))
                       : std::string("its time is over"),
              Hue::strong);
    if (auto coming = window_to_come(window, now); !coming.empty())
        page.wrap("next", coming);
    if (!window.passed_over.empty())
        page.wrap("", "too short for: " + join(window.passed_over));
}

void add_nodes(Page& page, const Details& details)
{
    auto& dat = details.dat;
    flux::Hostlist up, down;
    for (auto& state : ranks_of(details))
        (state.rank.up ? up : down).push_back(state.rank.host);
    if (up.empty() && down.empty()) {
        auto lost = dat.record.ranks_up > 0 && dat.record.ranks_up < dat.job.nnodes
                        ? dat.job.nnodes - dat.record.ranks_up
                        : 0;
        page.cut("nodes",
                 fmt::format("{}{} {}", dat.job.nnodes,
                             lost > 0 ? fmt::format(" ({} down)", lost) : "",
                             or_dash(dat.job.nodelist)),
                 lost > 0 ? Hue::bad : Hue::plain);
        return;
    }
    page.cut("nodes", fmt::format("{} up {}", up.size(), flux::format_hostlist(up)),
             down.empty() ? Hue::good : Hue::plain);
    if (!down.empty())
        page.cut("",
                 fmt::format("{} down {}", down.size(), flux::format_hostlist(down)),
                 Hue::bad);
}

void add_doors(Page& page, const Details& details)
{
    auto ranks = ranks_of(details);
    auto generation = details.dat.record.guests.generation;
    std::size_t wrong = 0;
    for (auto& state : ranks) {
        auto verdict = what_is_wrong(state, generation);
        if (verdict.empty() || !state.rank.up)
            continue;
        wrong++;
        page.wrap(wrong == 1 ? "doors" : "",
                  fmt::format("{}: {}", state.rank.host, verdict), Hue::bad);
    }
    if (wrong == 0 && !ranks.empty())
        page.cut("doors", "right", Hue::good);
}

void add_guest_list(Page& page, const dat::Record& record)
{
    auto& guests = record.guests;
    auto users = names_of(guests.users, user_name, page_names_max);
    auto groups = names_of(guests.groups, group_name, page_names_max);
    if (guests.open)
        page.wrap("guests", "everybody");
    else if (users.empty() && groups.empty())
        page.wrap("guests", "nobody");
    else if (!users.empty())
        page.wrap("guests", join(users));
    if (!groups.empty())
        page.wrap("groups", join(groups));
    if (!record.managers.empty())
        page.wrap("managers",
                  join(names_of(record.managers, user_name, page_names_max)));
}

} // namespace

const Json& member(const Json& json, const char* key)
{
    static const Json null;
    if (!json.is_object())
        return null;
    auto found = json.find(key);
    return found == json.end() ? null : *found;
}

std::vector<std::string> detail_rows(const Details& details, double now)
{
    auto& dat = details.dat;
    auto& job = dat.job;
    std::vector<Row> rows{
        {{"name"}, {dat.record.name}},
        {{"id"}, {flux::format_jobid(job.id)}},
        {{"owner"}, {fmt::format("{} ({})", user_name(job.userid), job.userid)}},
        {{"state"}, {state_in_short(dat, now)}},
        {{"window"}, {window_in_words(dat, now)}}};
    auto window = window_of(dat);
    if (auto coming = window_to_come(window, now);
        !coming.empty() && !window.points.empty())
        rows.push_back({{"next"}, {coming}});
    rows.push_back(
        {{"nodes"}, {fmt::format("{}: {}", job.nnodes, or_dash(job.nodelist))}});
    rows.push_back({{"uri"}, {or_dash(dat.uri())}});
    rows.push_back({{"open"}, {dat.record.guests.open ? "to everybody" : "no"}});
    if (auto& guests = member(details.supervisor, "guests"); guests.is_object()) {
        add_guests(rows, "user", member(guests, "users"), user_name);
        add_guests(rows, "group", member(guests, "groups"), group_name);
        add_guests(rows, "manager", member(guests, "managers"), user_name);
    } else {
        auto& list = dat.record.guests;
        rows.push_back({{"users"}, {or_dash(join(names_of(list.users, user_name)))}});
        rows.push_back(
            {{"groups"}, {or_dash(join(names_of(list.groups, group_name)))}});
        rows.push_back(
            {{"managers"}, {or_dash(join(names_of(dat.record.managers, user_name)))}});
    }
    if (details.viewer != job.userid)
        rows.push_back({{"you"}, {admission(dat, details.viewer)}});
    if (auto& imp = member(details.supervisor, "imp"); imp.is_object())
        rows.push_back({{"imp"}, {imp_in_short(imp)}});
    if (auto fault = evictor_fault(details); !fault.empty())
        rows.push_back({{"revoked"}, {fault}});
    if (auto& jobs = member(details.supervisor, "jobs"); jobs.is_object())
        rows.push_back({{"jobs"}, {jobs_in_short(jobs)}});
    for (auto& state : ranks_of(details)) {
        auto verdict = what_is_wrong(state, dat.record.guests.generation);
        rows.push_back({{fmt::format("rank {}", state.rank.rank)},
                        {fmt::format("{} {}: {}", or_dash(state.rank.host),
                                     state.rank.up ? "up" : "down",
                                     verdict.empty() ? "door right" : verdict)}});
    }
    return table_lines({{"", 0, 0}, {"", 0, 0}}, std::move(rows), false, Screen{});
}

std::vector<std::string> detail_page(const Details& details, double now,
                                     const Screen& screen)
{
    auto& dat = details.dat;
    auto& job = dat.job;
    Page page(screen);
    page.wrap("dat",
              fmt::format("{} ({}) of {}", dat.record.name, flux::format_jobid(job.id),
                          user_name(job.userid)),
              Hue::strong);
    auto state = state_in_short(dat, now);
    if (!dat.record.stop_reason.empty() && dat.phase() == "stopping")
        state += ": " + dat.record.stop_reason;
    page.wrap("state", state, hue_of_state(dat));
    add_window(page, dat, now, screen);
    add_nodes(page, details);
    if (auto& jobs = member(details.supervisor, "jobs"); jobs.is_object())
        page.wrap("jobs", jobs_in_short(jobs));
    add_guest_list(page, dat.record);
    add_doors(page, details);
    if (auto& imp = member(details.supervisor, "imp");
        imp.is_object() && member(imp, "asks_guest_list") != true)
        page.wrap("imp", imp_in_short(imp), Hue::busy);
    if (auto fault = evictor_fault(details); !fault.empty())
        page.wrap("revoked", fault, Hue::bad);
    if (!dat.uri().empty())
        page.cut("uri", dat.uri());
    if (details.viewer != job.userid)
        page.wrap("you", admission(dat, details.viewer));
    return page.lines;
}

} // namespace fluxdat::cli
