# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat start as cron runs it: unattended, over and over, from several nodes at once."""

import datetime
import signal
import threading
import time

from tests.lib import fluxwire
from tests.lib.sandbox import GUEST, OWNER, ROOT, SandboxTest, eventually


class Witness:
    """Looks at the DATs all the time, and keeps every moment at which a name was there
    twice."""

    def __init__(self, test):
        self.client = fluxwire.Flux(test.env["FLUX_URI"])
        self.doubles, self.looks, self.problem = [], 0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def names(self):
        jobs = self.client.rpc(
            "job-list.list",
            {
                "max_entries": 0,
                "attrs": ["annotations", "state"],
                "constraint": {"states": ["active"]},
            },
        )["jobs"]
        records = [
            (job["id"], job["state"], job.get("annotations", {}).get("user", {}).get("dat"))
            for job in jobs
        ]
        return [(record["name"], jobid, state) for jobid, state, record in records if record]

    def look(self):
        try:
            while not self.stopping.is_set():
                there = self.names()
                self.looks += 1
                if len({name for name, *_ in there}) < len(there):
                    self.doubles.append(there)
        except Exception as problem:  # noqa: BLE001 told by the test's thread
            self.problem = problem

    def end(self):
        self.stopping.set()
        self.thread.join()
        self.client.close()


class Cron(SandboxTest):
    def witness(self):
        witness = Witness(self)
        self.addCleanup(witness.end)
        return witness

    def assert_never_two(self, witness):
        witness.end()
        self.assertIsNone(witness.problem)
        self.assertGreater(witness.looks, 0)
        self.assertEqual(witness.doubles, [])

    def at_node(self, rank):
        return {"FLUX_URI": self.env["FLUX_URI"].replace("local-0", f"local-{rank}")}

    def many(self, count, *arguments):
        """So many starts at once, from all nodes in turn."""
        return [
            self.dat_background(
                *self.start_arguments("--if-not-running", *arguments),
                env=self.at_node(one % self.size),
            )
            for one in range(count)
        ]


class AtOnce(Cron):
    def test_twenty(self):
        witness = self.witness()
        ended = [one.wait().succeeded() for one in self.many(20, "--name", "lab")]
        self.assertEqual(len({ran.out for ran in ended}), 1, list(map(str, ended)))
        [dat] = self.dats()
        self.assertEqual(dat["id"], ended[0].out.strip())
        self.assert_never_two(witness)
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()

    def test_while_it_is_pending(self):
        jobid = self.start("--name", "lab", "--begin-time", "+1h", "--no-wait")
        ended = [one.wait().succeeded() for one in self.many(8, "--name", "lab")]
        self.assertEqual({ran.out.strip() for ran in ended}, {jobid})
        self.assertEqual([dat["id"] for dat in self.dats()], [jobid])
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()

    def test_while_it_ends(self):
        witness = self.witness()
        jobid = self.start("--name", "lab")
        for _ in range(3):
            stop = self.dat_background("stop", "--now", "--dat", jobid)
            ids = {jobid}
            while stop.process.poll() is None:
                ids |= {
                    one.wait().succeeded().out.strip() for one in self.many(4, "--name", "lab")
                }
            stop.wait().succeeded()
            self.assertLessEqual(len(ids), 2, "the old one, and one after it")
            jobid = self.start("--name", "lab", "--if-not-running")
            self.assertEqual([dat["id"] for dat in self.dats()], [jobid])
        self.assert_never_two(witness)
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()

    def test_after_a_start_that_was_killed(self):
        """At each of its moments; what it has submitted then, counts or is gone."""
        for moment in range(2, 200, 2):
            there = threading.Event()
            running = []

            def kill(running=running, there=there):
                there.wait()
                running[0].signal(signal.SIGKILL)

            proxy = self.proxy(moment, kill)
            running.append(
                self.dat_background(
                    *self.start_arguments("--name", "lab", "--begin-time", "+1h", "--no-wait"),
                    env={"FLUX_URI": proxy.uri},
                )
            )
            there.set()
            ran = running[0].wait()
            proxy.close()
            if not proxy.acted:
                ran.succeeded()
                self.assertGreater(moment, 3)
                break
            # One that was killed between submitting and recording is waited for.
            later = self.dat(
                *self.start_arguments("--name", "lab", "--if-not-running", "--no-wait")
            ).succeeded()
            active = self.flux().rpc(
                "job-list.list",
                {"max_entries": 0, "attrs": ["name"], "constraint": {"states": ["active"]}},
            )["jobs"]
            self.assertEqual([job["id"] for job in active], [fluxwire.parse_jobid(later.out.strip())])
            self.cancel(later.out.strip())
            eventually(lambda: not self.dats(), "it is gone")
            self.assert_no_dat_left()
        else:
            self.fail("no start was done before its moment came")
        self.dat("stop", "--now").succeeded()

    def test_names_are_told_apart_by_case(self):
        first = self.start("--name", "lab")
        ran = self.dat(*self.start_arguments("--name", "Lab")).succeeded()
        self.assertIn('you have a DAT named "lab", too', ran.err)
        self.assertIn("told apart by case", ran.err)
        self.assertEqual(self.start("--name", "lab", "--if-not-running"), first)
        self.assertEqual(self.start("--name", "Lab", "--if-not-running"), ran.out.strip())
        self.assert_says(self.dat("status", "--dat", "LAB").ended(3), ["LAB", "lab", "Lab"])
        self.dat("stop", "--now", "--dat", "lab").succeeded()
        self.assertEqual([dat["name"] for dat in self.dats()], ["Lab"])
        self.dat("stop", "--now", "--dat", "Lab").succeeded()


