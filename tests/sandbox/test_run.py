# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat run, for the owner."""

import json
import signal

from tests.lib import fluxwire
from tests.lib.sandbox import OWNER, OWNER_ID, STRANGER, SandboxTest, eventually, needs_root


class Run(SandboxTest):
    def setUp(self):
        super().setUp()
        self.start("-N2", "--name", "demo")

    def run_in(self, *arguments, **options):
        return self.dat("run", *arguments, **options)

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

    def test_no_such_dat(self):
        ran = self.run_in("--dat", "nosuch", "true").ended(3)
        self.assert_says(ran, ["nosuch", "demo"])

    @needs_root
    def test_a_stranger_is_refused_at_the_door(self):
        ran = self.run_in("true", user=STRANGER).ended(7)
        self.assert_says(ran, "permission denied")
        self.assertNotIn(OWNER, ran.out)
