# SPDX-License-Identifier: LGPL-3.0-or-later
"""The end of a DAT's window: planned, told, and carried out."""

import contextlib
import json
import os
import pathlib
import pwd
import signal
import time

from tests.lib import fluxwire, wireproxy
from tests.lib.sandbox import GUEST, OWNER, OWNER_ID, ROOT, SandboxTest, eventually
from tests.sandbox.test_adopt import AdoptTest

# What the orderly end takes (lib/dat/window.h), in seconds.
MARGIN = 10


class WindowTest(SandboxTest):
    def job(self, jobid):
        """The DAT's job as the parent lists it."""
        return self.flux().rpc(
            "job-list.list-id", {"id": fluxwire.parse_jobid(jobid), "attrs": ["all"]}
        )["job"]

    def record(self, jobid):
        return self.job(jobid)["annotations"]["user"]["dat"]

    def window(self, jobid):
        return self.record(jobid)["window"]

    def inside(self, jobid):
        return self.flux(uri=self.job(jobid)["annotations"]["user"]["uri"])

    def set_duration(self, jobid, seconds):
        """As somebody does with flux update."""
        self.flux().rpc(
            "job-manager.update",
            {
                "id": fluxwire.parse_jobid(jobid),
                "updates": {"attributes.system.duration": float(seconds)},
            },
        )

    def end_in(self, jobid, seconds):
        """Gives the DAT's job a time limit so that it expires in so many seconds."""
        job = self.job(jobid)
        self.set_duration(jobid, time.time() - job["t_run"] + seconds)

    def submit(self, inside, *command, urgency=16):
        """With urgency 0 it is held, and stays pending."""
        spec = fluxwire.jobspec(list(command), nodes=1)
        return inside.submit(spec, userid=OWNER_ID, urgency=urgency)

    def exceptions(self, inside, job):
        log = inside.rpc("job-info.lookup", {"id": job, "keys": ["eventlog"], "flags": 0})
        events = [json.loads(line) for line in log["eventlog"].splitlines()]
        return [
            (event["context"]["type"], event["context"]["severity"], event["context"]["note"])
            for event in events
            if event["name"] == "exception"
        ]

    def assert_ended_by_itself(self, jobid):
        """Not by the parent's timeout."""
        self.flux().wait_event(fluxwire.parse_jobid(jobid), "clean")
        self.assertEqual(self.exceptions(self.flux(), fluxwire.parse_jobid(jobid)), [])
        self.assert_no_dat_left()


class Plan(WindowTest):
    def test_it_is_in_the_record_before_it_happens(self):
        jobid = self.start("-t", "1h", "--warn", "10m,20m", "--close", "5m", "--grace", "1m")
        expires = self.job(jobid)["expiration"]
        window = self.window(jobid)
        self.assertEqual(window["expires"], expires)
        self.assertEqual(window["begin"], self.job(jobid)["t_run"])
        self.assertEqual(window["warn_at"], [expires - 1200, expires - 600])
        self.assertEqual(window["close_at"], expires - 300)
        self.assertEqual(window["term_at"], expires - MARGIN - 60)
        self.assertEqual(window["end_at"], expires - MARGIN)
        self.assertEqual(window["passed_over"], [])
        self.assertEqual((window["warned"], window["closed"], window["termed"]), (0, 0, 0))

    def test_what_the_window_is_too_short_for_is_passed_over(self):
        window = self.window(self.start("-t", "6m"))
        self.assertEqual(window["passed_over"], ["warn 15m"])
        self.assertEqual(len(window["warn_at"]), 1)

    def test_without_a_time_limit_there_is_none(self):
        window = self.window(self.start())
        self.assertEqual((window["expires"], window["end_at"]), (0, 0))
        self.assertEqual((window["warn_at"], window["passed_over"]), ([], []))

    def test_it_follows_whoever_changes_the_time_limit(self):
        jobid = self.start("-t", "1h")
        self.set_duration(jobid, 7200)
        expires = self.job(jobid)["expiration"]
        eventually(lambda: self.window(jobid)["expires"] == expires, "it is seen")
        self.assertEqual(self.window(jobid)["end_at"], expires - MARGIN)
        self.set_duration(jobid, 0)
        eventually(lambda: self.window(jobid)["expires"] == 0, "it has no end any more")

    def test_the_site_has_defaults(self):
        conf = ["--conf", 'dat.warn="20m"', "--conf", 'dat.close="3m"', "--conf", 'dat.grace="7s"']
        window = self.window(self.start("-t", "1h", "--close", "4m", *conf))
        self.assertEqual((window["warn"], window["close"], window["grace"]), ([1200], 240, 7))

    def test_mistakes(self):
        def fails(*options, says):
            self.start_fails(*options, status=2, says=says)

        fails("-t", "1h", "--close", "2h", says=["--close 2h", "time limit of 1h"])
        fails("-t", "1h", "--grace", "2h", says=["--grace 2h", "time limit of 1h"])
        fails("--warn", "soon", says=["--warn", "soon"])
        fails("--warn", "-5m", says=["--warn", "-5m"])
        fails("--warn", ",".join(map(str, range(1, 10))), says=["--warn", "at most 8"])
        fails("--close", "x", says=["--close", "x"])
        fails("--close", "inf", says=["--close", "finite"])
        fails("--grace", "-1", says=["--grace", "-1"])
        fails("--conf", 'dat.warn="x"', says=["dat.warn", "x"])
        fails("--conf", 'dat.grace="x"', says=["dat.grace", "x"])
        fails("--conf", "dat.close=3", says=["dat.close", "must be a string"])


