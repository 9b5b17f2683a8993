# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat status."""

import json
import os
import re
import signal

from tests.lib import fluxwire
from tests.lib.sandbox import (
    GUEST,
    OWNER,
    OWNER_ID,
    STRANGER,
    SandboxTest,
    eventually,
    needs_root,
)
from tests.lib.terminal import Terminal


class Status(SandboxTest):
    def test_nothing_there(self):
        self.assertEqual(self.dats(), [])
        ran = self.dat("status").succeeded()
        self.assertEqual((ran.out, ran.err), ("", "flux-dat status: there is no DAT here\n"))

    def test_one_that_has_ended_by_name(self):
        self.start("--name", "demo")
        self.dat("stop", "--now").succeeded()
        said = ['the DAT "demo"', "has ended, at 20", " UTC; flux-dat report --dat demo says"]
        for command in ("status", "stop", "grant"):
            arguments = ["bin"] if command == "grant" else []
            self.assert_says(self.dat(command, "--dat", "demo", *arguments).ended(3), said)
        last = self.start("--name", "demo")
        self.dat("stop", "--now").succeeded()
        self.assert_says(self.dat("status", "--dat", "demo").ended(3), last)
        ran = self.dat("status", "--dat", "other").ended(3)
        self.assert_says(ran, 'there is no DAT "other", nor any other')

    def test_the_environment_says_which(self):
        self.start("--name", "demo")
        env = {"FLUX_DAT": "nosuch"}
        for command in (["status"], ["grant", GUEST], ["extend", "1h"], ["report"], ["run", "true"]):
            ran = self.dat(*command, env=env).ended(3)
            self.assert_says(ran, ["nosuch", "(FLUX_DAT in the environment says which)"])
        ran = self.dat("status", "--dat", "other", env=env).ended(3)
        self.assertNotIn("FLUX_DAT", ran.err)
        self.dat("status", "--dat", "demo", env=env).succeeded()
        self.assertIn("demo", self.dat("status", env={"FLUX_DAT": "demo"}).succeeded().out)
        self.dat("status", env={"FLUX_DAT": ""}).succeeded()

    def test_one_line_each(self):
        first = self.start("-N2", "--name", "demo", "--user", "games")
        second = self.start("--name", "later", "--no-wait", "--begin-time", "+1h", "-t", "2h")
        lines = self.dat("status").succeeded().out.splitlines()
        self.assertEqual(
            lines[0].split(),
            ["NAME", "ID", "OWNER", "STATE", "NODES", "NODELIST", "LEFT", "GUESTS"],
        )
        rows = {line.split()[0]: line.split() for line in lines[1:]}
        self.assertEqual(sorted(rows), ["demo", "later"])
        self.assertEqual(rows["demo"][1:5], [first, OWNER, "ready", "2"])
        self.assertEqual(rows["demo"][-2:], ["1", "user"])
        self.assertEqual(rows["later"][1:4], [second, OWNER, "pending"])
        self.assertIn("2h00m", rows["later"])
        self.assertRegex(self.dat("status").out, r"pending \(in (1h00m|59m\d\ds)\)")
        [pending] = [dat for dat in self.dats() if dat["name"] == "later"]
        self.assertGreater(pending["begin_time"], pending["t_submit"])
        self.assertIn("not before 20", self.dat("status", "--dat", "later").succeeded().out)

    def test_json_has_the_promised_keys(self):
        self.start("-N2", "--name", "demo", "-t", "1h")
        result = self.dat("status", "--json").succeeded().json()
        self.assertEqual(result["version"], 1)
        [dat] = result["dats"]
        self.assertEqual(
            set(dat),
            {
                "name", "id", "jobid", "owner", "userid", "state", "nnodes", "ranks_up", "nodelist",
                "ranks", "t_submit", "begin_time", "t_run", "window", "degraded", "duration", "expiration", "uri", "generation",
                "applied", "open", "users", "groups", "managers",
            },
        )  # fmt: skip
        self.assertEqual((dat["owner"], dat["duration"]), (OWNER, 3600))
        self.assertEqual((dat["nnodes"], dat["ranks_up"]), (2, 2))
        self.assertGreater(dat["expiration"], dat["t_run"])
        self.assertGreaterEqual(dat["t_run"], dat["t_submit"])

    @needs_root
    def test_everybody_sees_the_same(self):
        self.start("-N2", "--name", "demo", "--user", GUEST)
        owners = self.dat("status", "--json").succeeded().out
        for user in (GUEST, STRANGER):
            self.assertEqual(self.dat("status", "--json", user=user).succeeded().out, owners)

    def test_one_in_detail_by_name_and_by_id(self):
        jobid = self.start("-N2", "--name", "demo")
        self.start("--name", "other")
        by_name = self.dat("status", "--dat", "demo").succeeded().out
        self.assertIn(jobid, by_name)
        self.assertEqual(by_name.count("door right"), 2, by_name)
        self.assertEqual(self.dat("status", "--dat", jobid).succeeded().out, by_name)
        self.assertEqual(self.dat("status", env={"FLUX_DAT": "demo"}).succeeded().out, by_name)
        [dat] = self.dat("status", "--dat", "demo", "--json").succeeded().json()["dats"]
        self.assertEqual(dat["id"], jobid)

    def test_no_such_dat_lists_those_there_are(self):
        self.start("--name", "demo")
        ran = self.dat("status", "--dat", "nosuch").ended(3)
        self.assert_says(ran, ["nosuch", "demo"])

    def test_no_dat_at_all(self):
        ran = self.dat("status", "--dat", "nosuch").ended(3)
        self.assert_says(ran, ["nosuch"])

    def test_a_job_that_is_no_dat_is_not_listed(self):
        flux = self.flux()
        flux.submit(fluxwire.jobspec(["sleep", "600"], nodes=1), userid=OWNER_ID)
        self.assertEqual(self.dats(), [])

    def test_a_rank_that_died(self):
        self.start("-N2", "--name", "demo")
        self.assertNotIn("ranks up", self.dat("status").succeeded().out)
        os.kill(self.broker_of(1), signal.SIGKILL)
        # The list tells without being asked for this one.
        eventually(lambda: self.dats()[0]["ranks_up"] == 1, "the list says so")
        [dat] = self.dats()
        self.assertEqual((dat["state"], dat["nnodes"]), ("ready", 2))
        self.assertIn("ready (1/2 ranks up)", self.dat("status").succeeded().out)
        ran = self.dat("grant", GUEST).ended(6)
        self.assert_says(ran, ["not in force on all ranks", "rank 1"])
        self.assertIn("(1/2 ranks up)", self.dat("status").succeeded().out)

    def test_jobs_by_state(self):
        self.start("-N2", "--name", "demo")
        self.dat("run", "true").succeeded()
        self.dat("run", "false").ended(1)
        self.assertIn(
            "0 pending, 0 running, 1 done, 1 failed", self.dat("status", "--dat", "demo").out
        )

    def test_one_that_has_ended_says_so(self):
        jobid = self.start("--name", "demo")
        self.dat("stop", "--now").succeeded()
        for command in ("status", "grant"):
            ran = self.dat(command, "--dat", jobid, *(["games"] if command == "grant" else []))
            self.assert_says(ran.ended(3), ['the DAT "demo"', "has ended, at 20"])

    def test_taken_back_while_the_supervisor_is_asked(self):
        self.start("--name", "demo")
        [worker] = self.supervisors(worker=True)
        os.kill(worker, signal.SIGSTOP)
        for options in ([], ["--json"], ["--json", "--watch"]):
            with self.subTest(options=options):
                proxy = self.proxy(-len(options), None)  # which never comes
                asking = self.dat_background(
                    "status", "--dat", "demo", *options, env={"FLUX_URI": proxy.uri}
                )
                eventually(lambda proxy=proxy: b".status\0" in proxy.sent, "it asks")
                ran = asking.signal(signal.SIGINT).wait().ended(1)
                self.assertEqual(ran.out, "")
                self.assertEqual(ran.err, "flux-dat status: interrupted by SIGINT\n")
        os.kill(worker, signal.SIGCONT)

    # Fields

    def test_fields(self):
        jobid = self.start("-N2", "--name", "demo", "-t", "2h", "--user", "games")
        out = self.dat("status", "-o", "{name:<6}|{id.f58}|{nnodes:>3}|{users}").succeeded().out
        self.assertEqual(out, f"NAME  |ID|NODES|USERS\ndemo  |{jobid}|  2|games\n")
        out = self.dat("status", "-n", "-o", "{name} {state}", "--dat", "demo").succeeded().out
        self.assertEqual(out, "demo ready\n")
        [line] = self.dat("status", "--no-header").succeeded().out.splitlines()
        self.assertEqual(line.split()[0], "demo")
        out = self.dat("status", "-n", "-o", "{duration} {remaining:.0f}").succeeded().out
        self.assertRegex(out, r"^7200 (7200|71\d\d)\n$")

    def test_fields_that_there_are_not(self):
        ran = self.dat("status", "-o", "{name} {nosuch}").ended(2)
        self.assert_says(ran, ["nosuch", "-o help"])
        self.assert_says(self.dat("status", "-o", "name").ended(2), "no field in it")
        self.assertEqual(ran.out, "")
        self.assert_says(
            self.dat("status", "-o", "{name}", "--json").ended(2), "exclude each other"
        )

    def test_help_lists_the_fields_and_each_works(self):
        self.start("--name", "demo")
        out = self.dat("status", "-o", "help").succeeded().out
        fields = re.findall(r"^  (\S+)", out, re.MULTILINE)
        self.assertIn("id.f58", fields)
        text = "|".join(f"{{{field}}}" for field in fields)
        values = self.dat("status", "-n", "-o", text).succeeded().out.strip("\n").split("|")
        self.assertEqual(len(values), len(fields))
        self.assertEqual(values[0], "demo")


