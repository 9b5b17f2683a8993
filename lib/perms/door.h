// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The door of one rank: the directory `<door-dir>/dat-<jobid>.<rank>/` through which
// guests reach that rank's broker. In it are `local` (the broker's socket, made by the
// broker), `grants` (lib/perms/grants.h) and `.lock` (below), nothing else.
//
// Who gets in is decided by x on the directory, since the socket itself is for all
// (mode 0777):
//
//     owner only     0700, no ACL
//     guests         0700 and an ACL: u:<uid>:--x, g:<gid>:--x, mask --x
//     open           0711, no ACL (so it needs no file system with ACLs)
//
// Nobody but the owner ever has r or w on it. So nobody else can list it, put something
// into it, or hold a lock on it.
//
// Locks. Who made the door holds flock(2) on the directory, exclusively, for as long as
// the rank lives: the launcher, then its watcher (lib/perms/watcher.h). Who cleans up
// (create() over a stale door, sweep()) takes the same lock first. Who changes the
// guest list holds flock(2) on `.lock`; these two never wait for each other.
// (systemd-tmpfiles leaves a directory alone whose lock is held, so the door may stand
// in /tmp.)
//
// What the door does not promise: that somebody is cut off who was let in before. A
// guest can keep a connection, or a descriptor of the socket, over a revoke. That the
// guest's jobs no longer run is up to the supervisor and the IMP.
//
// Everything here is called as the DAT's owner, by a process of one thread.
#pragma once

#include "lib/perms/door_dir.h"
#include "lib/perms/fd.h"
#include "lib/perms/grants.h"
#include "lib/perms/guestlist.h"
#include "lib/result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::perms {

constexpr const char* socket_file_name = "local";

// What the last part of a door's path says: dat-<job>.<rank>
struct DoorName {
    std::string job; // F58 with an ASCII f: "fAbC3dE"
    std::uint32_t rank = 0;

    std::string text() const;
    static std::optional<DoorName> parse(std::string_view text);
    bool operator==(const DoorName&) const = default;
};

class Door
{
public:
    // Makes the door, with its list in force, and holds its lock. A stale door of ours
    // at that name (nobody holds its lock, nothing accepts connections in it) is
    // removed first; if its list was a newer one than `guests`, that one goes on being
    // in force, so that a rank started again does not let in who was revoked.
    // Errors: `<door>/local` longer than a socket's path can be; a door in use,
    // somebody else's, or no directory; no ACLs here; the file system full; an invalid
    // list. Nothing is left behind then.
    static Result<Door> create(const DoorDir& dir, const DoorName& name,
                               const GuestList& guests);

    // A door of ours that is there and that no rank uses any more; holds its lock.
    // `wait` for somebody who is just cleaning it up. errnum is EBUSY if it is in use,
    // EPERM if it is somebody else's or no directory, ENOENT if there is none.
    static Result<Door> take_stale(const DoorDir& dir, const DoorName& name, bool wait);

    // An existing door of ours, to change or check its list; takes no lock. errnum is
    // ENOENT where there is none.
    static Result<Door> open(const std::string& path);

    const std::string& path() const { return path_; }
    const DoorName& name() const { return name_; }
    std::string socket_path() const; // <path>/local
    std::string grants_path() const; // <path>/grants

    // The list in force, as `grants` says. Errors: as read_grants().
    Result<GuestList> guests() const;

    // Puts this list in force: first out who is no longer on it, then `grants`, then in
    // who is new. A list of an older generation than the one in force is refused with
    // errnum ESTALE. After another error the door may be shut for some who are on
    // either list; and where the disk is full and somebody is no longer on the list,
    // one of its generation with nobody is in force. Apply again.
    Result<> apply(const GuestList& guests);

    // What is not as this list wants it, one line for people each; empty if all is
    // right. Also looks whether the path still leads to this door, and at the mode of
    // the socket, if it is there.
    std::vector<std::string> check(const GuestList& guests) const;

    // check(), then apply() if anything was wrong; gives what was wrong. Errors: as
    // apply(), or that something still is.
    Result<std::vector<std::string>> repair(const GuestList& guests);

    // Removes our own files and the door itself, if the path still leads to it. Never
    // follows a link nor goes deeper. Errors: a file in it that is none of ours, which
    // stays.
    Result<> remove();

private:
    // The watcher, which keeps the descriptors of the door and closes all others.
    friend void
    watch(const std::function<Result<Door>()>& make, int process, int pipe,
          const std::function<void(const std::string& door, int ended)>& attend);
    Door(const DoorDir& dir, const DoorName& name);
    Result<> open_directory();
    bool open_new_directory();
    // Makes the directory and takes its lock; `guests` becomes the list of a stale door
    // there if that is newer.
    Result<> make_directory(const DoorDir& dir, GuestList& guests);
    Result<Fd> lock_list() const;
    Result<> shut_out(const GuestList& guests);
    bool in_place() const;
    bool accepts_connections() const;

    DoorDir dir_;
    Fd door_; // the door; its lock is on this description when create() made it
    DoorName name_;
    std::string path_;
};

} // namespace fluxdat::perms
