# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat grant and revoke on a real Flux: who comes in, on which ranks, and what goes
wrong. The DATs have the bundled IMP, which asks the guest list, too.

What the commands refuse, and what a door's file system does, is in
tests/sandbox/test_grant.py.
"""

import collections
import contextlib
import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess

from tests.lib import imp, wireproxy
from tests.lib.realflux import (
    GROUP,
    GUEST,
    MEMBER,
    OWNER,
    STRANGER,
    FluxTest,
    Instance,
    door_of,
    eventually,
    fluxwire,
    needs_flux,
)
from tests.lib.realimp import BundledImp
from tests.lib.sandbox import acting_as

MANAGER = "bin"
OFF_LIST = "is not on the guest list"


def uid(name):
    return pwd.getpwnam(name).pw_uid


class MachinesMunged(imp.Munged):
    """The one that Flux uses here, which is not ours to start or stop."""

    def __init__(self):
        pass

    def credential(self, content, user):
        return subprocess.run(
            ["munge"], input=content, stdout=subprocess.PIPE, check=True, **imp.as_user(user)
        ).stdout.decode().strip()  # fmt: skip


class ListTest(FluxTest):
    nodes = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # To end the brokers in order takes as long as a test does.
        cls.addClassCleanup(cls.instance.kill)

    @classmethod
    def new_instance(cls, kind=Instance):
        cls.bundle = BundledImp()
        cls.addClassCleanup(cls.bundle.remove)
        return kind(cls.size, cls.configuration, imp=cls.bundle.program, env=cls.bundle.env)

    def setUp(self):
        super().setUp()
        # A DAT's brokers have the environment of who started it, and the IMP from them.
        self.env.update(self.bundle.env)

    def start_arguments(self, *arguments):
        return super().start_arguments("--imp", str(self.bundle.program), *arguments)

    def start_dat(self, *arguments):
        self.jobid = self.start(
            f"-N{self.nodes}", "--name", "demo", "--user", GUEST, "--manager", MANAGER, *arguments
        )
        self.look()

    def look(self):
        [self.found] = self.dats()
        self.uri = self.uri_of(0)
        return self.found

    def uri_of(self, rank):
        return f"local://{door_of(self.found, rank)}/local"

    def at(self, rank):
        """The environment of a command on another node of the system."""
        return {"FLUX_URI": f"local://{self.instance.run}/local-{rank}"}

    # Who comes in

    def enters(self, user, rank):
        with acting_as(user), socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(fluxwire.socket_path(self.uri_of(rank)))
            except PermissionError:
                return False
        return True

    def assert_works(self, user):
        """On all ranks at once, as the guest does it."""
        ran = self.run_in(self.jobid, f"-N{self.nodes}", "id", "-un", user=user).succeeded()
        self.assertEqual(ran.out.split(), [user] * self.nodes)

    def assert_refused(self, user):
        """On every rank."""
        ranks = range(self.nodes)
        self.assertEqual([rank for rank in ranks if self.enters(user, rank)], [], user)
        ran = self.run_in(self.jobid, "true", user=user)
        self.assertNotEqual(ran.status, 0)
        self.assertIn("Permission denied", ran.err)

    def guests(self):
        return {pwd.getpwuid(user).pw_name for user in self.look()["users"]}

    def eventually_applied(self):
        def applied():
            return self.look()["applied"] == self.found["generation"]

        eventually(applied, "the list is in force on all ranks")

    # The supervisor

    @contextlib.contextmanager
    def stopped(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill_worker(self):
        """With -9; gives when there is another one."""
        [first] = self.supervisors(worker=True)
        os.kill(first, signal.SIGKILL)
        eventually(
            lambda: self.supervisors(worker=True) not in ([], [first]), "there is another worker"
        )

    # Jobs over a connection that is open already

    def signed(self, *command, user=GUEST, **options):
        env = {"PATH": self.env["PATH"]}
        spec = fluxwire.jobspec(command, cwd="/", env=env, **options)
        return MachinesMunged().sign(user, json.dumps(spec).encode())

    def submit(self, client, *command, user=GUEST, **options):
        J = self.signed(*command, user=user, **options)
        return client.rpc("job-ingest.submit", {"J": J, "urgency": 16, "flags": 0})["id"]

    def ended(self, job, path="eventlog"):
        """[(event name, context)...] of a job of the DAT, at its end."""
        self.flux(uri=self.uri).wait_event(job, "clean")
        return self.eventlog(fluxwire.f58(job), path, uri=self.uri)

    def assert_cancelled(self, job):
        notes = [context["note"] for name, context in self.ended(job) if name == "exception"]
        self.assertTrue(any(OFF_LIST in note for note in notes), notes)

    def drained(self):
        """{rank: reason} of the DAT's drained nodes."""
        status = self.flux(uri=self.uri).rpc("resource.status", {})
        return {
            rank: drain["reason"]
            for ranks, drain in status["drain"].items()
            for rank in idset(ranks)
        }


