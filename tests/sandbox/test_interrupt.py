# SPDX-License-Identifier: LGPL-3.0-or-later
"""What ends a `start` from outside, at every moment of it.

The moments are the messages that the broker sends to it; see wireproxy.py.
"""

import contextlib
import os
import queue
import signal

from tests.lib.sandbox import SandboxTest, eventually, processes_of

MOMENTS_MAX = 200  # messages; a start has a few dozen


@contextlib.contextmanager
def at(moment):
    """Says in a failure at which moment it was. The moments after it are not tried: they
    would find what this one left."""
    try:
        yield
    except AssertionError as failure:
        raise AssertionError(f"at message {moment}: {failure}") from failure


class Interrupt(SandboxTest):
    def at_each_moment(self, act, check, *arguments, step=1):
        """Runs start with `act(running)` at its first moment, its second, ... until it
        is done before that moment comes; calls check(ran) on each that was reached."""
        for moment in range(1, MOMENTS_MAX, step):
            with at(moment):
                there = queue.SimpleQueue()  # the process, as soon as we have it
                proxy = self.proxy(moment, lambda there=there: act(there.get()))
                running = self.dat_background(
                    *self.start_arguments("-N2", "--name", "demo", *arguments),
                    env={"FLUX_URI": proxy.uri},
                )
                there.put(running)
                ran = running.wait()
                proxy.close()
                self.assertIsNone(proxy.problem)
                if not proxy.acted:
                    ran.succeeded()
                    self.assertGreater(moment, 3, "it was never interrupted")
                    self.dat("stop", "--now").succeeded()
                    return
                check(ran)
        self.fail(f"not done after {MOMENTS_MAX} messages")

    def interrupted(self, signum, step):
        def check(ran):
            name = signal.Signals(signum).name
            if ran.status == 0:
                # It was done, and only had to say so.
                self.assertEqual([dat["state"] for dat in self.dats()], ["ready"])
                self.dat("stop", "--now").succeeded()
            else:
                self.assertEqual(ran.status, 1, ran)
                self.assert_says(ran, name)
                self.assertEqual(ran.out, "")
            self.assert_no_dat_left()

        self.at_each_moment(lambda running: running.signal(signum), check, step=step)

    def test_sigint_at_any_moment(self):
        self.interrupted(signal.SIGINT, 1)

    def test_sigterm(self):
        self.interrupted(signal.SIGTERM, 3)

    def test_sighup(self):
        self.interrupted(signal.SIGHUP, 3)

    def test_sigint_while_it_waits_for_its_begin_time(self):
        running = self.dat_background(
            *self.start_arguments("--begin-time", "+1h", "--verbose")
        ).says("submitted")
        ran = running.signal(signal.SIGINT).wait().ended(1)
        self.assertRegex(ran.err, r"interrupted by SIGINT; its job ƒ\w+ was cancelled\n\Z")
        self.assert_no_dat_left()


class ConnectionLost(SandboxTest):
    def settled(self):
        """The DATs, when each job that was submitted has become one, or has ended: what
        was on its way when the connection broke may still come."""

        def jobs():
            answer = self.flux().rpc(
                "job-list.list",
                {"max_entries": 0, "attrs": ["state"], "constraint": {"states": ["active"]}},
            )
            return len(answer["jobs"])

        return eventually(
            lambda: [dats] if len(dats := self.dats()) == jobs() else None,
            "every job is a DAT",
        )[0]

    def test_at_any_moment(self):
        """The connection breaks and the instance lives on: what cannot be undone is
        named, and can be stopped."""
        for moment in range(1, MOMENTS_MAX):
            with at(moment):
                proxy = self.proxy(moment, lambda: False)
                ran = self.dat(
                    *self.start_arguments("-N2"), env={"FLUX_URI": proxy.uri}
                )
                proxy.close()
                dats = self.settled()
                if ran.status == 0:
                    # What was lost was not needed any more.
                    self.assertEqual([dat["state"] for dat in dats], ["ready"])
                else:
                    self.assertEqual(ran.status, 1, ran)
                    # Which job it is cannot be known when the answer to its submission
                    # was lost.
                    known = ["flux-dat status"] if "submitted all" in ran.err else [
                        dat["id"] for dat in dats
                    ]
                    self.assert_says(ran, ["connection", *known])
                for dat in dats:
                    self.dat("stop", "--now", "--dat", dat["id"]).succeeded()
                self.assert_no_dat_left()
                if not proxy.acted:
                    ran.succeeded()
                    return
        self.fail(f"not done after {MOMENTS_MAX} messages")


class BrokerDies(SandboxTest):
    """The sandbox's own process is killed while a start runs."""

    def test_at_some_moments(self):
        for moment in (1, 3, 5, 8, 12, 16):
            with at(moment):
                def kill():
                    for pid in self.engine:
                        os.kill(pid, signal.SIGKILL)

                proxy = self.proxy(moment, kill)
                ran = self.dat(*self.start_arguments("-N2"), env={"FLUX_URI": proxy.uri})
                proxy.close()
                if not proxy.acted:
                    ran.succeeded()
                    break
                if ran.status != 0:  # else what it lost it needed no more
                    self.assertEqual(ran.status, 1, ran)
                    self.assert_says(ran, "connection")
                # The DAT's own processes notice, and end.
                self.assert_no_process(set())
                self.sandbox_is_up = False
                self.up()
                self.assertEqual(self.dats(), [])
                # What the dead left is swept by the next DAT that comes up there.
                self.start("-N2")
                self.dat("stop", "--now").succeeded()
                self.assert_no_dat_left()


class Killed(SandboxTest):
    def test_start_killed_while_waiting_leaves_a_dat_that_can_be_stopped(self):
        running = self.dat_background(
            *self.start_arguments("--begin-time", "+1h", "--verbose")
        ).says("submitted")
        running.signal(signal.SIGKILL).wait()
        self.dat("stop").succeeded()
        self.assert_no_dat_left()

    def test_a_supervisor_killed_does_not_end_the_dat(self):
        self.start("-N1")
        supervisors = [
            pid
            for pid, words in processes_of(self.installed.program).items()
            if "--worker" in words
        ]
        self.assertEqual(len(supervisors), 1)
        os.kill(supervisors[0], signal.SIGKILL)
        self.assertEqual([dat["state"] for dat in self.dats()], ["ready"])
        self.dat("stop").succeeded()
        self.assert_no_dat_left()