class CarriedOut(WindowTest):
    def test_warned_closed_and_open_again(self):
        jobid = self.start("-t", "1h", "--warn", "50m", "--close", "40m", "--name", "demo")
        inside = self.inside(jobid)
        running = self.submit(inside, "sleep", "600")
        inside.wait_event(running, "start")
        taken = self.submit(inside, "sleep", "600", urgency=0)

        self.end_in(jobid, 50 * 60 + 1)  # what is due before the window began is passed over
        eventually(lambda: self.window(jobid)["warned"], "guests are told")
        [(kind, severity, note)] = self.exceptions(inside, running)
        self.assertEqual((kind, severity), ("dat-warn", 7))
        self.assertRegex(note, r"^this DAT ends in (50m|49\.|3000s|2999s|2998s)")
        self.assertEqual(self.record(jobid)["state"], "ready")
        self.assertEqual(self.exceptions(inside, taken), [])

        self.end_in(jobid, 40 * 60 + 1)
        eventually(lambda: self.window(jobid)["closed"], "it is closed")
        record = self.record(jobid)
        self.assertEqual((record["state"], record["stop_reason"]), ("stopping", "its window ends"))
        rows = self.dat("status", "--dat", jobid).succeeded().out
        self.assertRegex(rows, r"(?m)^state +closed$")
        self.assertEqual(self.dat("status", "-n", "-o", "{state} {status}").out, "stopping closed\n")
        with self.assertRaisesRegex(OSError, "this DAT is closed: its window ends"):
            self.submit(inside, "true")
        pending = self.exceptions(inside, taken)
        self.assertEqual([kind for kind, _, _ in pending], ["dat-close"])
        self.assertIn("no job starts any more", pending[0][2])
        status = inside.rpc("job-manager.queue-status", {})
        self.assertEqual((status["enable"], status["start"]), (False, False))
        self.assertRegex(
            self.exceptions(inside, running)[-1][2], "^the end of this DAT has moved: it ends in (40|39)"
        )

        self.dat("extend", "20m").succeeded()
        eventually(lambda: self.record(jobid)["state"] == "ready", "it is open again")
        status = inside.rpc("job-manager.queue-status", {})
        self.assertEqual((status["enable"], status["start"]), (True, True))
        self.assertEqual(self.window(jobid)["closed"], 0)
        self.submit(inside, "true")
        self.assertRegex(
            self.exceptions(inside, running)[-1][2], "^the end of this DAT has moved: it ends in (60|59|1h)"
        )

    def test_sigterm_grace_and_an_end_of_its_own(self):
        jobid = self.start("-t", "1h", "--warn", "none", "--grace", "20s", "--name", "demo")
        script = 'trap "echo told; exit 3" TERM; echo up; while :; do sleep 0.1; done'
        job = self.dat_background("run", "--dat", "demo", "sh", "-c", script)
        eventually(lambda: "up" in job.stdout(), "the job runs")
        self.end_in(jobid, MARGIN + 15)
        ran = job.wait()
        self.assertIn("told", ran.out)
        # Nothing runs any more, and nothing may start: it does not wait for the rest.
        self.assert_ended_by_itself(jobid)

    def test_a_job_that_takes_no_notice_does_not_outlive_it(self):
        jobid = self.start("-t", "1h", "--warn", "none", "--grace", "1s", "--name", "demo")
        script = 'trap "" TERM; echo up; while :; do sleep 0.1; done'
        job = self.dat_background("run", "--dat", "demo", "sh", "-c", script)
        eventually(lambda: "up" in job.stdout(), "the job runs")
        self.end_in(jobid, MARGIN + 2)
        self.assertNotEqual(job.wait().status, 0)
        self.assert_ended_by_itself(jobid)

    def test_a_worker_that_is_killed_in_the_middle(self):
        jobid = self.start("-t", "1h", "--warn", "50m", "--close", "40m")
        inside = self.inside(jobid)
        job = self.submit(inside, "sleep", "600")
        inside.wait_event(job, "start")
        self.end_in(jobid, 40 * 60 + 1)
        closed = eventually(lambda: self.window(jobid)["closed"], "it is closed")
        [worker] = self.supervisors(worker=True)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: self.supervisors(worker=True) not in ([], [worker]), "it is there again")
        # What was done is not done again; the rest is.
        self.set_duration(jobid, 39 * 60)
        expires = self.job(jobid)["expiration"]
        eventually(lambda: self.window(jobid)["expires"] == expires, "it goes on")
        self.assertEqual(self.window(jobid)["closed"], closed)
        self.assertEqual(inside.rpc("job-manager.queue-status", {})["start"], False)
        self.end_in(jobid, MARGIN + 1)
        self.assert_ended_by_itself(jobid)

    def test_one_that_is_cut_short_past_its_close_closes_at_once(self):
        jobid = self.start("-t", "2h", "--warn", "none", "--close", "1h")
        self.end_in(jobid, 30 * 60)
        window = eventually(
            lambda: self.window(jobid)["closed"] and self.window(jobid), "it is closed"
        )
        self.assertEqual(window["passed_over"], [])
        self.assertGreater(window["cut_short"], window["begin"])
        self.assertEqual(window["close_at"], window["cut_short"])
        self.assertEqual(window["termed"], 0)
        with self.assertRaisesRegex(OSError, "this DAT is closed: its window ends"):
            self.submit(self.inside(jobid), "true")
        self.set_duration(jobid, 7200)
        eventually(lambda: self.record(jobid)["state"] == "ready", "it is open again")
        self.assertEqual(self.window(jobid)["cut_short"], 0)

    def test_named_queues_and_one_that_its_owner_closed(self):
        conf = ["--conf", "queues.batch={}", "--conf", "queues.debug={}"]
        jobid = self.start("-t", "1h", "--close", "40m", *conf)
        inside = self.inside(jobid)
        inside.rpc(
            "job-manager.queue-enable",
            {"name": "debug", "enable": False, "all": False, "reason": "broken"},
        )

        def status():
            return {
                name: inside.rpc("job-manager.queue-status", {"name": name})
                for name in ("batch", "debug")
            }

        self.end_in(jobid, 40 * 60 + 1)
        eventually(lambda: self.window(jobid)["closed"], "it is closed")
        self.assertFalse(status()["batch"]["start"] or status()["debug"]["start"])
        self.assertEqual(status()["debug"]["disable_reason"], "broken")
        [worker] = self.supervisors(worker=True)
        os.kill(worker, signal.SIGKILL)  # a new one starts queues, but not these
        eventually(lambda: self.supervisors(worker=True) not in ([], [worker]), "it is there again")
        self.set_duration(jobid, 40 * 60)
        expires = self.job(jobid)["expiration"]
        eventually(lambda: self.window(jobid)["expires"] == expires, "it goes on")
        self.assertFalse(status()["batch"]["start"])
        self.set_duration(jobid, 3600)
        eventually(lambda: self.record(jobid)["state"] == "ready", "it is open again")
        self.assertTrue(status()["batch"]["enable"] and status()["batch"]["start"])
        self.assertEqual((status()["debug"]["enable"], status()["debug"]["start"]), (False, True))

    def test_a_stop_starts_nothing_that_is_pending(self):
        jobid = self.start()
        inside = self.inside(jobid)
        running = self.submit(inside, "sleep", "600")
        inside.wait_event(running, "start")
        pending = self.submit(inside, "sleep", "600", urgency=0)
        stopping = self.dat_background("stop", "--grace", "1d")
        eventually(lambda: self.exceptions(inside, pending), "it is told")
        self.assertEqual(
            [kind for kind, _, _ in self.exceptions(inside, pending)], ["dat-close"]
        )
        eventually(lambda: self.exceptions(inside, running), "it is told")
        [(kind, severity, note)] = self.exceptions(inside, running)
        self.assertEqual((kind, severity, note), ("dat-stop", 7, "this DAT ends in 1d"))
        self.dat("stop", "--grace", "1ms").succeeded()  # sooner
        stopping.wait().succeeded()
        self.assert_no_dat_left()


