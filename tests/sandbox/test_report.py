# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat report: what remains of a DAT."""

import csv
import io
import json
import os
import signal
import time

from tests.lib import fluxwire
from tests.lib.sandbox import GUEST, OWNER, OWNER_ID, SandboxTest, eventually, needs_root


class Report(SandboxTest):
    def report(self, *arguments, **options):
        return self.dat("report", *arguments, **options).succeeded()

    def reports(self, *arguments):
        described = self.report("--json", *arguments).json()
        self.assertEqual(described["version"], 1)
        return described["dats"]

    def end(self, jobid, *how):
        self.dat("stop", "--dat", jobid, *how).succeeded()
        self.assert_no_dat_left()

    def test_of_one_that_was_stopped(self):
        jobid = self.start("-N2", "--name", "lab", "-t", "2h")
        self.dat("run", "-N2", "-n2", "-c4", "true").succeeded()
        self.dat("run", "false").ended(1)
        running = self.dat_background("run", "-c2", "sleep", "inf")
        self.running_jobs(1)
        self.cancel_within()
        running.wait()
        self.dat("grant", "bin", "sys").succeeded()
        self.end(jobid)
        [one] = self.reports()
        self.assertEqual(
            (one["id"], one["name"], one["state"], one["owner"], one["userid"], one["nnodes"]),
            (jobid, "lab", "ended", OWNER, OWNER_ID, 2),
        )
        self.assertEqual(one["asked"]["duration"], 7200)
        self.assertGreater(one["got"]["end"], one["got"]["begin"])
        self.assertAlmostEqual(
            one["got"]["duration"], one["got"]["end"] - one["got"]["begin"], places=3
        )
        self.assertIsNone(one["missing"])
        self.assertTrue(one["report"]["final"])
        [user] = one["report"]["users"]
        self.assertEqual((user["userid"], user["user"]), (OWNER_ID, OWNER))
        self.assertEqual((user["jobs"], user["failed"], user["canceled"]), (3, 1, 1))
        self.assertEqual(one["report"]["total"]["jobs"], 3)
        self.assertEqual(len(one["changes"]), 2)
        self.assertEqual(len(one["changes"][1]["granted"]["users"]), 2)

        text = self.report("--dat", "lab").out
        for line in (f"lab {jobid} of {OWNER}, ended", "asked: from", "2h", "changed 1 time (", "total"):
            self.assertIn(line, text)
        self.assertRegex(text, r"USER +JOBS +FAILED +CANCELED +NODE-HOURS +CORE-HOURS")
        self.assertRegex(text, rf"  {OWNER} +3 +1 +1 +0\.00 +0\.0")
        self.assertAlmostEqual(one["got"]["node_seconds"], 2 * one["got"]["duration"], places=3)
        self.assertRegex(text, r"got: .* on 2 nodes, 0\.\d\d node-hours\n")
        [header, row] = csv.reader(io.StringIO(self.report("--csv").out))
        row = dict(zip(header, row, strict=True))
        self.assertEqual((row["name"], row["user"], row["jobs"]), ("lab", OWNER, "3"))
        self.assertEqual((row["asked_hours"], row["missing"]), ("2.00", ""))
        self.assertEqual(
            row["reserved_node_hours"], f'{one["got"]["node_seconds"] / 3600:.2f}'
        )

    def test_of_one_that_was_cancelled(self):
        """From outside, and with a job that runs: there are some seconds for it."""
        jobid = self.start("-N1", "--name", "lab")
        running = self.dat_background("run", "-c2", "sleep", "inf")
        self.running_jobs(1)
        self.cancel(jobid, note="by an administrator")
        running.wait()
        self.assert_no_dat_left()
        [one] = self.reports()
        self.assertIsNone(one["missing"])
        self.assertEqual(one["report"]["total"]["jobs"], 1)
        self.assertEqual(one["exception"], {"type": "cancel", "note": "by an administrator"})
        self.assertIn("ended: cancel: by an administrator", self.report().out)

    def test_of_one_whose_time_was_over(self):
        self.start("-N1", "--name", "lab", "-t", "3s", "--no-wait")
        eventually(lambda: not self.dats(), "it ends")
        self.assert_no_dat_left()
        [one] = self.reports()
        self.assertEqual(one["asked"]["duration"], 3)
        self.assertGreater(one["got"]["duration"], 0)

    def test_of_one_whose_first_rank_crashed(self):
        self.start("-N2", "--name", "lab")
        self.dat("run", "true").succeeded()
        [dat] = self.dats()
        pid = int(self.flux(uri=dat["uri"]).rpc("attr.get", {"name": "broker.pid"})["value"])
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.dats(), "it ends")
        self.assert_no_process(self.engine)
        [one] = self.reports()
        self.assertIsNone(one["report"])
        self.assertIn("left no report", one["missing"])
        self.assertGreater(one["got"]["duration"], 0)
        self.assertIn("missing: its supervisor left no report", self.report().out)
        # Its door stays until the next one comes up there.
        self.start("-N2", "--name", "next")
        self.dat("stop", "--now", "--dat", "next").succeeded()
        self.assert_no_dat_left()

    def test_of_one_that_runs_and_one_that_waits(self):
        self.start("-N4", "--name", "lab")
        self.start("-N4", "--name", "later", "--begin-time", "+1h", "--no-wait")
        first, second = self.reports()
        self.assertEqual((first["name"], first["state"]), ("lab", "ready"))
        self.assertEqual(first["missing"], "it has no report yet")
        self.assertEqual((second["name"], second["state"]), ("later", "pending"))
        self.assertEqual(second["missing"], "it has not begun")
        self.assertAlmostEqual(second["asked"]["begin"] - first["asked"]["begin"], 3600, delta=300)
        self.assertIn("so far", self.report("--dat", "lab").out)
        self.dat("stop", "--now", "--dat", "later").succeeded()
        self.dat("stop", "--now", "--dat", "lab").succeeded()
        self.assertEqual(
            {one["name"]: one["missing"] for one in self.reports()},
            {"lab": None, "later": "it never had its nodes"},
        )

    def test_which_ones(self):
        first = self.start("--name", "lab")
        self.end(first, "--now")
        second = self.start("--name", "other")
        self.end(second, "--now")
        for selector, ids in (("lab", [first]), (second, [second])):
            self.assertEqual([one["id"] for one in self.reports("--dat", selector)], [ids[0]])
        for since in ("1h", "today", "2020-01-01", "1500000000"):
            self.assertEqual([one["id"] for one in self.reports("--since", since)], [first, second])
        self.assertEqual(self.reports("--since", "0s"), [])
        ran = self.report("--since", "0s")
        self.assertEqual(ran.out, "")
        self.assertIn("none ended since", ran.err)
        ran = self.dat("report", "--dat", "nosuch").ended(3)
        self.assert_says(ran, ["nosuch", "--since"])
        for since in ("soon", "+1h", "-1h", ""):
            ran = self.dat("report", "--since", since).ended(2)
            self.assert_says(ran, "--since")
        self.dat("report", "--json", "--csv").ended(2)

    def test_asked_stays_what_was_asked(self):
        """Whatever became of it: extended, begun late, with a begin time in the past."""
        now = time.time()
        self.start("--name", "longer", "-t", "1h")
        self.dat("extend", "30m", "--dat", "longer").succeeded()
        self.start("--name", "past", "-t", "1h", "--begin-time", f"{now - 7200:.0f}")
        self.start(
            "--name", "late", "-t", "4h", "--begin-time", f"{now - 3600:.0f}", "--early", "1h"
        )
        for one in self.reports():
            begin, duration = {
                "longer": (now, 3600), "past": (now, 3600), "late": (now - 3600, 14400),
            }[one["name"]]  # fmt: skip
            self.assertEqual(one["asked"]["duration"], duration, one["name"])
            self.assertAlmostEqual(one["asked"]["begin"], begin, delta=300)
        text = self.report("--dat", "late").out
        self.assertRegex(text, r"asked: from \d{4}-\d\d-\d\d [\d:]+ UTC, 4h00m\n")

    @needs_root
    def test_a_guest_sees_all_but_the_list(self):
        jobid = self.start("--name", "lab")
        self.end(jobid, "--now")
        described = self.dat("report", "--json", user=GUEST).succeeded().json()
        [one] = described["dats"]
        self.assertIsNone(one["changes"])
        self.assertTrue(one["report"]["final"])

    def cancel_within(self):
        [dat] = self.dats()
        inside = self.flux(uri=dat["uri"])
        [job] = inside.rpc(
            "job-list.list",
            {"max_entries": 0, "attrs": ["state"], "constraint": {"states": ["run"]}},
        )["jobs"]
        inside.rpc(
            "job-manager.raise", {"id": job["id"], "type": "cancel", "severity": 0, "note": ""}
        )

    def running_jobs(self, count):
        [dat] = self.dats()
        inside = self.flux(uri=dat["uri"])

        def running():
            jobs = inside.rpc(
                "job-list.list",
                {"max_entries": 0, "attrs": ["state"], "constraint": {"states": ["run"]}},
            )["jobs"]
            return len(jobs) == count

        eventually(running, "the job runs")


