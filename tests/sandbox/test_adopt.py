# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat adopt: a Flux instance that was started by hand becomes a DAT."""

import contextlib
import os
import pathlib
import pwd
import signal
import subprocess

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

ALLOWED = '[access]\nallow-guest-user = true\n[exec]\nimp = "/bin/true"\n'


class AdoptTest(SandboxTest):
    def by_hand(self, conf=ALLOWED, nodes=2):
        """An instance as a job, as flux-alloc(1) makes it; gives its job id."""
        path = self.place / "conf.toml"
        path.write_text(conf)
        spec = fluxwire.jobspec(["flux", "broker", "-c", str(path), "sleep", "600"], nodes=nodes)
        job = self.flux().submit(spec, userid=OWNER_ID)
        self.addCleanup(self.end, job)

        def uri():
            jobs = self.flux().rpc("job-list.list-id", {"id": job, "attrs": ["all"]})["job"]
            return jobs.get("annotations", {}).get("user", {}).get("uri")

        # ssh://HOST/PATH, all on this machine
        path = eventually(uri, "it is up").split("://", 1)[1].partition("/")[2]
        self.socket = pathlib.Path("/" + path)
        return fluxwire.f58(job)

    def end(self, job):
        if self.sandbox_is_up:
            client = self.flux()
            try:
                client.rpc("job-manager.raise", {"id": job, "type": "cancel", "severity": 0, "note": ""})
            except fluxwire.FluxError:
                return  # it has ended
            client.wait_event(job, "clean")

    def levels(self):
        """Those of the way to the socket that are the owner's."""
        return [path for path in self.socket.parents if path.stat().st_uid == OWNER_ID]

    def modes(self):
        return [path.stat().st_mode & 0o7777 for path in self.levels()]

    def enters(self, user):
        try:
            for rank in range(2):
                self.flux(user=user, uri=f"local://{self.socket.parent}/local-{rank}")
        except PermissionError:
            return False
        return True


@needs_root
class Adopt(AdoptTest):
    def test_it_is_a_dat_from_then_on(self):
        job = self.by_hand()
        before = self.modes()
        self.assertFalse(self.enters(GUEST))
        self.assertEqual(self.dats(), [])
        ran = self.dat("adopt", job, "--user", GUEST, "--name", "hand", "--manager", "bin")
        self.assertEqual((ran.succeeded().out, ran.err), ("", ""))
        [dat] = self.dats()
        self.assertEqual((dat["name"], dat["id"], dat["state"]), ("hand", job, "ready"))
        self.assertTrue(self.enters(GUEST))
        self.assertFalse(self.enters(STRANGER))
        detail = self.dat("status", "--dat", "hand").succeeded().out
        self.assertEqual(detail.count("door right"), 2, detail)
        self.dat("grant", STRANGER, user="bin").succeeded()
        self.assertTrue(self.enters(STRANGER))
        self.dat("revoke", GUEST).succeeded()
        self.assertFalse(self.enters(GUEST))
        # Undone, all is as it was, and the instance goes on.
        self.dat("adopt", "--undo", "hand").succeeded()
        self.assertEqual(self.modes(), before)
        self.assertFalse(self.enters(STRANGER))
        self.assertEqual(sorted(p.name for p in self.socket.parent.glob("flux-dat*")), [])
        self.assertEqual(self.dats(), [])
        eventually(lambda: not self.supervisors(), "its supervisor has gone")
        self.flux(uri=f"local://{self.socket}").rpc("attr.get", {"name": "size"})
        # And once more, from the beginning.
        self.dat("adopt", job, "--open", "--name", "again").succeeded()
        self.assertTrue(self.enters(STRANGER))
        history = self.dat("status", "--history").succeeded().out.splitlines()
        self.assertEqual(len(history), 2, history)
        self.assertEqual(self.dats()[0]["generation"], 1)

    def test_stop_ends_it(self):
        job = self.by_hand()
        self.dat("adopt", job, "--json").succeeded()
        self.dat("stop").succeeded()
        self.flux().wait_event(fluxwire.parse_jobid(job), "clean")
        eventually(lambda: not self.supervisors(), "its supervisor has gone")

    def test_it_ends_by_itself(self):
        job = self.by_hand()
        self.dat("adopt", job).succeeded()
        self.cancel(job)
        self.flux().wait_event(fluxwire.parse_jobid(job), "clean")
        eventually(lambda: not self.supervisors(), "its supervisor has gone")

    def test_the_worker_is_killed(self):
        job = self.by_hand()
        self.dat("adopt", job).succeeded()
        worker = self.supervisors(worker=True)
        os.kill(worker[0], signal.SIGKILL)
        eventually(lambda: self.dat("grant", GUEST).status == 0, "it serves again")
        self.assertTrue(self.enters(GUEST))

    def test_undo_where_the_supervisor_is_gone(self):
        job = self.by_hand()
        before = self.modes()
        self.dat("adopt", job, "--user", GUEST).succeeded()
        for pid in self.supervisors():
            with contextlib.suppress(ProcessLookupError):  # with one goes the other
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.supervisors(), "it is gone")
        self.assert_says(self.dat("grant", STRANGER).ended(1), "does not answer")
        self.dat("adopt", "--undo", job).succeeded()
        self.assertEqual(self.modes(), before)
        self.assertEqual(self.dats(), [])
        self.dat("adopt", job, "--user", GUEST).succeeded()

    def test_interrupted(self):
        job = self.by_hand()
        before = self.modes()
        # Wherever it is by then: all of it is done, or nothing.
        running = self.dat_background("adopt", job, "--user", GUEST)
        eventually(
            lambda: self.supervisors() or running.process.poll() is not None, "it is started"
        )
        running.signal(signal.SIGINT)
        ran = running.wait()
        if ran.status != 0:
            self.assertEqual(self.dats(), [])
            self.assertEqual(self.modes(), before)
            eventually(lambda: not self.supervisors(), "its supervisor has gone")
            self.dat("adopt", job, "--user", GUEST).succeeded()
        self.assertTrue(self.enters(GUEST))

    def test_two_at_once(self):
        job = self.by_hand()
        calls = [
            self.dat_background("adopt", job, "--user", GUEST, "--name", name)
            for name in ("one", "two")
        ]
        ran = [call.wait() for call in calls]
        self.assertEqual(sorted(one.status for one in ran), [0, 1], [str(one) for one in ran])
        [dat] = self.dats()
        self.assertEqual((dat["state"], dat["applied"]), ("ready", 1))
        self.assertEqual(len(self.supervisors()), 2)  # one, in two processes
        self.assertTrue(self.enters(GUEST))
        self.dat("revoke", GUEST).succeeded()
        self.dat("adopt", "--undo", job).succeeded()
        eventually(lambda: not self.supervisors(), "its supervisor has gone")
        self.assertEqual(self.dats(), [])
        self.assertFalse(self.enters(GUEST))

    def test_what_a_killed_one_leaves_can_be_undone(self):
        job = self.by_hand()
        before = self.modes()
        running = self.dat_background("adopt", job, "--user", GUEST)
        kept = self.socket.parent / "flux-dat-adopted"
        eventually(lambda: kept.exists() or running.process.poll() is not None, "it has begun")
        running.signal(signal.SIGKILL).wait()
        self.dat("adopt", "--undo", job).succeeded()
        self.assertEqual(self.modes(), before)
        self.assertFalse(self.enters(GUEST))
        self.assertEqual(self.dats(), [])
        eventually(lambda: not self.supervisors(), "its supervisor has gone")

    def test_undo_that_fails_gives_up_nothing(self):
        job = self.by_hand()
        self.dat("adopt", job, "--user", GUEST).succeeded()
        kept = self.socket.parent / "flux-dat-adopted"
        text = kept.read_text()
        kept.write_text(text.replace("end\n", ""))
        self.assert_says(self.dat("adopt", "--undo", job).ended(6), ["not undone", "is damaged"])
        self.assertEqual(len(self.dats()), 1)
        self.dat("revoke", GUEST).ended(6)
        self.assertFalse(self.enters(GUEST))
        kept.write_text(text)
        self.dat("adopt", "--undo", job).succeeded()
        self.assertEqual(self.dats(), [])

    def test_json(self):
        job = self.by_hand()
        adopted = self.dat("adopt", job, "--json").succeeded().json()
        self.assertEqual(
            adopted,
            {
                "version": 1, "id": job, "jobid": fluxwire.parse_jobid(job), "name": "dat",
                "adopted": True,
            },
        )  # fmt: skip
        undone = self.dat("adopt", "--undo", job, "--json").succeeded().json()
        self.assertFalse(undone["adopted"])


