# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat extend."""

from tests.lib import fluxwire
from tests.lib.sandbox import GUEST, needs_root
from tests.sandbox.test_window import WindowTest

LIMITS = '[policy.limits]\nduration = "2h"\n'


class Extend(WindowTest):
    up_options = ("--conf", LIMITS)

    def test_a_running_one(self):
        jobid = self.start("-t", "1h", "--name", "demo")
        before = self.job(jobid)["expiration"]
        ran = self.dat("extend", "30m", "--dat", "demo").succeeded()
        self.assertEqual(ran.out, "")
        self.assertRegex(
            ran.err, r'the DAT "demo" \(.*\) ends \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, after 1h30m in all'
        )
        self.assertEqual(self.job(jobid)["expiration"], before + 1800)
        self.assertEqual(self.job(jobid)["duration"], 5400)

    def test_beyond_the_limits_of_others(self):
        # Flux lets the instance's owner do that.
        jobid = self.start("-t", "2h")
        self.dat("extend", "1d").succeeded()
        self.assertEqual(self.job(jobid)["duration"], 26 * 3600)

    def test_quiet_and_json(self):
        jobid = self.start("-t", "1h", "--name", "demo")
        before = self.job(jobid)["expiration"]
        ran = self.dat("extend", "-q", "1m").succeeded()
        self.assertEqual((ran.out, ran.err), ("", ""))
        ran = self.dat("extend", "--json", "-q", "1m").succeeded()
        self.assertEqual(
            ran.json(),
            {
                "version": 1,
                "id": jobid,
                "jobid": fluxwire.parse_jobid(jobid),
                "name": "demo",
                "duration": 3720,
                "expiration": before + 120,
            },
        )

    def test_a_pending_one(self):
        jobid = self.start("--no-wait", "--begin-time", "+1h", "-t", "1h")
        ran = self.dat("extend", "30m", "--json").succeeded()
        self.assertIn("lasts 1h30m when it begins", ran.err)
        self.assertEqual((ran.json()["duration"], ran.json()["expiration"]), (5400, 0))
        self.assertEqual(self.job(jobid)["duration"], 5400)

    def test_one_that_ends(self):
        jobid = self.start("-t", "1h", "--name", "demo")
        inside = self.inside(jobid)
        inside.wait_event(self.submit(inside, "sleep", "600"), "start")
        stopping = self.dat_background("stop", "--grace", "1d", "-v").says("closed")
        ran = self.dat("extend", "1h").ended(1)
        self.assert_says(ran, ['"demo"', jobid, "is ending", "stopped by its owner"])
        self.dat("stop", "--now").succeeded()
        stopping.wait()
        ran = self.dat("extend", "1h", "--dat", jobid).ended(3)
        self.assert_says(ran, ['"demo"', jobid, "has ended, at 20"])

    def test_none(self):
        self.assert_says(self.dat("extend", "1h").ended(3), "no DAT")
        self.assert_says(self.dat("extend", "1h", "--dat", "demo").ended(3), "demo")

    def test_several(self):
        self.start("-t", "1h", "--name", "one")
        self.start("-t", "1h", "--name", "two")
        self.assert_says(self.dat("extend", "1h").ended(4), ["one", "two"])

    def test_mistakes(self):
        jobid = self.start("-t", "1h")
        for wrong in ("soon", "-1h", "0", "inf", "nan", "", "1 h", "1h30m"):
            with self.subTest(wrong):
                ran = self.dat("extend", "--", wrong).ended(2)
                self.assert_says(ran, f'"{wrong}"')
        self.assert_says(self.dat("extend").ended(2), "FSD")
        self.assert_says(self.dat("extend", "1e308d").ended(2), "1e308d")
        self.assertEqual(self.job(jobid)["duration"], 3600)

    @needs_root
    def test_by_a_guest_of_the_parent(self):
        jobid = self.start("-t", "1h", "--user", GUEST, "--name", "demo")
        ran = self.dat("extend", "1h", user=GUEST).ended(7)
        self.assert_says(ran, ['cannot extend the DAT "demo"', jobid, "only its owner"])
        self.assertEqual(self.job(jobid)["duration"], 3600)


class NoLimit(WindowTest):
    def test_no_time_limit(self):
        jobid = self.start("--name", "demo")
        ran = self.dat("extend", "1h").ended(1)
        self.assert_says(ran, ['"demo"', jobid, "no time limit"])
