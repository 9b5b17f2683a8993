# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat run, for the owner."""

import json
import os
import pty
import signal
import subprocess
import tempfile

from tests.lib import fluxwire
from tests.lib.sandbox import OWNER, OWNER_ID, STRANGER, SandboxTest, eventually, needs_root


class Run(SandboxTest):
    def setUp(self):
        super().setUp()
        self.start("-N2", "--name", "demo")

    def run_in(self, *arguments, **options):
        return self.dat("run", *arguments, **options)

    def test_two_dashes(self):
        for words, out in (
            (("--", "echo", "a"), "a\n"),
            (("-N1", "--", "echo", "--", "a"), "-- a\n"),
            (("echo", "--", "a"), "-- a\n"),
            (("--", "sh", "-c", "echo $0 $1", "-l", "--"), "-l --\n"),
        ):
            self.assertEqual(self.dat("run", *words).succeeded().out, out)
        self.dat("run", "--").ended(2)

    def test_output_of_all_ranks(self):
        ran = self.run_in("-N2", "id", "-u").succeeded()
        self.assertEqual(ran.out, f"{OWNER_ID}\n" * 2)
        self.assertEqual(ran.err, "")

    def test_labels(self):
        ran = self.run_in("-N2", "--label-io", "echo", "hello").succeeded()
        self.assertEqual(sorted(ran.out.splitlines()), ["0: hello", "1: hello"])

    def test_json(self):
        ran = self.run_in(
            "--json", "-N2", "sh", "-c", "echo hello; printf '\\377' >&2; exit 3"
        ).ended(3)
        lines = [json.loads(line) for line in ran.out.splitlines()]
        self.assertEqual({line["version"] for line in lines}, {1})
        told, end = lines[:-1], lines[-1]
        for rank in ("0", "1"):
            out, err = (
                [
                    line
                    for line in told
                    if (line["event"], line["stream"], line["rank"]) == ("output", stream, rank)
                ]
                for stream in ("stdout", "stderr")
            )
            self.assertEqual("".join(line["data"] for line in out), "hello\n")
            self.assertEqual([(line["encoding"], line["data"]) for line in err], [("base64", "/w==")])
        self.assertEqual((end["event"], end["status"], end["exception"]), ("end", 3, None))
        self.assertEqual(fluxwire.parse_jobid(end["id"]), end["jobid"])

    def test_json_of_a_job_that_never_ran(self):
        ran = self.run_in("--json", "-N3", "true").ended(1)
        [end] = [json.loads(line) for line in ran.out.splitlines()]
        self.assertEqual((end["event"], end["status"]), ("end", 1))
        self.assertIn("unsatisfiable", end["exception"])

    def test_options_after_the_command_are_its_own(self):
        ran = self.run_in("sh", "-c", 'echo "$@"', "sh", "-N", "--json").succeeded()
        self.assertEqual(ran.out, "-N --json\n")

    def test_stderr_and_exit_status(self):
        ran = self.run_in("sh", "-c", "echo out; echo err >&2; exit 17").ended(17)
        self.assertEqual((ran.out, ran.err.splitlines()[0]), ("out\n", "err"))

    def test_a_command_that_is_killed(self):
        self.run_in("sh", "-c", "kill -TERM $$").ended(128 + signal.SIGTERM)

    def test_a_command_that_is_not_there(self):
        ran = self.run_in("/no/such/command").ended(127)
        self.assertIn("/no/such/command", ran.err)

    def test_many_bytes(self):
        ran = self.run_in("head", "-c", "3000000", "/dev/zero").succeeded()
        self.assertEqual(len(ran.out), 3000000)

    def test_stdin_ends(self):
        ran = self.run_in("-N2", "-l", "sh", "-c", "cat; echo end").succeeded()
        self.assertEqual(sorted(ran.out.splitlines()), ["0: end", "1: end"])

    def test_stdin_from_a_pipe_as_it_comes_to_all_tasks(self):
        running = self.dat_background(
            "run", "-N2", "sh", "-c", "read line; echo got $line; cat", stdin=subprocess.PIPE
        )
        with running.process.stdin as pipe:
            pipe.write(b"one\n")
            pipe.flush()
            eventually(lambda: running.stdout().count("got one\n") == 2, "both have the line")
            pipe.write(b"two \xff\n")
        ran = running.wait().succeeded()
        self.assertEqual(ran.out.count("two \ufffd\n"), 2)

    def test_stdin_from_a_file(self):
        with tempfile.TemporaryFile() as file:
            file.write(bytes(range(256)) * 30000)
            file.seek(0)
            ran = self.run_in("sh", "-c", "sleep 0.5; sha256sum", stdin=file).succeeded()
            file.seek(0)
            expected = subprocess.run(["sha256sum"], stdin=file, capture_output=True, check=True)
        self.assertEqual(ran.out, expected.stdout.decode())

    def test_more_stdin_than_a_job_takes(self):
        with open("/dev/zero", "rb") as zero:
            ran = self.run_in("wc", "-c", stdin=zero)
        self.assertNotEqual(ran.status, 0)
        self.assert_says(ran, "stdin exceeds 10M limit")

    def test_stdin_that_nobody_reads(self):
        with open("/dev/zero", "rb") as zero:
            self.run_in("true", stdin=zero).succeeded()
        never = subprocess.PIPE
        running = self.dat_background("run", "true", stdin=never)
        running.wait().succeeded()
        running.process.stdin.close()

    def test_stdin_that_is_closed_or_cannot_be_read(self):
        self.run_as(OWNER, "sh", "-c", "flux-dat run cat <&-").succeeded()
        ran = self.run_as(OWNER, "sh", "-c", "flux-dat run cat </").succeeded()
        self.assert_says(ran, "flux-dat run: cannot read standard input: Is a directory")

    def on_a_terminal(self, script):
        """A script with a terminal of its own, in its foreground, and the terminal."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        running = self.background(
            "setsid", "--ctty", "sh", "-mc", script, stdin=slave, env={"PS1": ""}
        )
        os.close(slave)
        return running, master

    def test_stdin_from_a_terminal(self):
        running, terminal = self.on_a_terminal("flux-dat run sh -c 'echo up; cat'")
        eventually(lambda: "up" in running.stdout(), "the job runs")
        os.write(terminal, b"typed\n\x04")
        self.assertEqual(running.wait().succeeded().out, "up\ntyped\n")

    def test_in_the_background_of_a_terminal_nothing_is_read(self):
        running, terminal = self.on_a_terminal(
            "flux-dat run sh -c 'echo up; cat >/dev/null & sleep 1; kill $!; echo done' & "
            "read line; echo the shell has $line; wait %1; echo status $?"
        )
        eventually(lambda: "up" in running.stdout(), "the job runs")
        os.write(terminal, b"this\n")
        out = running.wait().succeeded().out
        self.assertIn("the shell has this\n", out)
        self.assertIn("done\nstatus 0\n", out)

    def test_output_that_nobody_reads_any_more_ends_the_job(self):
        ran = self.run_as(
            OWNER, "bash", "-c", "flux-dat run yes | head -n1; echo ${PIPESTATUS[0]}"
        ).succeeded()
        self.assertEqual((ran.out, ran.err), (f"y\n{128 + signal.SIGPIPE}\n", ""))
        [dat] = self.dats()
        [job] = self.flux(uri=dat["uri"]).rpc("job-list.list", {"max_entries": 5, "attrs": ["all"]})["jobs"]
        self.assertEqual(job["state"], 64, job)

    def test_output_that_cannot_be_written_ends_the_job(self):
        for options in ([], ["-l"], ["--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                ran = self.run_in(*options, "yes", stdout=full).ended(1)
            self.assertEqual(
                ran.err, "flux-dat run: cannot write to stdout: No space left on device\n"
            )

    def test_waiting_for_resources_is_told(self):
        blocker = self.dat_background("run", "-N2", "-c4", "sh", "-c", "echo up; cat", stdin=subprocess.PIPE)
        eventually(lambda: "up" in blocker.stdout(), "a job has all of the nodes")
        quiet = self.dat_background("run", "echo", "hello")
        waiting = self.dat_background("run", "-v", "echo", "hello")
        waiting.says(" is waiting for resources")
        blocker.process.stdin.close()
        blocker.wait().succeeded()
        ran = waiting.wait().succeeded()
        self.assertRegex(ran.err, r"^flux-dat run: job \S+ is waiting for resources\n$")
        self.assertEqual(ran.out, "hello\n")
        ran = quiet.wait().succeeded()
        self.assertEqual((ran.out, ran.err), ("hello\n", ""))
        self.assertEqual(self.run_in("-v", "true").succeeded().err, "")

    def test_cwd_and_environment(self):
        ran = self.run_in(
            "--cwd", "/usr", "--env", "COLOUR=blue", "sh", "-c", "pwd; echo $COLOUR"
        ).succeeded()
        self.assertEqual(ran.out, "/usr\nblue\n")

    def test_tasks(self):
        ran = self.run_in("-n", "4", "-N2", "sh", "-c", "echo $FLUX_TASK_RANK").succeeded()
        self.assertEqual(sorted(ran.out.split()), ["0", "1", "2", "3"])

    def test_more_nodes_than_the_dat_has(self):
        ran = self.run_in("-N3", "true").ended(1)
        self.assert_says(ran, "unsatisfiable")

    def test_sigint_cancels_the_job(self):
        running = self.dat_background("run", "sleep", "600")
        [dat] = self.dats()
        inside = self.flux(uri=dat["uri"])

        def jobs(state):
            return inside.rpc(
                "job-list.list",
                {"max_entries": 5, "attrs": ["all"], "constraint": {"states": [state]}},
            )["jobs"]

        eventually(lambda: jobs("running"), "the job runs")
        ran = running.signal(signal.SIGINT).wait()
        self.assertNotEqual(ran.status, 0)
        self.assertEqual(jobs("running"), [])

    def test_no_command(self):
        ran = self.run_in().ended(2)
        self.assertTrue(ran.err.startswith("flux-dat"))

    def test_the_only_dat_is_meant(self):
        ran = self.run_in("-N2", "sh", "-c", "echo $FLUX_URI").succeeded()
        [dat] = self.dats()
        path = fluxwire.socket_path(dat["uri"])
        self.assertIn(path, ran.out)

    def test_several_dats(self):
        self.start("--name", "other")
        ran = self.run_in("true").ended(4)
        self.assert_says(ran, ["demo", "other", "--dat"])
        self.run_in("--dat", "other", "true").succeeded()

    def test_inside_a_dat_it_is_that_one(self):
        [dat] = self.dats()
        self.run_in("true", env={"FLUX_URI": dat["uri"]}).succeeded()

    def test_no_dat(self):
        self.dat("stop", "--now").succeeded()
        ran = self.run_in("true").ended(3)
        self.assert_says(ran, "no DAT")

    def test_no_such_command_is_said_once(self):
        ran = self.run_in("nosuchcommand")
        self.assertNotEqual(ran.status, 0)
        self.assertEqual(ran.err.count("nosuchcommand: No such file"), 1, ran)

    def test_no_such_dat(self):
        ran = self.run_in("--dat", "nosuch", "true").ended(3)
        self.assert_says(ran, ["nosuch", "demo"])

    @needs_root
    def test_a_stranger_is_refused_at_the_door(self):
        ran = self.run_in("true", user=STRANGER).ended(7)
        self.assert_says(ran, "permission denied")
        self.assertNotIn(OWNER, ran.out)