def idset(text):
    ranks = []
    for part in text.strip("[]").split(","):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


class InAndOut(ListTest):
    """What holds of a DAT of any size, with GUEST on its list; leaves only GUEST there."""

    def in_and_out_at_once_and_in_again(self):
        self.assert_refused(STRANGER)
        self.dat("grant", STRANGER, env=self.at(3)).succeeded()
        self.assert_works(STRANGER)
        inside = self.flux(STRANGER, self.uri_of(1))
        running = self.submit(inside, "sleep", "3600", user=STRANGER, nodes=1)
        inside.wait_event(running, "start")
        self.dat("revoke", STRANGER, env=self.at(2)).succeeded()
        self.assert_refused(STRANGER)
        self.assert_cancelled(running)
        self.assert_cancelled(self.submit(inside, "true", user=STRANGER, nodes=2))
        self.dat("grant", STRANGER).succeeded()
        self.assert_works(STRANGER)
        self.assert_works(GUEST)
        self.assert_refused(MEMBER)
        detail = self.dat("status", "--dat", "demo").succeeded().out
        self.assertRegex(detail, rf"user +{STRANGER}, since \d{{4}}-.*, by {OWNER}\n")
        self.assertRegex(detail, r"imp +/.*asks the guest list")
        self.dat("revoke", STRANGER).succeeded()
        history = self.dat("status", "--history").succeeded().out
        for what in ("granted", "revoked"):
            self.assertEqual(history.count(f"{what} user {STRANGER}"), 2)

    def the_imp_alone_refuses(self):
        inside = self.flux(GUEST, self.uri)
        self.dat("revoke", GUEST).succeeded()
        pids = self.supervisors()
        self.assertEqual(len(pids), 2)
        with self.stopped(pids):
            for rank in (0, self.nodes - 1):
                constraint = {"ranks": [str(rank)]}
                job = self.submit(inside, "true", nodes=1, constraints=constraint)
                names = [name for name, _ in self.ended(job)]
                self.assertIn("start", names)
                log = self.ended(job, "guest.exec.eventlog")
                said = [context["data"] for name, context in log if name == "log"]
                self.assertTrue(any(OFF_LIST in line for line in said), log)
        self.dat("grant", GUEST).succeeded()

    def by_group_and_by_manager(self):
        self.dat("grant", "-g", GROUP, user=MANAGER, env=self.at(1)).succeeded()
        self.assert_works(MEMBER)
        self.assert_refused(STRANGER)
        self.assert_refused(MANAGER)  # not by being one
        inside = self.flux(MEMBER, self.uri)
        self.dat("grant", "--open", user=MANAGER).ended(7)
        self.dat("grant", STRANGER, user=MEMBER, env=self.at(1)).ended(7)
        self.dat("revoke", "-g", GROUP, user=MANAGER, env=self.at(2)).succeeded()
        self.assert_refused(MEMBER)
        self.assert_cancelled(self.submit(inside, "true", user=MEMBER, nodes=2))
        self.dat("grant", MANAGER, user=MANAGER).succeeded()
        self.assert_works(MANAGER)
        self.dat("grant", "--open").succeeded()
        self.assert_works(STRANGER)
        self.dat("grant", "--close").succeeded()
        self.assert_refused(STRANGER)
        self.dat("revoke", MANAGER, user=MANAGER).succeeded()


@needs_flux
class Grant(InAndOut):
    def setUp(self):
        super().setUp()
        self.start_dat()

    def test_in_and_out_at_once_and_in_again(self):
        self.in_and_out_at_once_and_in_again()

    def test_the_imp_alone_refuses(self):
        self.the_imp_alone_refuses()

    def test_by_group_and_by_manager(self):
        self.by_group_and_by_manager()


