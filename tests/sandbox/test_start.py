# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat start, where all goes well."""

import pathlib
import shutil
import stat
import subprocess
import time

from tests.lib import fluxwire
from tests.lib.sandbox import GUEST, OWNER, ROOT, STRANGER, SandboxTest, eventually, needs_root


def door_of(dat, rank=0):
    """The directory of a rank's door."""
    door = pathlib.Path(fluxwire.socket_path(dat["uri"])).parent
    return door.with_name(door.name.rpartition(".")[0] + f".{rank}")


class Start(SandboxTest):
    def test_prints_the_job_id_alone_when_ready(self):
        ran = self.dat(*self.start_arguments("-N2", "--name", "demo")).succeeded()
        self.assertRegex(ran.out, r"\Aƒ[1-9A-HJ-NP-Za-km-z]+\n\Z")
        [dat] = self.dats()
        self.assertEqual(dat["id"], ran.out.strip())
        self.assertEqual(dat["jobid"], fluxwire.parse_jobid(ran.out.strip()))
        self.assertEqual((dat["name"], dat["state"], dat["nnodes"]), ("demo", "ready", 2))
        self.assertEqual((dat["generation"], dat["applied"]), (1, 1))
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()

    def test_json(self):
        ran = self.dat(*self.start_arguments("-N2", "--name", "demo", "--json")).succeeded()
        result = ran.json()
        [dat] = self.dats()
        self.assertEqual(
            result,
            {
                "version": 1,
                "id": dat["id"],
                "jobid": dat["jobid"],
                "name": "demo",
                "state": "ready",
                "nodes": dat["nodelist"],
                "uri": dat["uri"],
                "already": False,
            },
        )
        self.assertEqual(ran.out.count("\n"), 1, "one line")

    def test_quiet_says_nothing_on_stderr(self):
        ran = self.dat(*self.start_arguments("--quiet")).succeeded()
        self.assertEqual(ran.err, "")

    def test_without_an_imp_it_says_what_to_do_in_a_sandbox(self):
        ran = self.dat(*self.start_arguments()).succeeded()
        [line] = ran.err.splitlines()
        self.assertIn("not those of guests; for these: flux-dat sandbox up --conf", line)
        self.assertNotIn("chmod", line)

    def test_that_guests_cannot_work_is_said_with_quiet_too(self):
        imp = self.place / "flux-imp"
        imp.write_text("#!/bin/sh\n")
        imp.chmod(0o755)
        options = ("--quiet", "--imp", str(imp), "--if-not-running", "--name", "demo")
        ran = self.dat(*self.start_arguments(*options)).succeeded()
        self.assert_says(ran, ["warning: exec.imp", str(imp), "guests' jobs will not run"])
        # Once, and not at each call of a timer that finds the DAT there.
        ran = self.dat(*self.start_arguments(*options)).succeeded()
        self.assertEqual((ran.out, ran.err), ("", ""))

    def test_a_warning_is_wrapped_on_a_terminal(self):
        if not shutil.which("script"):
            self.skipTest("there is no script(1) here")
        command = " ".join(
            ["stty cols 40; exec", str(self.installed.program), *self.start_arguments()]
        )
        lines = self.run_as(OWNER, "script", "-qec", command, "/dev/null").out.splitlines()
        self.assertIn("flux-dat start: note: no IMP: the", lines)
        self.assertIn("sandbox has none: its owner's jobs run,", lines)

    def test_the_default_is_one_node_and_the_name_dat(self):
        self.start()
        [dat] = self.dats()
        self.assertEqual((dat["name"], dat["nnodes"]), ("dat", 1))

    def test_doors_are_right_on_all_ranks(self):
        self.start("-N3", "--user", "games", "--group", "games")
        [dat] = self.dats()
        for rank in range(3):
            door = door_of(dat, rank)
            status = door.lstat()
            self.assertTrue(stat.S_ISDIR(status.st_mode))
            self.assertEqual(status.st_mode & 0o007, 0, "nothing for others")
            self.assertEqual(
                sorted(path.name for path in door.iterdir()), [".lock", "grants", "local"]
            )
            acl = subprocess.run(
                ["getfacl", "-cpn", door], capture_output=True, text=True, check=True
            ).stdout.split()
            self.assertIn("user:5:--x", acl)
            self.assertIn("group:60:--x", acl)
            self.assertIn("other::---", acl)

    def test_open_lets_everybody_in(self):
        self.start("--open")
        [dat] = self.dats()
        self.assertTrue(dat["open"])
        self.assertEqual(door_of(dat).stat().st_mode & 0o007, 0o001)

    @needs_root
    def test_guest_reaches_the_socket_and_a_stranger_does_not(self):
        self.start("-N2", "--user", GUEST)
        [dat] = self.dats()
        for rank in range(2):
            uri = f"local://{door_of(dat, rank)}/local"
            guest = self.flux(GUEST, uri)
            self.assertEqual(guest.rpc("attr.get", {"name": "rank"})["value"], str(rank))
            self.assertEqual(guest.rpc("attr.get", {"name": "size"})["value"], "2")
            with self.assertRaises(PermissionError):
                self.flux(STRANGER, uri)
            ran = self.dat("status", user=STRANGER, env={"FLUX_URI": uri}).ended(7)
            self.assert_says(ran, ["permission denied", f"{door_of(dat, rank)}/local"])

    def test_guests_by_name_and_number_in_lists_and_repeated(self):
        self.start("--user", "games,2", "--user", "3", "--group", "games", "--manager", "games")
        [dat] = self.dats()
        self.assertEqual(sorted(dat["users"]), [2, 3, 5])
        self.assertEqual((dat["groups"], dat["managers"]), ([60], [5]))

    def test_no_wait_prints_the_id_at_once(self):
        jobid = self.start("--no-wait", "--begin-time", "+1h")
        [dat] = self.dats()
        self.assertEqual((dat["id"], dat["state"]), (jobid, "pending"))
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()

    def test_no_wait_tells_what_is_refused_for_good(self):
        arguments = self.start_arguments("--no-wait", "--quiet", f"-N{self.size + 1}")
        for _ in range(2):
            ran = self.dat(*arguments).ended(1)
            self.assertEqual(ran.out, "")
            self.assert_says(ran, [f"need {self.size + 1}"])
        self.assert_no_dat_left()

    def test_no_wait_of_one_that_has_to_wait(self):
        self.start(f"-N{self.size}", "--name", "first")
        self.start("--no-wait", "--name", "second")
        self.assertEqual([dat["state"] for dat in self.dats()], ["ready", "pending"])

    def test_waiting_is_told_in_one_line(self):
        self.start(f"-N{self.size}", "--name", "first")
        waiting = self.dat_background(*self.start_arguments("--name", "second"))
        quiet = self.dat_background(*self.start_arguments("--name", "third", "--quiet"))
        waiting.says(" is waiting for nodes")
        self.dat("stop", "--now", "--dat", "first").succeeded()
        ran = waiting.wait().succeeded()
        said = [line for line in ran.err.splitlines() if "note: no IMP" not in line]
        self.assertEqual(
            said, [f"flux-dat start: job {ran.out.strip()} is waiting for nodes"]
        )
        self.assertEqual(quiet.wait().succeeded().err, "")

    def test_timeout_leaves_the_job(self):
        ran = self.dat(*self.start_arguments("--begin-time", "+1h", "--timeout", "0.1s"))
        ran.ended(5)
        [dat] = self.dats()
        self.assertEqual(dat["state"], "pending")
        self.assert_says(ran, [dat["id"]])
        self.dat("stop", "--now").succeeded()

    def test_if_not_running_starts_once(self):
        first = self.start("--name", "demo", "--if-not-running")
        second = self.dat(
            *self.start_arguments("--name", "demo", "--if-not-running", "--json")
        ).succeeded()
        self.assertEqual(second.json()["id"], first)
        self.assertTrue(second.json()["already"])
        self.assertEqual(len(self.dats()), 1)

    def test_a_sandbox_clock_that_was_forgotten_does_not_decide(self):
        ran = self.dat(
            *self.start_arguments("-t", "1h", "--begin-time", "tomorrow 18:00", "--early", "1h"),
            env={"FLUX_DAT_SANDBOX_CLOCK": "2@1000"},
        )  # fmt: skip
        self.assert_says(ran.ended(2), ["FLUX_DAT_SANDBOX_CLOCK is set", "unset it"])

    def test_options_of_flux_alloc(self):
        self.start(
            "-N1", "-t", "90", "--requires", "rank:2", "--urgency", "20",
            "-S", "user.note=hello", "-o", "verbose=2", "--job-name", "other",
        )  # fmt: skip
        [dat] = self.dats()
        self.assertEqual((dat["ranks"], dat["duration"]), ("2", 5400))
        self.assertEqual(dat["name"], "other")
        jobspec = self.flux().rpc(
            "job-info.lookup", {"id": dat["jobid"], "keys": ["jobspec"], "flags": 0}
        )["jobspec"]
        system = fluxwire.json.loads(jobspec)["attributes"]
        self.assertEqual(system["user"]["note"], "hello")
        options = system["system"]["shell"]["options"]
        self.assertEqual(options["verbose"], 2)
        self.assertEqual(options["exit-timeout"], "none")

    def test_a_dat_in_a_dat(self):
        self.start("-N2", "--name", "outer")
        [outer] = self.dats()
        inside = {"FLUX_URI": outer["uri"], "FLUX_URI_RESOLVE_LOCAL": "t"}
        # Each instance counts its jobs by itself: both may have the same id, and then
        # they cannot share the place of their doors.
        doors = self.place / "inner-doors"
        doors.mkdir(mode=0o755)
        if ROOT:
            shutil.chown(doors, OWNER)
        self.start("--name", "inner", "--door-dir", str(doors), env=inside)
        [inner] = self.dats(env=inside)
        self.assertEqual((inner["name"], inner["state"]), ("inner", "ready"))
        self.dat("stop", "--now", env=inside).succeeded()
        self.assertEqual(self.files_in(doors), [])
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()

    def test_ends_when_its_time_is_over(self):
        self.start("-t", "1.5s")
        eventually(lambda: not self.dats(), "the DAT has ended")
        self.assert_no_dat_left()


