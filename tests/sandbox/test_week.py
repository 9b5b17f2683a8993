# SPDX-License-Identifier: LGPL-3.0-or-later
"""A week of windows, with the sandbox's clock sped up and cron on two nodes.

What must be so at every moment is checked, not when something happens: on a busy machine
a command takes hours of that week.
"""

import contextlib
import os
import signal
import threading
import time

from tests.lib import fluxwire
from tests.lib.sandbox import SandboxTest, eventually
from tests.sandbox.test_cron import Witness

SPEED = 7200  # a day is 12 seconds
DAY = 86400
# Every day from 6 to 18, submitted from midnight on.
WINDOW = ["--begin-time", "today 06:00", "-t", "12h", "--early", "6h"]


class Week(SandboxTest):
    up_options = ("--speed", str(SPEED))

    def setUp(self):
        super().setUp()
        self.env["TZ"] = "UTC"
        speed, origin = self.env["FLUX_DAT_SANDBOX_CLOCK"].split("@")
        self.origin = float(origin)
        self.week_over = threading.Event()
        self.problems, self.ids, self.ran = [], set(), {}

    def now(self):
        return self.origin + (time.time() - self.origin) * SPEED

    def caller(self, rank, turn):
        """What cron does on one node, as fast as it goes: turn() again and again."""
        env = {"FLUX_URI": self.env["FLUX_URI"].replace("local-0", f"local-{rank}")}
        try:
            while not self.week_over.is_set():
                turn(env)
        except Exception as problem:  # noqa: BLE001 told by the test's thread
            self.problems.append(problem)

    def lab(self, env):
        ran = self.dat(
            *self.start_arguments("-N2", "--name", "lab", "--if-not-running", "--no-wait", *WINDOW),
            env=env,
        ).succeeded()
        if ran.out:
            self.ids.add(ran.out.strip())
        else:
            assert "nothing is done" in ran.err, ran

    def too_large(self, env):
        """It cannot start, every day again."""
        ran = self.dat(
            *self.start_arguments("-N9", "--name", "large", "--if-not-running", "--quiet", *WINDOW),
            env=env,
        )
        if ran.status != 0:
            assert ran.status == 1 and "unsatisfiable" in ran.err, ran
            assert len(ran.err.splitlines()) == 1, ran
        day = self.now() // DAY
        while self.now() // DAY == day and not self.week_over.wait(0.1):
            pass

    def lab_that_is_ready(self, but):
        for dat in self.dats():
            if (dat["name"], dat["state"]) == ("lab", "ready") and dat["id"] not in but:
                return dat
        return None

    def kill_node(self, dat, rank):
        """That rank's broker; it may be too late for it."""
        with contextlib.suppress(OSError, fluxwire.FluxError, ConnectionError):
            # As whoever runs the tests: setting ids would be for all threads.
            client = fluxwire.Flux(dat["uri"])
            try:
                answer = client.rpc("attr.get", {"name": "broker.pid"}, nodeid=rank)
            finally:
                client.close()
            os.kill(int(answer["value"]), signal.SIGKILL)
            return True
        return False

    def use(self, dat):
        ran = self.dat("run", "--dat", dat["id"], "true")
        if ran.status == 0:
            self.ran[dat["id"]] = self.ran.get(dat["id"], 0) + 1

    def extend(self, dat):
        ran = self.dat("extend", "--dat", dat["id"], "2h")
        return ran.status == 0

    def test_a_week(self):
        witness = Witness(self)
        self.addCleanup(witness.end)
        began = self.now()
        callers = [
            threading.Thread(target=self.caller, args=arguments)
            for arguments in ((0, self.lab), (1, self.lab), (2, self.too_large))
        ]
        for caller in callers:
            caller.start()
        try:
            # In the windows as they come: a job in each; a node dies, the first node
            # dies, one is extended.
            events = [
                lambda dat: self.kill_node(dat, 1),
                lambda dat: self.kill_node(dat, 0),
                self.extend,
            ]
            seen = set()
            # A week, or longer where all that did not come to pass in one.
            while (self.now() < began + 7 * DAY or events) and not self.problems:
                dat = self.lab_that_is_ready(but=seen)
                if not dat:
                    time.sleep(0.05)
                    continue
                seen.add(dat["id"])
                self.use(dat)
                if events and events[0](dat):
                    events.pop(0)
        finally:
            self.week_over.set()
            for caller in callers:
                caller.join()
        self.assertEqual(self.problems, [])
        # The last window, or what was extended, comes to its end.
        eventually(lambda: not self.dats(), "all windows are over")
        witness.end()
        self.assertIsNone(witness.problem)
        self.assertGreater(witness.looks, 0)
        self.assertEqual(witness.doubles, [])

        dats = self.dat("report", "--json", "--since", "60d").succeeded().json()["dats"]
        labs = {dat["id"]: dat for dat in dats if dat["name"] == "lab"}
        self.assertGreater(len(labs), 0)
        self.assertEqual(set(labs), self.ids, "every window is in the report, and no other")
        self.assertTrue(any(dat["name"] == "large" for dat in dats))
        for dat in dats:
            self.assertEqual(dat["state"], "ended")
            if dat["name"] == "large":
                self.assertEqual(dat["missing"], "it never had its nodes")
            elif dat["report"] and dat["report"]["final"]:
                self.assertIsNone(dat["missing"])
                self.assertGreaterEqual(dat["report"]["total"]["jobs"], self.ran.get(dat["id"], 0))
            else:
                self.assertTrue(dat["missing"])
        # One after the other.
        spans = sorted(
            (dat["got"]["begin"], dat["got"]["end"]) for dat in labs.values() if dat["got"]["begin"]
        )
        for (_, end), (begin, _) in zip(spans, spans[1:]):
            self.assertLessEqual(end, begin)

        # What the nodes that died have left is swept by the next one there.
        self.assert_no_process(self.engine)
        self.start("-N4", "--name", "last")
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()