class OnTerminal(SandboxTest):
    """What a person sees."""

    def seen(self, *arguments, columns=80, env=None):
        with Terminal(columns=columns) as terminal:
            running = self.dat_background(
                *arguments, env={"TERM": "xterm", **(env or {})}, **terminal.streams
            )
            self.assertEqual(running.wait().status, 0, terminal.raw())
            return terminal.screen(), terminal.raw()

    def test_one_in_detail(self):
        jobid = self.start("-N2", "--name", "demo", "-t", "1h", "--user", "games")
        lines, _ = self.seen("status", "--dat", "demo")
        rows = dict(line.split(None, 1) for line in lines if line[:1].strip())
        self.assertEqual(rows["dat"], f"demo ({jobid}) of {OWNER}")
        self.assertEqual(rows["state"], "ready")
        self.assertRegex(rows["window"], r"^[\d: -]+ ●[─w]+[─wcT]+┤ [\d: -]+$")
        self.assertRegex(rows["left"], r"^(59m\d\ds|1h00m) of 1h00m$")
        self.assertRegex(rows["next"], r"^warning .*, warning .*, closed to new jobs ")
        self.assertEqual(rows["nodes"], "2 up sandbox[0-1]")
        self.assertEqual(rows["jobs"], "0 pending, 0 running, 0 done, 0 failed")
        self.assertEqual((rows["guests"], rows["doors"]), ("games", "right"))

    def test_colour_only_where_it_is_wanted(self):
        self.start("--name", "demo")
        self.assertIn("\x1b[32mready", self.seen("status")[1])
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            lines, raw = self.seen("status", env=env)
            self.assertNotIn("\x1b", raw)
            self.assertIn("ready", lines[1])

    def test_narrow(self):
        self.start("-N4", "--name", "demo-with-a-name", "-t", "1h", "--user", "games")
        for columns in (80, 40, 20, 12):
            for arguments in (["status"], ["status", "--dat", "demo-with-a-name"]):
                lines, _ = self.seen(*arguments, columns=columns)  # it fails where one wraps
                self.assertGreater(len(lines), 1)
        lines, _ = self.seen("status", columns=20)
        self.assertIn("ready", lines[1])

    def test_without_utf8(self):
        self.start("--name", "demo", "-t", "1h")
        lines, raw = self.seen("status", "--dat", "demo", env={"LC_ALL": "C"})
        self.assertTrue(any(re.search(r"#[-w]+[-wcT]*\]", line) for line in lines), raw)

    def test_start_shows_its_phases(self):
        lines, _ = self.seen(
            *self.start_arguments("-N2", "--name", "demo"), columns=400
        )  # for a warning, which may be wrapped
        [line] = [line for line in lines if "pending" in line]
        self.assertRegex(line, r"^ƒ\w+: pending.* … alloc.* … booting.* … ready$")
        self.assertRegex(lines[lines.index(line) + 1], r"^ƒ\w+$")

    def test_start_says_what_it_waits_for(self):
        with Terminal(columns=400) as terminal:
            running = self.dat_background(
                *self.start_arguments("--name", "demo", "--begin-time", "+1h"),
                env={"TERM": "xterm"},
                **terminal.streams,
            )
            eventually(
                lambda: re.search(r"pending \d+s \(its begin time, 20", terminal.text()),
                "it is drawn anew",
            )
            running.signal(signal.SIGINT)
            self.assertEqual(running.wait().status, 1)
            self.assertIn("SIGINT", terminal.text())


