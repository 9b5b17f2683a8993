# SPDX-License-Identifier: LGPL-3.0-or-later
"""A DAT of 64 nodes on a real Flux.

A module of its own, since it takes as long as half of the others do.
"""

import grp
import pwd
import socket
import stat
import subprocess

from tests.lib.realflux import (
    GROUP,
    GUEST,
    OWNER,
    STRANGER,
    FluxTest,
    door_of,
    needs_flux,
)
from tests.lib.sandbox import acting_as


def uid(user):
    return pwd.getpwnam(user).pw_uid


@needs_flux
class Many(FluxTest):
    size = 64

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # To end 64 brokers in order takes as long as all the test does.
        cls.addClassCleanup(cls.instance.kill)

    def test_every_door_is_right(self):
        jobid = self.start("-N64", "--name", "big", "--user", GUEST, "--group", GROUP)
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
        out = self.run_in(jobid, "-N64", "id", "-un", user=GUEST).succeeded().out
        self.assertEqual(out.split(), [GUEST] * 64)
        self.dat("stop").succeeded()
        self.assert_no_dat_left()
