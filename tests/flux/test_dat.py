# SPDX-License-Identifier: LGPL-3.0-or-later
"""A DAT's life on a real Flux: what owner, guest, member of a group and stranger see."""

import base64
import grp
import pwd
import socket
import subprocess
import time
import unittest

from tests.lib.realflux import (
    GROUP,
    GUEST,
    IMP,
    MEMBER,
    OWNER,
    SECOND_OWNER,
    STRANGER,
    WHY_NOT,
    FluxTest,
    door_of,
    eventually,
    fluxwire,
    imp_configuration,
    needs_flux,
    needs_second_owner,
)
from tests.lib.sandbox import acting_as


def uid(user):
    return pwd.getpwnam(user).pw_uid


class DatTest(FluxTest):
    """What a DAT of two nodes with one guest must be like, whoever owns it."""

    def setUp(self):
        super().setUp()
        self.left_before = set(self.files_in(self.instance.tmp))

    def dat(self, *arguments, **options):
        """As people call it: flux finds flux-dat in PATH."""
        return self.run_flux("dat", *arguments, **options)

    def assert_guest_runs_on_both_ranks(self, jobid, user=GUEST):
        out = self.run_in(jobid, "-N2", "--label-io", "id", user=user).succeeded().out
        lines = sorted(out.splitlines())
        self.assertEqual([line.partition(": ")[0] for line in lines], ["0", "1"])
        account = pwd.getpwnam(user)
        for line in lines:
            self.assertIn(f"uid={account.pw_uid}({user})", line)
            self.assertIn(f"gid={account.pw_gid}(", line)

    def assert_stranger_refused_on_every_rank(self, dat):
        for rank in range(dat["nnodes"]):
            path = f"{door_of(dat, rank)}/local"
            with acting_as(STRANGER), socket.socket(socket.AF_UNIX) as client:
                with self.assertRaises(PermissionError, msg=path):
                    client.connect(path)
            ran = self.run_flux("getattr", "rank", user=STRANGER, env={"FLUX_URI": f"local://{path}"})
            self.assertNotEqual(ran.status, 0)
            self.assertIn("Permission denied", ran.err)
        ran = self.run_in(dat["id"], "true", user=STRANGER)
        self.assertNotEqual(ran.status, 0)
        self.assertIn("Permission denied", ran.err)

    def assert_only_the_door_is_open(self, dat):
        """A guest reaches the socket, and nothing else of the rank."""
        for rank in range(dat["nnodes"]):
            door = door_of(dat, rank)
            self.assertEqual(door.stat().st_mode & 0o007, 0)
            self.assertEqual(door.stat().st_uid, uid(self.owner))
            guest = self.flux(GUEST, f"local://{door}/local")
            self.assertEqual(guest.rpc("attr.get", {"name": "rank"})["value"], str(rank))
            rundir = guest.rpc("attr.get", {"name": "rundir"})["value"]
            with acting_as(GUEST), self.assertRaises(PermissionError):
                list(door.iterdir())
            with acting_as(GUEST), self.assertRaises(PermissionError):
                (door / "grants").read_bytes()
            with acting_as(GUEST), self.assertRaises(PermissionError):
                list(type(door)(rundir).iterdir())

    def assert_stopped(self, jobid):
        """No job, no door, no process, nothing that the brokers made."""
        self.assertNotIn(fluxwire.parse_jobid(jobid), self.active_jobs())
        self.assert_no_dat_left()
        # Killed brokers of the tests before this one left theirs.
        self.assertEqual(set(self.files_in(self.instance.tmp)) - self.left_before, set())
        mine = str(self.doors).encode()
        for pid, words in commands():
            self.assertNotIn(mine, words, f"process {pid}")

    def whole_life(self):
        jobid = self.start("-N2", "--name", "demo", "--user", GUEST)
        self.assertRegex(jobid, r"\Aƒ[1-9A-HJ-NP-Za-km-z]+\Z")
        [dat] = self.dats()
        self.assertEqual((dat["id"], dat["state"], dat["owner"]), (jobid, "ready", self.owner))
        self.assert_guest_runs_on_both_ranks(jobid)
        self.assert_stranger_refused_on_every_rank(dat)
        self.assert_only_the_door_is_open(dat)
        listed = self.run_flux("jobs", "-A", "-no", "{id} {name} {nodelist} {username}")
        self.assertEqual(listed.succeeded().out.split(), [jobid, "demo", dat["nodelist"], self.owner])
        self.dat("stop").succeeded()
        self.assert_stopped(jobid)


