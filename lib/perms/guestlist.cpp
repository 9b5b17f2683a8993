// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/guestlist.h"

#include <algorithm>
#include <functional>

namespace fluxdat::perms {

namespace {

constexpr auto no_id = static_cast<uid_t>(-1); // "leave as it is" of chown(2)

template <class Id>
bool ascending_once(const std::vector<Id>& ids)
{
    return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>{})
           == ids.end();
}

template <class Id>
void sort_once(std::vector<Id>& ids)
{
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

} // namespace

bool GuestList::same_guests(const GuestList& other) const
{
    return open == other.open && users == other.users && groups == other.groups;
}

Result<> validate_user(uid_t user, uid_t owner)
{
    if (user == 0)
        return fail("user 0 (root) cannot be a guest");
    if (user == no_id)
        return fail("{} is no user's id", user);
    if (user == owner)
        return fail("user {} owns the DAT and cannot be its guest", user);
    return {};
}

Result<> validate_group(gid_t group)
{
    if (group == 0)
        return fail("group 0 (root) cannot be a guest");
    if (group == no_id)
        return fail("{} is no group's id", group);
    return {};
}

Result<> validate(const GuestList& list, uid_t owner)
{
    if (list.users.size() > guests_max
        || list.groups.size() > guests_max - list.users.size())
        return fail("the guest list has {} users and groups, at most {} are possible; "
                    "put the users in a group",
                    list.users.size() + list.groups.size(), guests_max);
    if (!ascending_once(list.users) || !ascending_once(list.groups))
        return fail("the guest list is not in ascending order, each guest once");
    for (uid_t user : list.users)
        if (auto valid = validate_user(user, owner); !valid)
            return valid;
    for (gid_t group : list.groups)
        if (auto valid = validate_group(group); !valid)
            return valid;
    return {};
}

Result<GuestList> make_guest_list(std::uint64_t generation, bool open,
                                  std::vector<uid_t> users, std::vector<gid_t> groups,
                                  uid_t owner)
{
    sort_once(users);
    sort_once(groups);
    GuestList list{generation, open, std::move(users), std::move(groups)};
    if (auto valid = validate(list, owner); !valid)
        return std::unexpected(valid.error());
    return list;
}

} // namespace fluxdat::perms
