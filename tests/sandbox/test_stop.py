# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat stop."""

import os
import signal

from tests.lib.sandbox import (
    GUEST,
    OWNER,
    SandboxTest,
    eventually,
    needs_root,
)
from tests.lib.terminal import Terminal


class Stop(SandboxTest):
    def test_the_only_one(self):
        self.start("-N2")
        self.dat("stop").succeeded()
        self.assert_no_dat_left()

    def test_by_name_where_there_are_several(self):
        self.start("--name", "one")
        two = self.start("--name", "two")
        ran = self.dat("stop").ended(4)
        self.assert_says(ran, ["one", "two", "--dat"])
        self.dat("stop", "--dat", "one").succeeded()
        self.assertEqual([dat["id"] for dat in self.dats()], [two])

    def test_none(self):
        ran = self.dat("stop").ended(3)
        self.assert_says(ran, "no DAT")

    def test_one_that_is_gone(self):
        jobid = self.start("--name", "demo")
        self.dat("stop", "--dat", jobid).succeeded()
        self.dat("stop", "--dat", jobid).succeeded()  # already so
        ran = self.dat("stop", "--dat", "demo").ended(3)
        self.assert_says(ran, "demo")

    def test_says_so_on_a_terminal(self):
        for arguments, says in (([], True), (["--quiet"], False)):
            jobid = self.start("--name", "demo")
            with Terminal(columns=200) as terminal:
                self.dat_background("stop", *arguments, **terminal.streams).wait().succeeded()
                said = f'the DAT "demo" ({jobid}) has ended' in terminal.text()
                self.assertEqual(said, says, terminal.text())
        self.start("--name", "demo")
        self.assertEqual(self.dat("stop").succeeded().err, "")

    def test_one_that_never_was(self):
        ran = self.dat("stop", "--dat", "ƒ123").ended(3)
        self.assert_says(ran, "ƒ123")

    def test_pending(self):
        self.start("--no-wait", "--begin-time", "+1h")
        self.dat("stop").succeeded()
        self.assert_no_dat_left()

    def test_waits_for_running_jobs_and_not_longer_than_grace(self):
        self.start("-N1", "--name", "demo")
        job = self.dat_background("run", "--dat", "demo", "sleep", "600")
        [dat] = self.dats()
        inside = self.flux(uri=dat["uri"])
        eventually(
            lambda: inside.rpc(
                "job-list.list",
                {"max_entries": 5, "attrs": ["all"], "constraint": {"states": ["running"]}},
            )["jobs"],
            "the job runs",
        )
        self.dat("stop", "--grace", "0.2s").succeeded()
        self.assertNotEqual(job.wait().status, 0)
        self.assert_no_dat_left()

    def test_does_not_wait_for_grace_when_nothing_runs(self):
        self.start("-N1")
        self.dat("stop", "--grace", "1d").succeeded()
        self.assert_no_dat_left()

    def test_goes_on_where_the_supervisors_worker_is_killed(self):
        self.start("-N1", "--name", "demo")
        job = self.dat_background("run", "--dat", "demo", "sh", "-c", "echo up; exec sleep 600")
        eventually(lambda: "up" in job.stdout(), "the job runs")
        stopping = self.dat_background("stop", "--grace", "2s")
        eventually(lambda: self.dats()[0]["state"] == "stopping", "it is closed")
        [worker] = self.supervisors(worker=True)
        os.kill(worker, signal.SIGKILL)
        stopping.wait().succeeded()
        self.assertNotEqual(job.wait().status, 0)
        self.assert_no_dat_left()

    def test_taken_back_while_the_supervisor_is_asked(self):
        jobid = self.start("-N1", "--name", "demo")
        [worker] = self.supervisors(worker=True)
        os.kill(worker, signal.SIGSTOP)
        proxy = self.proxy(0, None)  # which never comes
        stopping = self.dat_background("stop", "--grace", "1h", env={"FLUX_URI": proxy.uri})
        eventually(lambda: b".stop\0" in proxy.sent, "it asks")
        ran = stopping.signal(signal.SIGINT).wait().ended(1)
        self.assert_says(ran, ["SIGINT", "it may do so all the same", "flux-dat status --dat f"])
        self.assertEqual([(dat["id"], dat["state"]) for dat in self.dats()], [(jobid, "ready")])
        os.kill(worker, signal.SIGCONT)  # and it does
        eventually(lambda: not self.dats(), "it has ended")
        self.assert_no_dat_left()

    def test_bad_grace(self):
        self.start()
        ran = self.dat("stop", "--grace", "soon").ended(2)
        self.assert_says(ran, ["--grace", "soon"])
        self.assertEqual(len(self.dats()), 1)

    @needs_root
    def test_by_a_guest_is_not_permitted(self):
        jobid = self.start("--user", GUEST)
        # The supervisor says it, and with --now the instance; both in the same words.
        asked = self.dat("stop", user=GUEST).ended(7)
        self.assert_says(asked, ["only its owner", OWNER, "may stop", jobid])
        self.assertEqual(self.dat("stop", "--now", user=GUEST).ended(7).err, asked.err)
        self.assertEqual(len(self.dats()), 1)
