# SPDX-License-Identifier: LGPL-3.0-or-later
"""What ends a `start` from outside on a real Flux, at many moments of it.

The moments are the messages that the broker sends; see wireproxy.py. The sandbox's test
of the same name takes each of them, here it is every third, as a start takes a second.
"""

import os
import queue
import signal

from tests.lib.realflux import (
    GUEST,
    STRANGER,
    FluxTest,
    Instance,
    eventually,
    needs_flux,
    processes_of,
)

MOMENTS_MAX = 200  # messages; a start has a few dozen
STEP = 3


@needs_flux
class Interrupted(FluxTest):
    def interrupted(self, signum, first):
        reached = 0
        for moment in range(first, MOMENTS_MAX, STEP):
            with self.subTest(moment=moment):
                there = queue.SimpleQueue()  # the process, as soon as we have it
                proxy = self.proxy(
                    moment, lambda there=there: there.get().signal(signum) and None
                )
                running = self.dat_background(
                    *self.start_arguments("-N2", "--name", "demo"),
                    env={"FLUX_URI": proxy.uri},
                )
                there.put(running)
                ran = running.wait()
                proxy.close()
                self.assertIsNone(proxy.problem)
                if not proxy.acted:
                    ran.succeeded()
                    self.assertGreater(reached, 2, "it was hardly ever interrupted")
                    return
                reached += 1
                if ran.status == 0:
                    # It was done, and only had to say so.
                    self.assertEqual([dat["state"] for dat in self.dats()], ["ready"])
                    self.dat("stop", "--now").succeeded()
                else:
                    self.assertEqual(ran.status, 1, ran)
                    self.assert_says(ran, signal.Signals(signum).name)
                    self.assertEqual(ran.out, "")
                self.assertEqual(self.active_jobs(), [], "its job has ended when it has")
                self.assert_no_dat_left()
        self.fail(f"not done after {MOMENTS_MAX} messages")

    def test_sigint(self):
        self.interrupted(signal.SIGINT, 1)

    def test_sigterm(self):
        self.interrupted(signal.SIGTERM, 2)

    def test_sighup(self):
        self.interrupted(signal.SIGHUP, 3)


@needs_flux
class OwnProcessesDie(FluxTest):
    def test_start_killed_while_waiting_leaves_a_dat_that_can_be_stopped(self):
        running = self.dat_background(*self.start_arguments("--urgency", "hold"))
        eventually(self.dats, "it is submitted")
        running.signal(signal.SIGKILL).wait()
        self.dat("stop").succeeded()
        self.assert_no_dat_left()

    def workers(self):
        """The supervisors' inner processes."""
        return [
            pid
            for pid, words in processes_of(self.installed.program).items()
            if "supervise" in words and "--worker" in words
        ]

    def test_a_supervisor_killed_does_not_end_the_dat(self):
        jobid = self.start("-N2")
        [worker] = self.workers()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: self.workers() not in ([], [worker]), "there is another one")
        self.assertEqual([dat["id"] for dat in self.dats()], [jobid])
        self.dat("stop").succeeded()
        self.assert_no_dat_left()

    def broker(self, rank):
        """The process id of a rank's broker, which has its door on its command line."""
        [pid] = [
            int(entry)
            for entry in os.listdir("/proc")
            if entry.isdigit()
            and f"local-uri=local://{self.doors}/".encode() in command_line(entry)
            and f".{rank}/local".encode() in command_line(entry)
        ]
        return pid

    def test_the_first_broker_killed_ends_the_dat(self):
        jobid = self.start("-N2")
        os.kill(self.broker(0), signal.SIGKILL)
        eventually(lambda: not self.active_jobs(), "the job has ended")
        self.assertEqual(self.dats(), [])
        self.assert_no_dat_left()
        self.dat("stop", "--dat", jobid).succeeded()

    def test_another_broker_killed_does_not_end_the_dat(self):
        jobid = self.start("-N2", "--user", GUEST)
        os.kill(self.broker(1), signal.SIGKILL)
        eventually(lambda: len(list(self.doors.iterdir())) == 1, "the rank's door is gone")
        ran = self.run_in(jobid, "-n1", "id", "-un", user=GUEST)
        self.assertEqual(ran.succeeded().out, f"{GUEST}\n")
        # The list tells without being asked for this one, and to everybody.
        eventually(lambda: self.dats()[0]["ranks_up"] == 1, "the list says so")
        [dat] = self.dats(user=STRANGER)
        self.assertEqual((dat["id"], dat["state"], dat["nnodes"]), (jobid, "ready", 2))
        self.assertIn("ready (1/2 ranks up)", self.dat("status").succeeded().out)
        # A new supervisor knows it, too.
        [worker] = self.workers()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: self.workers() not in ([], [worker]), "there is another one")
        self.dat("status", "--dat", jobid).succeeded()
        self.assertEqual(self.dats()[0]["ranks_up"], 1)
        self.dat("stop").succeeded()
        self.assert_no_dat_left()


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


@needs_flux
class InstanceDies(FluxTest):
    """The parent is killed while a start runs, and another one takes its place."""

    size = 2

    def test_at_some_moments(self):
        for moment in (1, 4, 9, 15):
            with self.subTest(moment=moment):
                proxy = self.proxy(moment, self.instance.kill)
                ran = self.dat(
                    *self.start_arguments("-N2"), env={"FLUX_URI": proxy.uri}
                )
                proxy.close()
                if not proxy.acted:
                    ran.succeeded()
                    break
                self.assertEqual(ran.status, 1, ran)
                self.assert_says(ran, "connection")
                self.assert_no_process(set())
                self.instance.end()
                type(self).instance = Instance(self.size)
                self.env.update(FLUX_URI=self.instance.uri, TMPDIR=str(self.instance.tmp))
                # What the dead left is swept by the next DAT that comes up there.
                self.start("-N2")
                self.dat("stop", "--now").succeeded()
                self.assertEqual(self.files_in(self.doors), [])
