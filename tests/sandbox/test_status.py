# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat status."""

import os
import signal

from tests.lib import fluxwire
from tests.lib.sandbox import (
    GUEST,
    OWNER,
    OWNER_ID,
    STRANGER,
    SandboxTest,
    eventually,
    needs_root,
    processes_of,
)


class Status(SandboxTest):
    def test_nothing_there(self):
        self.assertEqual(self.dats(), [])
        self.dat("status").succeeded()

    def test_one_line_each(self):
        first = self.start("-N2", "--name", "demo", "--user", "games")
        second = self.start("--name", "later", "--no-wait", "--begin-time", "+1h", "-t", "2h")
        lines = self.dat("status").succeeded().out.splitlines()
        self.assertEqual(
            lines[0].split(),
            ["NAME", "ID", "OWNER", "STATE", "NODES", "NODELIST", "LEFT", "GUESTS"],
        )
        rows = {line.split()[0]: line.split() for line in lines[1:]}
        self.assertEqual(sorted(rows), ["demo", "later"])
        self.assertEqual(rows["demo"][1:5], [first, OWNER, "ready", "2"])
        self.assertEqual(rows["demo"][-2:], ["1", "user"])
        self.assertEqual(rows["later"][1:4], [second, OWNER, "pending"])

    def test_json_has_the_promised_keys(self):
        self.start("-N2", "--name", "demo", "-t", "1h")
        result = self.dat("status", "--json").succeeded().json()
        self.assertEqual(result["version"], 1)
        [dat] = result["dats"]
        self.assertEqual(
            set(dat),
            {
                "name", "id", "jobid", "owner", "userid", "state", "nnodes", "ranks_up", "nodelist",
                "ranks", "t_submit", "t_run", "degraded", "duration", "expiration", "uri", "generation",
                "applied", "open", "users", "groups", "managers",
            },
        )  # fmt: skip
        self.assertEqual((dat["owner"], dat["duration"]), (OWNER, 3600))
        self.assertEqual((dat["nnodes"], dat["ranks_up"]), (2, 2))
        self.assertGreater(dat["expiration"], dat["t_run"])
        self.assertGreaterEqual(dat["t_run"], dat["t_submit"])

    @needs_root
    def test_everybody_sees_the_same(self):
        self.start("-N2", "--name", "demo", "--user", GUEST)
        owners = self.dat("status", "--json").succeeded().out
        for user in (GUEST, STRANGER):
            self.assertEqual(self.dat("status", "--json", user=user).succeeded().out, owners)

    def test_one_in_detail_by_name_and_by_id(self):
        jobid = self.start("-N2", "--name", "demo")
        self.start("--name", "other")
        by_name = self.dat("status", "--dat", "demo").succeeded().out
        self.assertIn(jobid, by_name)
        self.assertEqual(by_name.count("door right"), 2, by_name)
        self.assertEqual(self.dat("status", "--dat", jobid).succeeded().out, by_name)
        self.assertEqual(self.dat("status", env={"FLUX_DAT": "demo"}).succeeded().out, by_name)
        [dat] = self.dat("status", "--dat", "demo", "--json").succeeded().json()["dats"]
        self.assertEqual(dat["id"], jobid)

    def test_no_such_dat_lists_those_there_are(self):
        self.start("--name", "demo")
        ran = self.dat("status", "--dat", "nosuch").ended(3)
        self.assert_says(ran, ["nosuch", "demo"])

    def test_no_dat_at_all(self):
        ran = self.dat("status", "--dat", "nosuch").ended(3)
        self.assert_says(ran, ["nosuch"])

    def test_a_job_that_is_no_dat_is_not_listed(self):
        flux = self.flux()
        flux.submit(fluxwire.jobspec(["sleep", "600"], nodes=1), userid=OWNER_ID)
        self.assertEqual(self.dats(), [])

    def broker(self, rank):
        """The process id of a rank's broker, which has its door on its command line."""
        [pid] = [
            pid
            for pid, words in processes_of(self.installed.program).items()
            if f"local-uri=local://{self.doors}/" in words and f".{rank}/local" in words
        ]
        return pid

    def test_a_rank_that_died(self):
        self.start("-N2", "--name", "demo")
        self.assertNotIn("ranks up", self.dat("status").succeeded().out)
        os.kill(self.broker(1), signal.SIGKILL)
        # The list tells without being asked for this one.
        eventually(lambda: self.dats()[0]["ranks_up"] == 1, "the list says so")
        [dat] = self.dats()
        self.assertEqual((dat["state"], dat["nnodes"]), ("ready", 2))
        self.assertIn("ready (1/2 ranks up)", self.dat("status").succeeded().out)
        ran = self.dat("grant", GUEST).ended(6)
        self.assert_says(ran, ["not in force on all ranks", "rank 1"])
        self.assertIn("(1/2 ranks up)", self.dat("status").succeeded().out)