def commands():
    """(pid, command line) of all living processes."""
    listing = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, check=True)
    for line in listing.stdout.splitlines():
        pid, _, words = line.strip().partition(b" ")
        yield int(pid), words


@needs_flux
class Owner(DatTest):
    def test_the_whole_life(self):
        self.whole_life()

    def test_status_is_the_same_for_everybody(self):
        self.start("-N2", "--name", "demo", "--user", GUEST, "-t", "1h")
        seen = {user: self.dats(user=user) for user in (OWNER, GUEST, STRANGER)}
        self.assertEqual(seen[GUEST], seen[OWNER])
        self.assertEqual(seen[STRANGER], seen[OWNER])
        [dat] = seen[OWNER]
        self.assertEqual(dat["duration"], 3600)
        self.assertAlmostEqual(dat["expiration"] - dat["t_run"], 3600, delta=60)
        self.assertEqual((dat["users"], dat["generation"], dat["applied"]), ([uid(GUEST)], 1, 1))
        for user in (OWNER, GUEST):
            head, row = self.dat("status", user=user).succeeded().out.splitlines()
            cells = dict(zip(head.split(), row.split(maxsplit=7)))
            # The time left goes on between the two.
            self.assertRegex(cells.pop("LEFT"), r"\A(1h00m|59m\d\ds)\Z")
            self.assertEqual(
                cells,
                {
                    "NAME": "demo", "ID": dat["id"], "OWNER": OWNER, "STATE": "ready",
                    "NODES": "2", "NODELIST": dat["nodelist"], "GUESTS": "1 user",
                },
            )  # fmt: skip

    def test_a_group_is_let_in_by_its_group(self):
        jobid = self.start("-N2", "--group", GROUP)
        [dat] = self.dats()
        self.assertEqual(dat["groups"], [grp.getgrnam(GROUP).gr_gid])
        self.assert_guest_runs_on_both_ranks(jobid, MEMBER)
        self.assert_stranger_refused_on_every_rank(dat)

    def test_open_lets_everybody_in(self):
        jobid = self.start("-N2", "--open")
        for user in (GUEST, STRANGER):
            self.assert_guest_runs_on_both_ranks(jobid, user)

    def test_owner_runs_jobs_with_flux_dat_run(self):
        self.start("-N2", "--name", "demo")
        ran = self.dat("run", "-N2", "sh", "-c", "id -un; exit 3")
        self.assertEqual((ran.status, ran.out), (3, f"{OWNER}\n{OWNER}\n"))

    def test_guest_runs_jobs_with_flux_dat_run(self):
        self.start("-N2", "--name", "demo", "--user", GUEST)
        ran = self.dat("run", "--dat", "demo", "-N2", "id", "-un", user=GUEST)
        self.assertEqual((ran.status, ran.out), (0, f"{GUEST}\n{GUEST}\n"))

    def test_root_may_ask_for_a_guests_jobspec(self):
        """As a prolog does; and root is no guest who could not enter."""
        jobid = self.start("-N1", "--user", GUEST)
        inner = self.run_in(jobid, "true", user=GUEST).succeeded()
        del inner
        last = self.run_flux("proxy", jobid, "flux", "jobs", "-A", "-a", "-no", "{id}")
        job = last.succeeded().out.strip()
        ran = self.run_flux("proxy", jobid, "flux", "job", "info", job, "jobspec", user="root")
        self.assertIn('"tasks"', ran.succeeded().out)

    def test_a_pending_one_becomes_ready_by_itself(self):
        first = self.start("-N4", "--name", "first")
        waiting = self.dat_background(
            *self.start_arguments("-N4", "--name", "second", "--user", GUEST)
        )
        eventually(lambda: len(self.dats()) == 2, "the second one is submitted")
        self.assertEqual({dat["name"]: dat["state"] for dat in self.dats()}["second"], "pending")
        self.dat("stop", "--dat", first).succeeded()
        second = waiting.wait().succeeded().out.strip()
        [dat] = self.dats()
        self.assertEqual((dat["id"], dat["state"], dat["applied"]), (second, "ready", 1))
        self.assert_guest_runs_on_both_ranks(second)

    def test_begin_time(self):
        jobid = self.start("-N1", "--begin-time", "+2s", "--user", GUEST)
        names = [name for name, _ in self.eventlog(jobid)]
        self.assertIn("dependency-remove", names)
        self.assertEqual(self.dats()[0]["state"], "ready")

    def test_requires_and_flux_alloc_options(self):
        self.start(
            "-N1", "-t", "90", "--requires", "host:fluke133", "--urgency", "20",
            "-S", "user.note=hello", "--env", "DAT_TEST=yes",
        )  # fmt: skip
        [dat] = self.dats()
        self.assertEqual((dat["nodelist"], dat["duration"]), ("fluke133", 5400))
        # `jobspec` is what was submitted without its environment.
        signed = self.flux().rpc(
            "job-info.lookup", {"id": dat["jobid"], "keys": ["J"], "flags": 0}
        )["J"]
        jobspec = fluxwire.json.loads(base64.b64decode(signed.split(".")[1]))
        attributes = jobspec["attributes"]
        self.assertEqual(attributes["user"]["note"], "hello")
        self.assertEqual(attributes["system"]["environment"]["DAT_TEST"], "yes")

    def test_two_dats_beside_each_other(self):
        for name, guest in (("one", GUEST), ("two", MEMBER)):
            self.start("-N2", "--name", name, "--user", guest)
        one, two = sorted(self.dats(), key=lambda dat: dat["name"])
        self.assert_guest_runs_on_both_ranks(one["id"], GUEST)
        self.assert_guest_runs_on_both_ranks(two["id"], MEMBER)
        self.assertIn("Permission denied", self.run_in(one["id"], "true", user=MEMBER).err)
        self.assertIn("Permission denied", self.run_in(two["id"], "true", user=GUEST).err)
        self.dat("stop").ended(4)
        self.dat("stop", "--dat", "one").succeeded()
        self.assertEqual([dat["name"] for dat in self.dats()], ["two"])
        self.assert_guest_runs_on_both_ranks(two["id"], MEMBER)

    def guest_job(self, script):
        """A guest's running job, which says "began", in the only DAT."""
        [dat] = self.dats()
        # Not by flux proxy, which gives its words to another shell.
        uri = f"local://{door_of(dat)}/local"
        running = self.background(
            "flux", "run", "sh", "-c", script, user=GUEST, env={"FLUX_URI": uri}
        )
        eventually(lambda: "began" in running.stdout(), "the guest's job runs")
        return running

    def test_stop_waits_for_running_jobs(self):
        jobid = self.start("-N2", "--user", GUEST)
        running = self.guest_job(
            f"echo began; while ! test -e {self.place}/go; do sleep 0.05; done; echo done"
        )
        stopping = self.background("flux", "dat", "stop", "--grace", "1h")
        eventually(lambda: self.dats()[0]["state"] == "stopping", "it is stopping")
        refused = self.run_in(jobid, "true", user=GUEST)
        self.assertNotEqual(refused.status, 0, "closed to new jobs")
        self.assertIn("disabled", refused.err)
        (self.place / "go").touch()
        ran = running.wait()
        self.assertEqual((ran.status, ran.out), (0, "began\ndone\n"))
        stopping.wait().succeeded()
        self.assert_stopped(jobid)

    def test_stop_now_does_not_wait(self):
        self.start("-N2", "--user", GUEST)
        running = self.guest_job("echo began; exec sleep 3600")
        self.dat("stop", "--now").succeeded()
        self.assertNotEqual(running.wait().status, 0)
        self.assert_no_dat_left()

    def test_a_guest_may_not_stop_it(self):
        self.start("-N1", "--name", "demo", "--user", GUEST)
        self.dat("stop", "--dat", "demo", user=GUEST).ended(7)
        self.assertEqual(self.dats()[0]["state"], "ready")

    def test_ends_when_its_time_is_over(self):
        jobid = self.start("-N2", "-t", "1h", "--user", GUEST)
        [dat] = self.dats()
        # A second from now. As a time limit of the start, it would be a race.
        soon = time.time() + 1 - dat["t_run"]
        self.flux().rpc(
            "job-manager.update",
            {"id": dat["jobid"], "updates": {"attributes.system.duration": soon}},
        )
        eventually(lambda: not self.active_jobs(), "the window is over")
        exceptions = [c["type"] for name, c in self.eventlog(jobid) if name == "exception"]
        self.assertIn("timeout", exceptions)
        self.assert_no_dat_left()


