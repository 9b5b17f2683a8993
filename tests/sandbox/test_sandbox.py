# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat sandbox itself."""

import os
import pathlib
import resource
import signal
import time

from tests.lib import fluxwire
from tests.lib.sandbox import SandboxTest, eventually


class Json(SandboxTest):
    def test_up_env_and_down(self):
        described = self.dat("sandbox", "env", "--json").succeeded().json()
        self.assertEqual(
            described,
            {
                "version": 1,
                "uri": self.env["FLUX_URI"],
                "hosts": "sandbox[0-3]",
                "directory": self.env["FLUX_DAT_SANDBOX_DIR"],
                "speed": 1,
                "already": False,
            },
        )
        again = self.dat("sandbox", "up", "--json").succeeded().json()
        self.assertEqual(again, {**described, "already": True})
        down = self.dat("sandbox", "down", "--json").succeeded().json()
        self.assertEqual(set(down), set(described))
        self.assertFalse(down["already"])
        self.assertTrue(self.dat("sandbox", "down", "--json").succeeded().json()["already"])

    def test_up_with_other_options_while_it_is_up(self):
        for options, says in (
            (["--size", "2"], "hosts sandbox[0-3], not sandbox[0-1]"),
            (["--hosts", "a,b"], "hosts sandbox[0-3], not "),
            (["--cores", "2"], "4 cores a host, not 2"),
            (["--speed", "60"], "a clock of speed 1, not 60"),
            (["--conf", "exec.kill-timeout=1s"], "another --conf"),
        ):
            ran = self.dat("sandbox", "up", *options).ended(1)
            self.assert_says(ran, ["it is up already", says, "flux-dat sandbox down"])
        for options in ([], ["--size", "4"], ["-N4"], ["--nodes", "4"], ["--hosts", "sandbox[0-3]", "--cores", "4"]):
            ran = self.dat("sandbox", "up", *options).succeeded()
            self.assertIn("it is up already", ran.err)


class Clock(SandboxTest):
    speed = 86400  # a day in a second
    up_options = ("--speed", str(speed))

    def test_calendar_time_runs_faster(self):
        began = time.time()
        described = self.dat("sandbox", "env", "--json").succeeded().json()
        self.assertEqual(described["speed"], self.speed)
        speed, origin = self.env["FLUX_DAT_SANDBOX_CLOCK"].split("@")
        self.assertEqual(speed, str(self.speed))
        # Three days ahead: pending, until they have passed.
        jobid = self.start("--name", "later", "--begin-time", "+3d", "-t", "5000d")
        job = self.flux().rpc(
            "job-list.list-id", {"id": fluxwire.parse_jobid(jobid), "attrs": ["all"]}
        )["job"]
        self.assertGreaterEqual(job["t_run"] - job["t_submit"], 3 * 86400 - self.speed)
        self.assertAlmostEqual(job["expiration"], job["t_run"] + 5000 * 86400, delta=60)
        # By the clock that the variable describes.
        first, last = (
            float(origin) + (moment - float(origin)) * self.speed for moment in (began, time.time())
        )
        self.assertLess(first, job["t_submit"])
        self.assertLess(job["t_run"], last)
        self.dat("stop", "--dat", "later", "--now").succeeded()
        self.assert_no_dat_left()

    def test_a_window_ends_by_it(self):
        self.start("--name", "short", "-t", "3d", "--no-wait")
        eventually(lambda: self.dats() == [], "three days are over")
        self.assert_no_dat_left()

    def test_another_instance_is_refused(self):
        clock = self.env["FLUX_DAT_SANDBOX_CLOCK"]
        other = clock.replace("@", "@1")
        ran = self.dat("status", env={"FLUX_DAT_SANDBOX_CLOCK": other}).ended(2)
        self.assert_says(ran, [f"is {other}, but the sandbox at", f"has {clock}", "sandbox env"])
        for command in (["status"], ["start"], ["report"]):
            ran = self.dat(*command, env={"FLUX_DAT_SANDBOX_CLOCK": None}).ended(2)
            self.assert_says(ran, ["CLOCK is not set, and the sandbox at", "sandbox env"])
        self.dat("sandbox", "down").succeeded()
        ran = self.dat("sandbox", "up", "--speed", "600").succeeded()
        self.assertIn("600 times as fast: what a DAT takes to end, a real second, is 10m", ran.err)
        self.dat("sandbox", "down").succeeded()
        self.dat("sandbox", "up", "--size", "1").succeeded()
        ran = self.dat("start").ended(2)
        self.assert_says(ran, ["FLUX_DAT_SANDBOX_CLOCK is set, but", "unset it"])
        environment = self.dat("sandbox", "env").succeeded().out
        self.assertIn("unset FLUX_DAT_SANDBOX_CLOCK\n", environment)
        del self.env["FLUX_DAT_SANDBOX_CLOCK"]
        self.assertNotIn("CLOCK", self.dat("sandbox", "env").succeeded().out)
        self.dat("status").succeeded()

    def test_a_variable_that_is_none(self):
        for text in ("600", "@", "0@1", "86401@1", "600@nan", "600@-1", "6e2@1", "600@1x"):
            ran = self.dat("status", env={"FLUX_DAT_SANDBOX_CLOCK": text}).ended(2)
            self.assert_says(ran, ["FLUX_DAT_SANDBOX_CLOCK: expected SPEED@ORIGIN", "unset it"])
        for text in ("0", "86401", "-1", "fast"):
            ran = self.dat("sandbox", "up", "--speed", text).ended(2)
            self.assert_says(ran, "--speed")