class Hourly(SandboxTest):
    """An hour is two seconds."""

    up_options = ("--speed", "1800")

    def test_there_is_one_before_the_end(self):
        jobid = self.start("--name", "lab")
        self.dat("run", "true").succeeded()

        def report():
            [one] = self.dat("report", "--json").succeeded().json()["dats"]
            return one["report"]

        first = eventually(report, "an hour is over")
        self.assertFalse(first["final"])
        self.assertEqual(first["total"]["jobs"], 1)
        # Nothing new: no other one. Then something is.
        self.dat("run", "true").succeeded()
        eventually(lambda: report()["total"]["jobs"] == 2, "an hour later")
        self.assertIn("as of ", self.dat("report").succeeded().out)
        # Of a DAT whose rank 0 crashes now, this remains.
        [dat] = self.dats()
        pid = int(self.flux(uri=dat["uri"]).rpc("attr.get", {"name": "broker.pid"})["value"])
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.dats(), "it ends")
        self.assert_no_process(self.engine)
        [one] = self.dat("report", "--json", "--dat", jobid).succeeded().json()["dats"]
        self.assertEqual(one["report"]["total"]["jobs"], 2)
        self.assertFalse(one["report"]["final"])
        self.assertIn("gone before its end", one["missing"])
        memos = [
            event
            for event in self.flux()
            .rpc("job-info.lookup", {"id": fluxwire.parse_jobid(jobid), "keys": ["eventlog"], "flags": 0})[
                "eventlog"
            ]
            .splitlines()
            if "dat_report" in event
        ]
        # An hour may end while a job runs, and makes a memo of its own.
        totals = [
            sum(user["jobs"] for user in json.loads(memo)["context"]["dat_report"]["users"])
            for memo in memos
        ]
        self.assertEqual(totals, sorted(totals))
        self.assertEqual((totals[0], totals[-1]), (1, 2))
        self.start("--name", "next")
        self.dat("stop", "--now", "--dat", "next").succeeded()