@needs_flux
class Kept(ListTest):
    def test_jobs_may_be_kept(self):
        self.start_dat()
        inside = self.flux(GUEST, self.uri)
        flag = self.place / "flag"
        script = f"until [ -e {flag} ]; do sleep 0.05; done"
        job = self.submit(inside, "sh", "-c", script, nodes=2)
        inside.wait_event(job, "shell.start", "guest.exec.eventlog")
        self.dat("revoke", "--keep-jobs", GUEST).succeeded()
        self.assert_refused(GUEST)
        self.assert_cancelled(self.submit(inside, "true", nodes=2))
        flag.touch()
        [status] = [context["status"] for name, context in self.ended(job) if name == "finish"]
        self.assertEqual(status, 0)

    def test_a_pending_one(self):
        jobid = self.start(
            "-N2", "--name", "demo", "--user", GUEST, "--urgency", "hold", "--no-wait"
        )
        ran = self.dat("grant", STRANGER, env=self.at(3)).succeeded()
        self.assertIn("recorded; in force when the DAT starts", ran.err)
        self.dat("revoke", GUEST, env=self.at(2)).succeeded()
        self.flux().rpc("job-manager.urgency", {"id": fluxwire.parse_jobid(jobid), "urgency": 16})
        eventually(lambda: self.dats()[0]["state"] == "ready", "it is ready")
        self.jobid = jobid
        self.look()
        self.assertEqual((self.found["generation"], self.found["applied"]), (3, 3))
        self.assert_works(STRANGER)
        self.assert_refused(GUEST)


@needs_flux
class Private(ListTest):
    """In a system instance where nobody sees jobs of others."""

    configuration = "[access]\nallow-guest-user = true\nprivate-mode = true\n"

    def test_a_guest_is_told(self):
        self.start_dat()
        self.assertEqual(self.dats(user=GUEST), [])
        told = self.dat("status", "--dat", self.jobid, user=GUEST, env=self.at(3)).succeeded().out
        [command] = [line for line in told.splitlines() if line.startswith("you ")]
        words = command.partition("on the guest list: ")[2].split()
        self.assertEqual(words[:2], ["flux", "proxy"])
        self.assertEqual(words[2:], [self.found["uri"]])
        # Not by that URI as it is: with one of ssh://, whoever calls it and whatever the
        # instance, flux-proxy(1) of Flux 0.88 now and then ends by SIGPIPE when all is done.
        local = f"local://{fluxwire.socket_path(words[2])}"
        ran = self.run_flux("proxy", local, "flux", "run", "-N2", "id", "-un", user=GUEST)
        self.assertEqual(ran.succeeded().out.split(), [GUEST] * 2)
        ran = self.dat("run", "--dat", self.jobid, "id", "-un", user=GUEST).succeeded()
        self.assertEqual(ran.out, f"{GUEST}\n")
        for command in ("status", "run"):
            words = ["true"] if command == "run" else []
            self.dat(command, "--dat", self.jobid, *words, user=STRANGER).ended(7)
        ran = self.dat("run", "--dat", "demo", "true", user=GUEST).ended(3)
        self.assert_says(ran, ["private mode", "give the job id"])
        self.dat("grant", "--dat", self.jobid, MEMBER, user=MANAGER).succeeded()
        self.dat("revoke", "--dat", self.jobid, MEMBER, user=MANAGER).succeeded()
        self.dat("grant", "--dat", self.jobid, STRANGER, user=GUEST).ended(7)
        granted = self.dat("grant", STRANGER).succeeded()
        self.assertIn("is in private mode", granted.err)
        self.assertIn(self.uri.removeprefix("local://"), granted.err)
        told = self.dat("status", "--dat", self.jobid, user=STRANGER).succeeded().out
        self.assertIn("on the guest list", told)