class Bare(Cron):
    """No terminal, no HOME, a minimal PATH, an odd umask."""

    environment = {"HOME": None, "LC_ALL": None, "TMPDIR": None, "PATH": "/usr/bin:/bin"}

    def cron(self, *arguments, env=None, **options):
        return self.dat(
            *self.start_arguments(*arguments),
            env={**self.environment, **(env or {})},
            start_new_session=True,
            umask=0o077,
            **options,
        )

    def test_it_comes_up_and_guests_get_in(self):
        guest = GUEST if ROOT else OWNER
        options = ["--user", guest] if ROOT else []
        ran = self.cron("-N2", "--name", "lab", "--if-not-running", *options).succeeded()
        self.assertNotIn("\n", ran.err.strip(), "a warning of the IMP's mode, at most")
        self.assertRegex(ran.out, r"\Af[1-9A-HJ-NP-Za-km-z]+\n\Z", "in ASCII: the locale is C")
        [dat] = self.dats()
        self.assertEqual(dat["state"], "ready")
        self.assertEqual(fluxwire.parse_jobid(ran.out.strip()), dat["jobid"])
        client = self.flux(user=guest, uri=dat["uri"])
        self.assertEqual(client.rpc("attr.get", {"name": "size"})["value"], "2")
        self.dat("stop", "--now").succeeded()

    def test_a_quiet_success_has_no_output(self):
        for _ in range(2):
            ran = self.cron("--name", "lab", "--if-not-running", "--quiet").succeeded()
            self.assertEqual((ran.out, ran.err), ("", ""))
        self.assertEqual(len(self.dats()), 1)
        [line] = self.cron("--name", "lab", "--if-not-running", "--quiet", "--json").out.splitlines()
        self.assertIn('"already":true', line)
        self.dat("stop", "--now").succeeded()

    def test_a_failure_is_one_line_of_ascii(self):
        jobid = self.start("-N4", "--name", "lab", "--manager", OWNER if not ROOT else GUEST)
        for arguments, status, says in (
            (["--name", "lab"], 1, "you have a DAT named"),
            (["--name", "more", "-N5"], 1, "unsatisfiable"),
            (["--name", "other", "--timeout", "0.2s", "--cancel-on-timeout"], 5, "cancelled"),
            (["--name", "other", "--begin-time", "25:00"], 2, "no begin time"),
        ):
            ran = self.cron("--if-not-running" if arguments[1] != "lab" else "--quiet",
                            "--quiet" if arguments[1] != "lab" else "--no-wait", *arguments)  # fmt: skip
            ran.ended(status)
            self.assertEqual(ran.out, "")
            [line] = ran.err.splitlines()
            self.assertTrue(line.isascii(), line)
            self.assertIn(says, line)
        ran = self.cron("--name", "x", env={"FLUX_URI": "local:///nowhere"}).ended(1)
        self.assertEqual(len(ran.err.splitlines()), 1, ran)
        self.assertEqual([dat["id"] for dat in self.dats()], [jobid])
        self.dat("stop", "--now").succeeded()

    def test_job_ids_are_in_ascii_where_they_have_to_be(self):
        for env, prefix in (
            ({"LC_ALL": "C.UTF-8"}, "ƒ"),
            ({"LC_ALL": "C"}, "f"),
            ({"LC_ALL": "nosuch.UTF-8"}, "f"),
            ({"LC_ALL": "C.UTF-8", "FLUX_F58_FORCE_ASCII": "1"}, "f"),
        ):
            self.assertTrue(
                self.dat(*self.start_arguments("--name", "lab", "--if-not-running"), env=env)
                .succeeded()
                .out.startswith(prefix),
                env,
            )
        self.dat("stop", "--now").succeeded()


class Timeout(Cron):
    def test_cancel_on_timeout_leaves_nothing(self):
        self.start("-N4", "--name", "first")
        wait = ["--name", "second", "--timeout", "0.2s"]
        ran = self.dat(*self.start_arguments(*wait, "--cancel-on-timeout")).ended(5)
        self.assert_says(ran, ["timed out after 0.2s", "it was cancelled"])
        self.assertEqual([dat["name"] for dat in self.dats()], ["first"])
        ran = self.dat(*self.start_arguments(*wait)).ended(5)
        self.assert_says(ran, ["timed out after 0.2s", "it was left as it is"])
        self.assertEqual([dat["name"] for dat in self.dats()], ["first", "second"])
        self.dat("stop", "--now", "--dat", "second").succeeded()
        self.dat("stop", "--now", "--dat", "first").succeeded()

    def test_it_needs_a_timeout(self):
        ran = self.dat(*self.start_arguments("--cancel-on-timeout")).ended(2)
        self.assert_says(ran, ["--cancel-on-timeout", "--timeout"])