class Windows(SandboxTest):
    """What is said of times that will not be as asked for."""

    up_options = ("--conf", "policy.jobspec.defaults.system.duration='10m'")

    def alarms(self, *arguments):
        ran = self.dat(*self.start_arguments("--quiet", *arguments)).succeeded()
        self.dat("stop", "--now").succeeded()
        return [line.partition("warning: ")[2] for line in ran.err.splitlines()]

    def test_before_an_end_that_is_too_near(self):
        tells = ["--warn 15m is too long before the end of a DAT of 10m: it is passed over"]
        self.assertEqual(self.alarms("--warn", "15m,5m"), tells)
        self.assertEqual(self.alarms("--warn", "15m", "-t", "10m"), tells)
        self.assertIn("--close 1h is too long", self.alarms("--close", "1h")[0])
        self.assertEqual(self.alarms("--warn", "15m", "-t", "20m", "--close", "10m"), [])
        self.assertEqual(self.alarms(), [], "nobody asked for the default")

    def test_a_begin_time_that_has_passed(self):
        ran = self.dat(
            *self.start_arguments("--begin-time", "2026-01-02 03:04"), env={"TZ": "XYZ-1"}
        ).succeeded()
        self.assertIn(
            'warning: --begin-time "2026-01-02 03:04" is 2026-01-02 03:04:00 XYZ, which has '
            "passed: it starts now\n",
            ran.err,
        )
        self.dat("stop", "--now").succeeded()
        for fine in ("now", "+0", str(int(time.time()) - 10)):
            ran = self.dat(*self.start_arguments("--begin-time", fine)).succeeded()
            self.assertNotIn("passed", ran.err)
            self.dat("stop", "--now").succeeded()