@needs_flux
class Drained(ListTest):
    """Flux drains nodes where a job ended before its shells had met."""

    size = 2

    def setUp(self):
        super().setUp()
        self.start_dat()
        self.inside = self.flux(GUEST, self.uri)

    def spoilt_job(self, user=GUEST):
        """A guest's job that makes Flux drain both nodes."""
        rc = self.place / "spoilt.lua"
        rc.write_text("os.exit(1)\n")
        ran = self.run_in(self.jobid, "-N2", "-o", f"userrc={rc}", "true", user=user)
        self.assertNotEqual(ran.status, 0)
        eventually(lambda: len(self.drained()) == 2, "Flux has drained both nodes")

    def undrain(self):
        self.flux(uri=self.uri).rpc("resource.undrain", {"targets": "0-1"}, nodeid=0)

    def eventually_nothing_drained(self):
        eventually(lambda: not self.drained(), "no node is drained")

    def test_many_jobs_of_somebody_revoked(self):
        self.dat("revoke", GUEST).succeeded()
        jobs = [self.signed("true", nodes=2) for _ in range(50)]
        # All at once: no answer is waited for.
        tags = [
            self.inside._request(
                "job-ingest.submit", {"J": J, "urgency": 16, "flags": 0}, fluxwire.ANY, 0
            )
            for J in jobs
        ]
        for tag in tags:
            self.assert_cancelled(self.inside._wait(tag, None).json["id"])
        self.eventually_nothing_drained()
        self.dat("grant", GUEST).succeeded()
        self.assert_works(GUEST)

    def test_what_the_imp_refused(self):
        self.dat("revoke", GUEST).succeeded()
        with self.stopped(self.supervisors()):
            job = self.submit(self.inside, "true", nodes=2)
            names = [name for name, _ in self.ended(job)]
            self.assertIn("start", names)
            eventually(lambda: len(self.drained()) == 2, "Flux has drained both nodes")
        self.eventually_nothing_drained()
        self.dat("grant", STRANGER).succeeded()
        self.assert_works(STRANGER)

    def test_what_the_imp_refused_while_there_was_no_worker(self):
        """The next one reads of it, though the guest is back on the list by then."""
        self.dat("revoke", GUEST).succeeded()
        workers = self.supervisors(worker=True)
        with self.stopped(set(self.supervisors()) - set(workers)):
            os.kill(workers[0], signal.SIGKILL)
            self.ended(self.submit(self.inside, "true", nodes=2))
            eventually(lambda: len(self.drained()) == 2, "Flux has drained both nodes")
            # As grant would, but there is nobody who would answer it.
            self.post_change(grant=[GUEST])
        self.eventually_nothing_drained()
        self.assert_works(GUEST)

    def test_what_a_job_of_a_guest_drained_stays(self):
        self.spoilt_job()
        before = self.drained()
        # Nor when the guest is off the list, and everything is read anew.
        self.dat("revoke", GUEST).succeeded()
        self.kill_worker()
        self.eventually_answers()
        self.assertEqual(self.drained(), before)
        self.undrain()

    def test_what_an_administrator_drained_stays(self):
        self.flux(uri=self.uri).rpc(
            "resource.drain", {"targets": "1", "reason": "repairs"}, nodeid=0
        )
        self.dat("revoke", GUEST).succeeded()
        # On the other node alone: of one node, none is drained.
        self.assert_cancelled(self.submit(self.inside, "true", nodes=1))
        self.kill_worker()
        self.eventually_answers()
        self.assertEqual(self.drained(), {1: "repairs"})

    def post_change(self, grant):
        named = {"users": [pwd.getpwnam(user).pw_uid for user in grant], "groups": [], "managers": []}
        nobody = {"users": [], "groups": [], "managers": []}
        change = {
            "version": 1, "key": "by hand", "by": 0, "grant": named, "revoke": nobody,
            "open": "as before", "keep_jobs": False,
        }  # fmt: skip
        job = fluxwire.parse_jobid(self.jobid)
        self.flux().rpc("job-manager.memo", {"id": job, "memo": {"dat_change": change}})

    def eventually_answers(self):
        """The supervisor does, and has read what there was to read."""
        eventually(lambda: self.dat("grant", STRANGER).status == 0, "it serves again")
        self.eventually_applied()


