// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/acl.h"

#include <acl/libacl.h>
#include <algorithm>
#include <cerrno>
#include <memory>
#include <sys/acl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

namespace fluxdat::perms {

namespace {

// libacl deletes and reads default ACLs by path only; these are the attributes behind
// them (acl(5), xattr(7)).
constexpr const char* access_attribute = "system.posix_acl_access";
constexpr const char* default_attribute = "system.posix_acl_default";

struct AclFree {
    void operator()(void* object) const { ::acl_free(object); }
};
using AclPointer = std::unique_ptr<std::remove_pointer_t<acl_t>, AclFree>;

Result<> remove_attribute(int directory, const std::string& path, const char* name)
{
    if (::fremovexattr(directory, name) == 0 || errno == ENODATA || errno == EOPNOTSUPP)
        return {};
    return fail_errno(errno, "cannot remove the ACL of " + path);
}

// Appends an entry. False with errno set when libacl cannot (out of memory).
bool add_entry(acl_t& acl, acl_tag_t tag, const id_t* id, bool read_write, bool search)
{
    acl_entry_t entry;
    acl_permset_t permissions;
    return ::acl_create_entry(&acl, &entry) == 0 && ::acl_set_tag_type(entry, tag) == 0
           && (!id || ::acl_set_qualifier(entry, id) == 0)
           && ::acl_get_permset(entry, &permissions) == 0
           && ::acl_clear_perms(permissions) == 0
           && (!read_write
               || (::acl_add_perm(permissions, ACL_READ) == 0
                   && ::acl_add_perm(permissions, ACL_WRITE) == 0))
           && (!search || ::acl_add_perm(permissions, ACL_EXECUTE) == 0);
}

bool add_entries(acl_t& acl, const std::vector<uid_t>& users,
                 const std::vector<gid_t>& groups)
{
    if (!add_entry(acl, ACL_USER_OBJ, nullptr, true, true))
        return false;
    for (id_t user : users)
        if (!add_entry(acl, ACL_USER, &user, false, true))
            return false;
    if (!add_entry(acl, ACL_GROUP_OBJ, nullptr, false, false))
        return false;
    for (id_t group : groups)
        if (!add_entry(acl, ACL_GROUP, &group, false, true))
            return false;
    return add_entry(acl, ACL_MASK, nullptr, false, true)
           && add_entry(acl, ACL_OTHER, nullptr, false, false);
}

// "r-x"
std::string permissions_text(acl_permset_t permissions)
{
    auto letter = [&](acl_perm_t permission, char set) {
        return ::acl_get_perm(permissions, permission) == 1 ? set : '-';
    };
    return {letter(ACL_READ, 'r'), letter(ACL_WRITE, 'w'), letter(ACL_EXECUTE, 'x')};
}

void read_entry(acl_entry_t entry, Acl& out)
{
    acl_tag_t tag;
    acl_permset_t permissions;
    if (::acl_get_tag_type(entry, &tag) < 0
        || ::acl_get_permset(entry, &permissions) < 0)
        return;
    auto text = permissions_text(permissions);
    if (tag == ACL_GROUP_OBJ && text != "---")
        out.other.push_back("the owning group: " + text);
    if (tag != ACL_USER && tag != ACL_GROUP)
        return; // owner, mask and others are the mode
    std::unique_ptr<id_t, AclFree> id(static_cast<id_t*>(::acl_get_qualifier(entry)));
    if (!id)
        return;
    if (text != "--x")
        out.other.push_back(
            fmt::format("{} {}: {}", tag == ACL_USER ? "user" : "group", *id, text));
    else
        (tag == ACL_USER ? out.users : out.groups).push_back(*id);
}

} // namespace

Result<> set_mode_only(int directory, const std::string& path, mode_t mode)
{
    // With an ACL, chmod sets its mask: what is not in `mode` is closed to its entries
    // at once, before they go away themselves.
    if (::fchmod(directory, mode) < 0)
        return fail_errno(errno, "cannot set the mode of " + path);
    if (auto removed = remove_attribute(directory, path, access_attribute); !removed)
        return removed;
    return remove_attribute(directory, path, default_attribute);
}

Result<> set_search_for(int directory, const std::string& path,
                        const std::vector<uid_t>& users,
                        const std::vector<gid_t>& groups)
{
    auto count = users.size() + groups.size();
    acl_t acl = ::acl_init(static_cast<int>(count) + 4);
    bool made = acl && add_entries(acl, users, groups);
    AclPointer owned(acl); // only now: libacl may move it while it grows
    if (!made)
        return fail_errno(errno, "cannot make an ACL for " + path);
    if (auto removed = remove_attribute(directory, path, default_attribute); !removed)
        return removed;
    if (::acl_set_fd(directory, acl) == 0) {
        // The same permissions again (the group bits are the mask's now), but without
        // set-group-id and sticky bits.
        if (::fchmod(directory, 0710) < 0)
            return fail_errno(errno, "cannot set the mode of " + path);
        return {};
    }
    int errnum = errno;
    if (errnum == EOPNOTSUPP)
        return std::unexpected(Error{
            fmt::format("cannot give guests access to {}: its file system has no ACLs; "
                        "choose another --door-dir, or --open, which needs none",
                        path),
            errnum});
    if (errnum == ENOSPC || errnum == E2BIG || errnum == ERANGE || errnum == EDQUOT)
        return std::unexpected(Error{
            fmt::format("cannot give {} guests access to {}: its file system holds no "
                        "ACL of that size ({}); put the guests in a group, or choose "
                        "another --door-dir (tmpfs takes 8000)",
                        count, path, strerror(errnum)),
            errnum});
    return fail_errno(errnum, "cannot set the ACL of " + path);
}

Result<> set_access(int directory, const std::string& path, const GuestList& guests)
{
    if (guests.open)
        return set_mode_only(directory, path, 0711);
    if (guests.users.empty() && guests.groups.empty())
        return set_mode_only(directory, path, 0700);
    return set_search_for(directory, path, guests.users, guests.groups);
}

Result<Acl> read_acl(int directory, const std::string& path)
{
    AclPointer acl(::acl_get_fd(directory));
    if (!acl && errno == EOPNOTSUPP)
        return Acl{};
    if (!acl)
        return fail_errno(errno, "cannot read the ACL of " + path);
    Acl out;
    out.has_default = ::fgetxattr(directory, default_attribute, nullptr, 0) > 0;
    if (::acl_equiv_mode(acl.get(), nullptr) == 0)
        return out; // no more than the mode
    acl_entry_t entry;
    for (int which = ACL_FIRST_ENTRY; ::acl_get_entry(acl.get(), which, &entry) == 1;
         which = ACL_NEXT_ENTRY)
        read_entry(entry, out);
    std::sort(out.users.begin(), out.users.end());
    std::sort(out.groups.begin(), out.groups.end());
    return out;
}

} // namespace fluxdat::perms