class Early(Cron):
    def early(self, begin, limit, early, *arguments, **options):
        return self.dat(
            *self.start_arguments(
                "--name", "lab", "--begin-time", begin, "-t", limit, "--early", early,
                "--if-not-running", "--no-wait", *arguments,
            ),
            **options,
        )  # fmt: skip

    def job(self, jobid):
        return self.flux().rpc(
            "job-list.list-id", {"id": fluxwire.parse_jobid(jobid), "attrs": ["all"]}
        )["job"]

    def test_too_early(self):
        begin = int(time.time()) + 7200
        ran = self.early(str(begin), "4h", "1h").succeeded()
        shown = datetime.datetime.fromtimestamp(begin).strftime("%Y-%m-%d %H:%M:%S")
        self.assert_says(ran, ["too early", '"lab"', shown, "1h before", "nothing is done"])
        self.assertEqual((ran.out, len(ran.err.splitlines())), ("", 1))
        ran = self.early(str(begin), "4h", "1h", "--quiet").succeeded()
        self.assertEqual((ran.out, ran.err), ("", ""))
        described = self.early(str(begin), "4h", "1h", "--json").succeeded().json()
        self.assertEqual((described["id"], described["state"]), (None, "early"))
        # Nobody is asked: it may be a night in which Flux is down.
        self.early(str(begin), "4h", "1h", env={"FLUX_URI": "local:///nowhere"}).succeeded()
        self.assert_no_dat_left()

    def test_from_then_on_it_is_pending(self):
        begin = int(time.time()) + 3000
        jobid = self.early(str(begin), "4h", "1h").succeeded().out.strip()
        job = self.job(jobid)
        self.assertEqual(job["dependencies"], [f"begin-time={begin}.000"])
        self.assertEqual(job["duration"], 4 * 3600)
        self.assertEqual(self.early(str(begin), "4h", "1h").succeeded().out.strip(), jobid)
        self.dat("stop", "--now").succeeded()

    def test_late_it_ends_when_the_window_does(self):
        begin = int(time.time()) - 3600
        jobid = self.early(str(begin), "4h", "1h").succeeded().out.strip()
        self.assertLessEqual(self.job(jobid)["duration"], 3 * 3600)
        self.assertGreater(self.job(jobid)["duration"], 2.5 * 3600)
        self.dat("stop", "--now").succeeded()

    def test_late_what_it_is_too_short_for_is_passed_over(self):
        begin = int(time.time()) - 4 * 3600 + 1200  # 20 minutes are left
        self.early(str(begin), "4h", "1h", "--close", "30m").succeeded()
        eventually(lambda: self.dats()[0]["state"] == "ready", "it is up")
        [dat] = self.dats()
        self.assertEqual(dat["window"]["passed_over"], ["close 30m"])
        self.dat("stop", "--now").succeeded()
        # Of the window as it was asked for it is wrong usage, whenever it is said.
        for begin in (int(time.time()) - 3600, int(time.time()) + 7200):
            ran = self.early(str(begin), "4h", "1h", "--close", "5h").ended(2)
            self.assert_says(ran, ["--close 5h: longer than the DAT's time limit of 4h"])

    def test_after_the_window(self):
        begin = int(time.time()) - 4 * 3600
        ran = self.early(str(begin), "4h", "1h").succeeded()
        self.assert_says(ran, ['the window of "lab" is over', "for 4h", "nothing is done"])
        described = self.early(str(begin), "4h", "1h", "--json").succeeded().json()
        self.assertEqual((described["id"], described["state"]), (None, "over"))
        self.assert_no_dat_left()

    def test_a_day_by_the_clock_of_the_zone(self):
        for zone in ("UTC", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"):
            ran = self.early("tomorrow 18:00", "4h", "0s", env={"TZ": zone}).succeeded()
            self.assert_says(ran, ["too early", "18:00:00"])

    def test_what_it_needs(self):
        for options, says in (
            (["--early", "1h"], "needs a --begin-time"),
            (["--early", "1h", "--begin-time", "+2h"], "of the calendar"),
            (["--early", "1h", "--begin-time", "now"], "of the calendar"),
            (["--early", "soon", "--begin-time", "today"], "--early"),
            (["--early", "-1h", "--begin-time", "today"], "--early"),
        ):
            self.start_fails(*options, status=2, says=["--early", says])

    def test_a_begin_time_that_has_passed_is_none(self):
        jobid = self.start("--begin-time", str(int(time.time()) - 3600), "-t", "10m")
        self.assertEqual(self.job(jobid)["duration"], 600)
        self.dat("stop", "--now").succeeded()