@needs_flux
class Faults(ListTest):
    def test_a_broker_that_was_killed_between_two_grants(self):
        self.start_dat()
        self.dat("grant", STRANGER).succeeded()
        os.kill(self.broker_of(1), signal.SIGKILL)
        ran = self.dat("grant", MEMBER).ended(6)
        self.assert_says(ran, ["not in force on all ranks", "rank 1 (fluke132): "])
        self.assertNotIn("rank 0", ran.err)
        # To a request that was under way when the broker died no answer ever comes.
        self.assertNotIn("no answer yet", ran.err)
        self.assertIn("degraded", self.dat("status").succeeded().out)
        self.assertTrue(self.look()["degraded"])
        # The DAT lives, with what is left.
        self.assertEqual(
            [self.enters(user, 0) for user in (GUEST, STRANGER, MEMBER)], [True] * 3
        )
        ran = self.run_in(self.jobid, "-N1", "id", "-un", user=MEMBER).succeeded()
        self.assertEqual(ran.out, f"{MEMBER}\n")
        self.dat("revoke", MEMBER).ended(6)
        self.assertFalse(self.enters(MEMBER, 0))

    def broker_of(self, rank):
        """The process id of a DAT's broker, from the socket it listens at."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(entry.name)
                words = (entry / "cmdline").read_bytes()
                name = (entry / "comm").read_text()
                if name.startswith("flux-broker") and f"{door_of(self.found, rank)}/" in words.decode():
                    return pid
        raise AssertionError(f"no broker of rank {rank}")

    def test_the_worker_is_killed_in_the_middle(self):
        self.start_dat()
        names = ["sys", "man", "lp", "news"]
        obstacle = door_of(self.found, 1) / "grants.new"
        obstacle.mkdir()  # so that each of them is in its middle
        inside = self.flux(GUEST, self.uri)
        job = self.submit(inside, "sleep", "3600", nodes=2)
        inside.wait_event(job, "shell.start", "guest.exec.eventlog")
        calls = [
            self.dat_background("grant", name, env=self.at(rank))
            for rank, name in enumerate(names)
        ]
        eventually(lambda: self.look()["generation"] == 1 + len(names), "all are recorded")
        self.kill_worker()
        obstacle.rmdir()
        for call in calls:
            call.signal(signal.SIGTERM)  # the worker that would have answered is gone
            call.wait()
        self.eventually_applied()
        self.assertEqual(self.guests(), {GUEST, *names})
        self.assertEqual(
            [self.enters(name, rank) for name in names for rank in range(2)], [True] * 8
        )
        events = [name for name, _ in self.eventlog(fluxwire.f58(job), uri=self.uri)]
        self.assertNotIn("finish", events)

    def test_twenty_changes_at_once(self):
        """From all nodes, by owner and manager: the list is what their sequence says."""
        self.start_dat()
        names = ["sys", "man", "lp", "news", "uucp"]
        calls = [
            self.dat_background(
                ("grant", "revoke")[number % 2],
                names[number // 2 % len(names)],
                user=(OWNER, MANAGER)[number // 4 % 2],
                env=self.at(number % self.size),
            )
            for number in range(20)
        ]
        for call in calls:
            call.wait().succeeded()
        expected, by = {uid(GUEST)}, collections.Counter()
        changes = 0
        for name, context in self.eventlog(self.jobid):
            if name == "memo" and "dat_change" in context:
                change = context["dat_change"]
                expected -= set(change["revoke"]["users"])
                expected |= set(change["grant"]["users"])
                by[change["by"]] += 1
                changes += 1
        self.look()
        self.assertEqual(set(self.found["users"]), expected)
        self.assertEqual(
            (self.found["generation"], self.found["applied"]), (1 + changes, 1 + changes)
        )
        # What changed nothing when it came may have been left out.
        self.assertLessEqual(set(by), {uid(OWNER), uid(MANAGER)})
        for rank in range(2):
            for name in names:
                self.assertEqual(self.enters(name, rank), uid(name) in expected, name)

    def test_the_parents_broker_is_gone_for_a_while(self):
        """As seen by the supervisor: a broker of a test instance cannot start again, so
        the supervisor's connection goes through a man in the middle, who leaves."""
        self.start_dat()
        [rank] = {int(host) - 131 for host in [self.found["nodelist"][6:9]]}
        path = self.instance.run / f"local-{rank}"
        real = path.with_suffix(".real")
        path.rename(real)
        proxy = wireproxy.WireProxy(path, real, None, None, pwd.getpwnam(OWNER))
        try:
            self.kill_worker()
            elsewhere = self.at(3)
            eventually(
                lambda: self.dat("grant", STRANGER, env=elsewhere).status == 0, "it serves"
            )
            proxy.close()
            path.unlink()
            ran = self.dat("grant", MEMBER, env=elsewhere).ended(1)
            self.assert_says(ran, ["demo", "does not answer", "flux-dat status"])
        finally:
            proxy.close()
            path.unlink(missing_ok=True)
            real.rename(path)
        eventually(
            lambda: self.dat("grant", MEMBER, env=elsewhere).status == 0, "it serves again"
        )
        self.assertEqual(self.guests(), {GUEST, STRANGER, MEMBER})
        for user in (GUEST, STRANGER, MEMBER):
            self.assert_works(user)
