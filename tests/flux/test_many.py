# SPDX-License-Identifier: LGPL-3.0-or-later
"""A DAT of 64 nodes on a real Flux.

A module of its own, since it takes as long as half of the others do.
"""

import grp
import pwd
import socket
import stat
import subprocess

from tests.flux import test_grant
from tests.lib.realflux import GROUP, GUEST, OWNER, STRANGER, door_of, needs_flux
from tests.lib.sandbox import acting_as


def uid(user):
    return pwd.getpwnam(user).pw_uid


@needs_flux
class Many(test_grant.InAndOut):
    size = nodes = 64

    def test_every_door_is_right_and_stays_so(self):
        self.start_dat("--group", GROUP)
        self.every_door_is_right()
        self.dat("revoke", "--group", GROUP).succeeded()
        self.in_and_out_at_once_and_in_again()
        self.the_imp_alone_refuses()
        self.by_group_and_by_manager()
        self.dat("stop").succeeded()
        self.assert_no_dat_left()

    def every_door_is_right(self):
        [dat] = self.dats()
        self.assertEqual((dat["state"], dat["nnodes"], dat["applied"]), ("ready", 64, 1))
        acls = set()
        for rank in range(64):
            door = door_of(dat, rank)
            status = door.lstat()
            self.assertTrue(stat.S_ISDIR(status.st_mode))
            self.assertEqual((status.st_uid, status.st_mode & 0o007), (uid(OWNER), 0))
            listing = subprocess.run(
                ["getfacl", "-cpn", door], capture_output=True, text=True, check=True
            )
            acls.add(listing.stdout)
            guest = self.flux(GUEST, f"local://{door}/local")
            self.assertEqual(guest.rpc("attr.get", {"name": "rank"})["value"], str(rank))
            guest.close()
            with acting_as(STRANGER), socket.socket(socket.AF_UNIX) as client:
                with self.assertRaises(PermissionError):
                    client.connect(f"{door}/local")
        self.assertEqual(len(acls), 1, acls)
        [acl] = acls
        self.assertIn(f"user:{uid(GUEST)}:--x\n", acl)
        self.assertIn(f"group:{grp.getgrnam(GROUP).gr_gid}:--x\n", acl)
        self.assertIn("other::---\n", acl)
        self.assert_works(GUEST)