@needs_root
class Refused(AdoptTest):
    def refused(self, *arguments, status=1, says=(), **options):
        ran = self.dat("adopt", *arguments, **options).ended(status)
        self.assert_says(ran, says)
        self.assertEqual(self.dats(), [])
        self.assertEqual(self.supervisors(), [])

    def test_wrong_configuration(self):
        job = self.by_hand(conf="")
        self.refused(job, says=["lets no guest in", "[access] allow-guest-user = true"])
        self.assertEqual(self.modes()[0], 0o700)

    def test_no_imp(self):
        job = self.by_hand(conf="[access]\nallow-guest-user = true\n")
        self.refused(job, says=["names no IMP", "[exec] imp"])

    def test_which_job(self):
        self.refused("ƒ23", status=3, says="there is no job ƒ23")
        self.refused("no job", status=2, says="no job")
        self.refused(status=2, says="JOBID")
        sleeps = self.flux().submit(fluxwire.jobspec(["sleep", "600"], nodes=1), userid=OWNER_ID)
        self.addCleanup(self.end, sleeps)
        self.flux().wait_event(sleeps, "start")
        self.refused(fluxwire.f58(sleeps), says="is no Flux instance")
        self.end(sleeps)
        self.refused(fluxwire.f58(sleeps), says="does not run")

    def test_names_and_guests(self):
        job = self.by_hand()
        self.refused(job, "--name", "a/b", status=2, says="bad name")
        self.refused(job, "--user", "nosuchuser", status=2, says="no such user")
        self.refused(job, "--user", OWNER, status=2, says="owns the DAT")
        self.refused(job, "--undo", "--user", GUEST, status=2, says="exclude each other")
        self.refused("--undo", job, status=3, says="no DAT")

    def test_somebody_elses(self):
        job = self.by_hand()
        self.refused(job, status=7, says="only its owner", user=GUEST)
        self.dat("adopt", job).succeeded()
        self.dat("adopt", "--undo", job, user=GUEST).ended(7)
        self.assert_says(self.dat("adopt", job).ended(1), ['is the DAT "dat" already'])

    def test_a_dat_that_was_started(self):
        job = self.start("-N1")
        self.assert_says(self.dat("adopt", "--undo", job).ended(1), "was not adopted")
        self.assert_says(self.dat("adopt", job).ended(1), "already")

    def test_a_way_that_cannot_be_opened(self):
        job = self.by_hand()
        uid = pwd.getpwnam(STRANGER).pw_uid
        subprocess.run(["setfacl", "-m", f"u:{uid}:-", self.levels()[0]], check=True)
        self.refused(job, "--user", GUEST, says=["cannot be adopted", "rank 0", "ACL of its own"])
        self.assertFalse(self.enters(GUEST))
        self.assertEqual(list(self.socket.parent.glob("flux-dat*")), [])