class NoEnd(SandboxTest):
    def test_there_is_nothing_to_warn_before(self):
        ran = self.dat(*self.start_arguments("--quiet", "--warn", "1h", "--grace", "1m"))
        self.assert_says(ran.succeeded(), ["warning: the DAT has no end", "nothing comes of --warn, --grace"])
        self.dat("stop", "--now").succeeded()
        ran = self.dat(*self.start_arguments("--quiet", "--warn", "none")).succeeded()
        self.assertEqual(ran.err, "")


class ManyRanks(SandboxTest):
    size = 64

    def test_all_doors_are_there(self):
        self.start("-N64", "--user", "games")
        [dat] = self.dats()
        self.assertEqual(dat["nnodes"], 64)
        doors = sorted(self.doors.iterdir())
        self.assertEqual(len(doors), 64)
        for rank in range(64):
            self.assertTrue((door_of(dat, rank) / "local").is_socket())
            self.assertTrue((door_of(dat, rank) / "grants").is_file())
        self.dat("stop", "--now").succeeded()
        self.assert_no_dat_left()


class SameName(SandboxTest):
    def test_a_taken_name_is_refused(self):
        jobid = self.start("--name", "demo")
        self.start_fails(
            "--name", "demo", status=1, says=["demo", jobid, "--if-not-running"],
            leaves_nothing=False,
        )  # fmt: skip
        self.assertEqual([dat["id"] for dat in self.dats()], [jobid])

    def test_two_at_once_make_one(self):
        # Both at the same moment: what one of the two does, the other does as well.
        for _ in range(5):
            both = [
                self.dat_background(*self.start_arguments("--name", "demo")) for _ in range(2)
            ]
            ended = [one.wait() for one in both]
            self.assertEqual(sorted(ran.status for ran in ended), [0, 1], list(map(str, ended)))
            [loser] = [ran for ran in ended if ran.status == 1]
            self.assert_says(loser, "demo")
            self.assertEqual(len(self.dats()), 1)
            self.dat("stop", "--now").succeeded()
            self.assert_no_dat_left()

    def test_two_at_once_with_if_not_running_agree(self):
        both = [
            self.dat_background(*self.start_arguments("--name", "demo", "--if-not-running"))
            for _ in range(2)
        ]
        ended = [one.wait().succeeded() for one in both]
        self.assertEqual(len({ran.out for ran in ended}), 1)
        self.assertEqual(len(self.dats()), 1)


    def test_one_that_is_not_as_asked_for(self):
        first = self.start("--name", "demo", "-N2", "-t", "2h")

        def again(*arguments):
            ran = self.dat(*self.start_arguments("--name", "demo", "--if-not-running", *arguments))
            self.assertEqual(ran.succeeded().out.strip(), "" if "--quiet" in arguments else first)
            return ran

        self.assertEqual(again("-N2", "-t", "2h").err, "")
        self.assertEqual(again("-N2").err, "")
        ran = again("-N3", "-t", "4h")
        self.assertEqual(
            ran.err,
            f'flux-dat start: warning: the DAT "demo" that is there, job {first}, is not as '
            "asked for: 2 nodes, not 3, and for 2h, not for 4h\n",
        )
        self.assert_says(again("-N3", "-t", "2h", "--quiet"), "2 nodes, not 3")
        # Its end may have been moved, which is no mail of cron's.
        self.assertEqual(again("-N2", "-t", "4h", "--quiet").err, "")


class Limits(SandboxTest):
    """What the parent's policy does not allow is refused by the parent."""

    up_options = ("--conf", '[policy.limits]\nduration = "2h"\njob-size.max.nnodes = 2\n')

    def test_a_window_that_is_longer_than_allowed(self):
        self.start_fails("-t", "3h", status=1, says=["not accepted", "3h", "2h"])
        self.start_fails("-t", "2h", "-N3", status=1, says=["not accepted", "nnodes", "2"])
        self.start("-t", "2h", "-N2")
