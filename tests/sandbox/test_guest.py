# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat run, for a guest: signed, through the IMP, under the guest's own uid."""

import pwd
import signal

from tests.lib import fluxwire
from tests.lib.guests import GuestTest, processes_with
from tests.lib.sandbox import GUEST, STRANGER, eventually

GUEST_ID = pwd.getpwnam(GUEST).pw_uid


class Run(GuestTest):
    def setUp(self):
        super().setUp()
        self.start("-N2", "--name", "demo", "--user", GUEST)

    def test_ids_of_all_ranks(self):
        ran = self.run_as_guest("-N2", "-l", "id").succeeded()
        lines = sorted(ran.out.splitlines())
        self.assertEqual([line[:3] for line in lines], ["0: ", "1: "])
        for line in lines:
            self.assertIn(f"uid={GUEST_ID}({GUEST})", line)
            self.assertNotIn("root", line)
        self.assertEqual(ran.err, "")
