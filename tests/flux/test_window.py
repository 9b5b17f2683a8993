# SPDX-License-Identifier: LGPL-3.0-or-later
"""The end of a DAT's window on a real Flux, whose own tools agree at each step."""

import time

from tests.lib.realflux import (
    GUEST,
    SECOND_OWNER,
    FluxTest,
    eventually,
    fluxwire,
    needs_flux,
    needs_second_owner,
)

MARGIN = 10  # seconds, lib/dat/window.h

STUBBORN = 'trap "" TERM HUP ALRM; echo up; while :; do sleep 0.2; done'


class WindowTest(FluxTest):
    def job(self, jobid):
        return self.flux().rpc(
            "job-list.list-id", {"id": fluxwire.parse_jobid(jobid), "attrs": ["all"]}
        )["job"]

    def window(self, jobid):
        return self.job(jobid)["annotations"]["user"]["dat"]["window"]

    def update(self, jobid, duration):
        """Somebody uses Flux's own tool."""
        self.run_flux("update", jobid, f"duration={duration:.3f}s").succeeded()

    def end_in(self, jobid, seconds):
        self.update(jobid, time.time() - self.job(jobid)["t_run"] + seconds)

    def inside(self, jobid, *arguments, user=GUEST):
        return self.run_flux("proxy", jobid, "flux", *arguments, user=user)

    def exceptions(self, jobid, job=None):
        """(type, severity, note) of a job's exceptions: of the DAT's, or of one in it."""
        if job:
            log = self.inside(jobid, "job", "eventlog", "--format=json", job, user=self.owner)
            events = [fluxwire.json.loads(line) for line in log.succeeded().out.splitlines()]
            events = [(event["name"], event.get("context", {})) for event in events]
        else:
            events = self.eventlog(jobid)
        return [
            (context["type"], context["severity"], context["note"])
            for name, context in events
            if name == "exception"
        ]


@needs_flux
class Window(WindowTest):
    def test_from_begin_to_end(self):
        begin = time.time() + 2
        jobid = self.start(
            "-N2", "--user", GUEST, "--begin-time", f"{begin:.0f}", "-t", "1h", "--warn", "50m",
            "--close", "40m", "--grace", "2s", "--name", "demo",
        )  # fmt: skip
        self.assertGreaterEqual(self.job(jobid)["t_run"], int(begin))
        expires = self.job(jobid)["expiration"]
        window = self.window(jobid)
        self.assertEqual((window["expires"], window["end_at"]), (expires, expires - MARGIN))
        queue = self.inside(jobid, "queue", "status", user=self.owner).succeeded().out
        self.assertIn("Job submission is enabled", queue)
        script = self.place / "stubborn"  # flux proxy loses quotes
        script.write_text(STUBBORN)
        job = self.inside(jobid, "submit", "-N1", "sh", str(script)).succeeded().out.strip()
        self.inside(jobid, "job", "wait-event", job, "start").succeeded()

        # Warned
        self.end_in(jobid, 50 * 60 + 1)
        eventually(lambda: self.window(jobid)["warned"], "guests are told")
        [(kind, severity, note)] = self.exceptions(jobid, job)
        self.assertEqual((kind, severity), ("dat-warn", 7))
        self.assertRegex(note, r"^this DAT ends in (50m|49\.|3000s|299)")

        # Closed
        blocked = self.inside(jobid, "submit", "-N2", "--exclusive", "true").succeeded().out.strip()
        self.end_in(jobid, 40 * 60 + 1)
        eventually(lambda: self.window(jobid)["closed"], "it is closed")
        [dat] = self.dats()
        self.assertEqual(dat["state"], "stopping")
        queue = self.inside(jobid, "queue", "status", user=self.owner).succeeded().out
        self.assertIn("Job submission is disabled: this DAT is closed: its window ends", queue)
        self.assertIn("Scheduling is stopped: this DAT is closed: its window ends", queue)
        refused = self.inside(jobid, "submit", "true")
        self.assertNotEqual(refused.status, 0)
        self.assertIn("this DAT is closed", refused.err)
        states = self.inside(jobid, "jobs", "-no", "{id}:{state}").succeeded().out
        self.assertIn(f"{job}:RUN", states)
        self.assertIn(f"{blocked}:SCHED", states)
        self.assertEqual([kind for kind, _, _ in self.exceptions(jobid, blocked)], ["dat-close"])

        # Extended: open again
        self.dat("extend", "30m", "--dat", "demo").succeeded()
        eventually(lambda: self.dats()[0]["state"] == "ready", "it is open again")
        expires = self.job(jobid)["expiration"]
        listed = self.run_flux("jobs", "-no", "{expiration}", jobid).succeeded().out
        self.assertAlmostEqual(float(listed), expires, delta=0.01)
        self.assertEqual(self.dats()[0]["expiration"], expires)
        queue = self.inside(jobid, "queue", "status", user=self.owner).succeeded().out
        self.assertIn("Job submission is enabled", queue)
        self.assertIn("Scheduling is started", queue)

        # Over: with a job that takes no notice of SIGTERM.
        self.end_in(jobid, MARGIN + 6)
        expires = self.job(jobid)["expiration"]
        self.flux().wait_event(fluxwire.parse_jobid(jobid), "clean")
        self.assertEqual(self.exceptions(jobid), [])
        self.assertLess(self.job(jobid)["t_inactive"], expires)
        self.assert_no_dat_left()

    def test_extend_of_a_pending_one(self):
        jobid = self.start("--no-wait", "--begin-time", "+1h", "-t", "1h")
        self.dat("extend", "1h").succeeded()
        self.assertEqual(self.job(jobid)["duration"], 7200)

    def test_extend_without_a_time_limit(self):
        self.start("--no-wait", "--begin-time", "+1h")
        self.assert_says(self.dat("extend", "1h").ended(1), "no time limit")

    def test_extend_by_a_guest(self):
        self.start("-t", "1h", "--no-wait", "--user", GUEST)
        self.assert_says(self.dat("extend", "1h", user=GUEST).ended(7), "only its owner")


@needs_flux
@needs_second_owner
class OfAGuest(WindowTest):
    configuration = '[policy.limits]\nduration = "2h"\n'

    def setUp(self):
        super().setUp()
        self.owner = SECOND_OWNER

    def flux(self, user=None, uri=None):
        return super().flux(user or self.owner, uri)

    def test_extend_within_the_limits_while_it_is_pending(self):
        jobid = self.start("--no-wait", "--begin-time", "+1h", "-t", "1h")
        self.dat("extend", "30m").succeeded()
        ran = self.dat("extend", "1h").ended(1)
        self.assert_says(ran, "requested duration (2.5h) exceeds policy limit of 2h")
        self.assertEqual(self.job(jobid)["duration"], 5400)

    def test_extend_a_running_one_is_for_the_instances_owner(self):
        jobid = self.start("-t", "1h")
        ran = self.dat("extend", "30m").ended(7)
        self.assert_says(ran, ["requires instance owner privileges", "flux update"])
        self.assertEqual(self.job(jobid)["duration"], 3600)