class AwayFromTheParent(WindowTest):
    """The supervisor's connection to the parent goes through a man in the middle."""

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(fluxwire.socket_path(self.env["FLUX_URI"]))
        self.real = self.path.with_suffix(".real")
        self.path.rename(self.real)
        self.middle = None
        self.addCleanup(self.restore)
        self.meet()

    def meet(self):
        self.middle = wireproxy.WireProxy(
            self.path, self.real, None, None, pwd.getpwnam(OWNER) if ROOT else None
        )

    def leave(self):
        if self.middle:
            self.middle.close()
            self.path.unlink()
        self.middle = None

    def restore(self):
        self.leave()
        self.real.rename(self.path)

    def flux(self, user=OWNER, uri=None):
        return super().flux(user, uri or f"local://{self.real}")

    @contextlib.contextmanager
    def stopped_worker(self):
        [worker] = self.supervisors(worker=True)
        os.kill(worker, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(worker, signal.SIGCONT)

    def test_what_was_done_meanwhile_is_not_done_again(self):
        jobid = self.start("-t", "1h", "--warn", "none", "--grace", "40m")
        inside = self.inside(jobid)
        script = 'trap "echo told" TERM; echo up; while :; do sleep 0.1; done'
        running = self.submit(inside, "sh", "-c", script)

        def output():
            log = inside.rpc(
                "job-info.lookup", {"id": running, "keys": ["guest.output"], "flags": 0}
            )
            return log["guest.output"]

        inside.wait_event(running, "start")
        eventually(lambda: "up" in output(), "it runs")
        pending = self.submit(inside, "sleep", "600", urgency=0)
        # It learns when the end is, and then is away.
        self.middle.awaited = b"resource-update"
        with self.stopped_worker():
            self.end_in(jobid, 40 * 60 + MARGIN + 1)
            eventually(lambda: self.middle.passed, "it has been told")
            self.leave()
        eventually(lambda: self.exceptions(inside, pending), "it is closed")
        eventually(lambda: "told" in output(), "SIGTERM has come")
        self.assertEqual(self.window(jobid)["closed"], 0)
        self.meet()
        eventually(lambda: self.window(jobid)["termed"], "it is back")
        self.assertEqual(self.record(jobid)["state"], "stopping")
        self.assertEqual(
            [kind for kind, _, _ in self.exceptions(inside, pending)], ["dat-close"]
        )
        self.assertEqual(output().count("told"), 1)
        self.dat("grant", GUEST).succeeded()


class Adopted(WindowTest, AdoptTest):
    def test_it_has_a_window_too(self):
        jobid = self.by_hand()
        self.set_duration(jobid, 3600)
        self.dat("adopt", jobid, "--warn", "20m", "--grace", "2s").succeeded()
        window = self.window(jobid)
        expires = self.job(jobid)["expiration"]
        self.assertEqual((window["warn_at"], window["end_at"]), ([expires - 1200], expires - MARGIN))
        inside = self.inside(jobid)
        job = self.submit(inside, "sleep", "600")
        inside.wait_event(job, "start")
        self.end_in(jobid, 1201)
        eventually(lambda: self.window(jobid)["warned"], "guests are told")
        self.end_in(jobid, MARGIN + 1)
        self.flux().wait_event(fluxwire.parse_jobid(jobid), "clean")
        [(kind, _, note)] = self.exceptions(self.flux(), fluxwire.parse_jobid(jobid))
        self.assertEqual((kind, note), ("cancel", "its window is over"))

    def test_undo_takes_no_window(self):
        ran = self.dat("adopt", "--undo", "ƒ1", "--grace", "2s").ended(2)
        self.assert_says(ran, ["--undo", "--grace"])