class Directory(SandboxTest):
    """What is not the sandbox's is left alone."""

    def setUp(self):
        super().setUp()
        self.dat("sandbox", "down").succeeded()
        self.other = pathlib.Path(self.env["FLUX_DAT_SANDBOX_DIR"])

    def test_somebody_elses_files(self):
        self.run_as_owner("mkdir", "-p", f"{self.other}/run/deep")
        self.run_as_owner("touch", f"{self.other}/run/deep/file", f"{self.other}/log")
        before = self.files_in(self.other), self.other.stat().st_mode
        for command in (["down"], ["up"]):
            ran = self.dat("sandbox", *command).ended(1)
            self.assert_says(
                ran,
                [str(self.other), "is not a sandbox's", "nothing was changed", "FLUX_DAT_SANDBOX_DIR"],
            )
        self.assert_says(self.dat("sandbox", "env").ended(1), "no sandbox is up")
        self.assertEqual((self.files_in(self.other), self.other.stat().st_mode), before)
        self.run_as_owner("rm", "-r", str(self.other))

    def test_an_empty_directory_is_left_and_can_be_used(self):
        self.run_as_owner("mkdir", str(self.other))
        ran = self.dat("sandbox", "down").succeeded()
        self.assertIn("it is not up", ran.err)
        self.assertTrue(self.other.is_dir())
        self.dat("sandbox", "up", "--size", "1").succeeded()
        self.dat("sandbox", "down").succeeded()
        self.assertFalse(self.other.exists())

    def test_after_the_engine_was_killed(self):
        self.dat("sandbox", "up", "--size", "1").succeeded()
        uri = self.dat("sandbox", "env", "--json").succeeded().json()["uri"]
        pid = int(self.flux(uri=uri).rpc("attr.get", {"name": "broker.pid"})["value"])
        os.kill(pid, signal.SIGKILL)
        self.dat("sandbox", "up", "--size", "1").succeeded()
        self.dat("sandbox", "down").succeeded()

    def test_no_room_for_its_files(self):
        # As on a full disk, a part is written first; 0 bytes are too few for the first
        # file, and 60 for the second.
        for most in (0, 60):
            ran = self.dat(
                "sandbox", "up", "--size", "1", restore_signals=False,
                preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            )  # fmt: skip
            # What it says goes to a file, too.
            self.assertIn("cannot write"[:most], ran.ended(1).err)
            self.assertFalse(self.other.exists(), self.files_in(self.home))

    def run_as_owner(self, *command):
        self.background(*command).wait().succeeded()
