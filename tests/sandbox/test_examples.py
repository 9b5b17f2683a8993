# SPDX-License-Identifier: LGPL-3.0-or-later
"""The examples under templates/, as they stand: but for names of accounts that only their
site has, and at another time of the day, which is a matter of the time zone."""

import pathlib
import re
import shlex
import shutil
import subprocess
import time
import unittest

from tests.lib.sandbox import STRANGER, SandboxTest

TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "templates"
SERVICE = TEMPLATES / "systemd/flux-dat-beamline.service"
TIMER = TEMPLATES / "systemd/flux-dat-beamline.timer"


def zone_where_it_is(hour):
    """A TZ in which it is now half past this hour."""
    minutes = int(time.time()) // 60 % 1440 - (hour * 60 + 30)
    if minutes < -720:  # zones are half a day, no more
        minutes += 1440
    sign = "-" if minutes < 0 else ""
    return f"XXX{sign}{abs(minutes) // 60}:{abs(minutes) % 60:02}"


def crontab_commands():
    lines = (TEMPLATES / "crontab").read_text().splitlines()
    return [line.split(None, 5)[5] for line in lines if re.match(r"[0-9*]", line)]


def service_commands():
    return re.findall(r"^ExecStart=(.*)$", SERVICE.read_text(), re.MULTILINE)


class Window(SandboxTest):
    size = 16

    def call(self, command, hour):
        """As cron and systemd do: no HOME, a few variables, no terminal."""
        words = shlex.split(command)
        self.assertEqual(words[0], "flux-dat")
        for option, account in (("--group", "mail"), ("--manager", STRANGER)):
            words[words.index(option) + 1] = account
        return self.dat(
            *words[1:], "--door-dir", str(self.doors),
            env={"HOME": None, "TZ": zone_where_it_is(hour)},
        ).succeeded()  # fmt: skip

    def assert_window(self, command):
        for hour, state in ((13, None), (17, "pending"), (17, "pending"), (20, "pending")):
            with self.subTest(hour=hour):
                ran = self.call(command, hour)
                self.assertEqual((ran.out, ran.err), ("", ""))
                self.assertEqual([dat["state"] for dat in self.dats()], [state] if state else [])
        [dat] = self.dats()
        self.assertEqual((dat["name"], dat["nnodes"], dat["duration"]), ("beamline", 16, 43200))
        self.dat("stop", "--now").succeeded()

    def test_crontab(self):
        self.assert_window(crontab_commands()[0])

    def test_crontab_when_the_first_calls_failed(self):
        self.call(crontab_commands()[0], 20)
        [dat] = self.dats()
        self.assertEqual(dat["nnodes"], 16)
        self.assertTrue(34100 < dat["duration"] <= 34200, dat)  # until 06:00

    def test_systemd(self):
        for command in service_commands():
            self.call(command, 13)
        self.assertEqual(self.dats(), [], "yesterday's is over, and today's not yet due")
        self.assert_window(service_commands()[0])

    def test_after_midnight(self):
        for commands in (crontab_commands()[:2], service_commands()):
            # The calls of the evening failed; the one of the new day is too early.
            self.call(commands[0], 1)
            self.assertEqual(self.dats(), [])
            for _ in range(2):
                ran = self.call(commands[1], 1)
                self.assertEqual((ran.out, ran.err), ("", ""))
            [dat] = self.dats()
            self.assertTrue(16100 < dat["duration"] <= 16200, dat)  # until 06:00
            self.dat("stop", "--now").succeeded()

    def test_check_and_report(self):
        _, _, check, report = crontab_commands()
        self.dat(*shlex.split(report)[1:]).succeeded()
        self.assertEqual(self.call(check, 12).out, "")
        self.assertEqual(check.replace(" check ", " start "), crontab_commands()[0])

    def test_both_ask_for_the_same(self):
        self.assertEqual(crontab_commands()[:2], service_commands())


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd here")
class Units(unittest.TestCase):
    def test_the_calendar(self):
        times = re.findall(r"^OnCalendar=(.*)$", TIMER.read_text(), re.MULTILINE)
        for when, day in zip(times, ("Fri", "Sat"), strict=True):
            ran = subprocess.run(
                ["systemd-analyze", "calendar", when],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(ran.returncode, 0, ran.stdout)
            self.assertIn(day, ran.stdout)