class Watch(SandboxTest):
    def watch(self, terminal, *arguments):
        running = self.dat_background(
            "status", "--watch", *arguments, env={"TERM": "xterm"}, **terminal.streams
        )
        eventually(
            lambda: "q quits" in terminal.text() or running.process.poll() is not None,
            "it is drawn",
        )
        return running

    def test_it_is_kept_up_to_date(self):
        self.start("-N2", "--name", "demo")
        with Terminal() as terminal:
            running = self.watch(terminal, "--dat", "demo")
            self.assertIn("nobody", terminal.text())
            [window] = [line for line in terminal.screen() if line.startswith("window")]
            self.assertTrue(window.endswith(" no end"), "the last column is there")
            self.dat("grant", "games").succeeded()
            eventually(lambda: "games" in terminal.text(), "a change is shown")
            self.dat("run", "true").succeeded()
            eventually(lambda: "1 done" in terminal.text(), "a job is shown")
            terminal.type("q")
            self.assertEqual(running.wait().status, 0)
            self.assertTrue(terminal.is_restored())
            self.assertTrue(terminal.raw().endswith("\x1b[?1049l"))

    def test_a_new_size(self):
        self.start("-N4", "--name", "demo", "-t", "1h")
        with Terminal() as terminal:
            running = self.watch(terminal)
            self.assertIn("GUESTS", terminal.text())
            terminal.raw()
            terminal.bytes = b"\x1b[?1049h"
            terminal.resize(20, 5)
            eventually(
                lambda: "NAME" in terminal.text() and "GUESTS" not in terminal.text(),
                "it is drawn for the new size",
            )
            terminal.type("q")
            running.wait().succeeded()

    def test_ctrl_c_and_sigterm(self):
        self.start("--name", "demo")
        for end, status in ((None, 0), (signal.SIGTERM, 1)):
            with self.subTest(end=end), Terminal() as terminal:
                running = self.watch(terminal)
                if end:
                    running.signal(end)
                else:
                    terminal.type("\x03")
                self.assertEqual(running.wait().status, status)
                self.assertTrue(terminal.is_restored())

    def test_a_terminal_that_vanishes(self):
        self.start("--name", "demo")
        with Terminal() as terminal:
            running = self.watch(terminal)
            terminal.hang_up()
            self.assertEqual(running.wait().status, 1)

    def test_a_dat_that_ends(self):
        self.start("--name", "demo")
        with Terminal() as terminal:
            running = self.watch(terminal, "--dat", "demo")
            self.dat("stop", "--now").succeeded()
            running.wait().succeeded()
            self.assertIn("has ended, at 20", terminal.text())

    def test_not_a_terminal(self):
        self.assert_says(self.dat("status", "--watch").ended(2), ["--watch", "--json"])
        with Terminal() as terminal:
            running = self.dat_background(
                "status", "--watch", env={"TERM": "dumb"}, **terminal.streams
            )
            self.assertEqual(running.wait().status, 2)

    def test_what_there_is_not(self):
        with Terminal() as terminal:
            running = self.watch(terminal, "--dat", "nosuch")
            self.assertEqual(running.wait().status, 3)
            self.assertNotIn("\x1b", terminal.raw())

    def test_watch_as_json_ends_by_a_key_too(self):
        self.start("--name", "demo")
        with Terminal(columns=4000) as terminal:
            running = self.dat_background("status", "--watch", "--json", **terminal.streams)
            eventually(lambda: '"name":"demo"' in terminal.text(), "it is shown")
            terminal.type("q")
            running.wait().succeeded()
            self.assertTrue(terminal.is_restored())

    def test_json_tells_that_the_supervisor_does_not_answer(self):
        self.start("--name", "demo")
        running = self.dat_background("status", "--watch", "--json", "--dat", "demo")
        eventually(lambda: "\n" in running.stdout(), "the first")
        [worker] = self.supervisors(worker=True)
        [outer] = set(self.supervisors()) - {worker}
        os.kill(outer, signal.SIGSTOP)  # which would start it again
        os.kill(worker, signal.SIGKILL)
        running.says("its supervisor does not answer")
        os.kill(outer, signal.SIGCONT)
        self.dat("stop", "--now").succeeded()
        running.wait().succeeded()
        self.assertEqual(running.stderr().count("does not answer"), 1, running.stderr())

    def test_json_has_a_line_for_each_change(self):
        self.start("--name", "demo")
        running = self.dat_background("status", "--watch", "--json", "--dat", "demo")

        def lines():
            return [json.loads(line) for line in running.stdout().splitlines(True) if "\n" in line]

        eventually(lambda: len(lines()) == 1, "the first")
        self.dat("grant", "games").succeeded()
        eventually(lambda: lines()[-1]["dats"][0]["users"], "the change")
        self.dat("stop", "--now").succeeded()
        running.wait().succeeded()
        self.assertEqual(lines()[-1]["dats"][0]["state"], "ended")