@needs_flux
@needs_second_owner
class SecondOwner(DatTest):
    """A DAT of somebody who is a guest of the system instance."""

    def setUp(self):
        super().setUp()
        self.owner = SECOND_OWNER

    def test_the_whole_life(self):
        self.whole_life()

    def test_the_instances_owner_may_enter_only_as_a_guest(self):
        jobid = self.start("-N2", "--user", OWNER)
        self.assert_guest_runs_on_both_ranks(jobid, OWNER)

    def test_root_may_ask_for_a_guests_jobspec(self):
        jobid = self.start("-N1", "--user", GUEST)
        self.run_in(jobid, "true", user=GUEST).succeeded()
        listing = self.run_flux("proxy", jobid, "flux", "jobs", "-A", "-a", "-no", "{id}")
        job = listing.succeeded().out.strip()
        ran = self.run_flux("proxy", jobid, "flux", "job", "info", job, "jobspec", user="root")
        self.assertIn('"tasks"', ran.succeeded().out)


PROLOG = {} if WHY_NOT else imp_configuration().get("run", {})


@needs_flux
@unittest.skipUnless(
    OWNER in PROLOG.get("prolog", {}).get("allowed-users", []),
    WHY_NOT or f"the IMP's configuration has no [run.prolog] for {OWNER}",
)
class Prolog(DatTest):
    """The parent's prolog, which runs as root, is inherited and asks the DAT."""

    configuration = (
        '[job-manager]\nplugins = [ { load = "perilog.so" } ]\n'
        "[job-manager.prolog]\nper-rank = true\n"
        f'command = ["{IMP}", "run", "prolog"]\n'
    )

    def test_a_guests_job_runs(self):
        jobid = self.start("-N2", "--user", GUEST)
        self.assert_guest_runs_on_both_ranks(jobid)
        uri = f"local://{door_of(self.dats()[0])}/local"
        [job] = self.flux(uri=uri).rpc(
            "job-list.list",
            {"max_entries": 0, "since": 0.0, "attrs": ["userid"], "constraint": {}},
        )["jobs"]
        self.assertEqual(job["userid"], uid(GUEST))
        finished = [
            context["status"]
            for name, context in self.eventlog(fluxwire.f58(job["id"]), uri=uri)
            if name == "prolog-finish"
        ]
        self.assertEqual(finished, [0])
