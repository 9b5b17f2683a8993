# SPDX-License-Identifier: LGPL-3.0-or-later
"""Guests' jobs on a real Flux whose exec.imp is flux-dat-imp, and the same with flux-imp.

What is asserted of a job's end (its exit status, what its eventlog and flux-jobs(1) say)
is asserted of both IMPs alike, in the system instance and in a DAT: whoever looks from
outside cannot tell which of them was there.

    FLUX_DAT_TEST_GUEST_JOBS=1000   how many short jobs run in a row (default 20)
    FLUX_DAT_TEST_PREFIX=DIR        the installed program: tests/lib/realimp.py
"""

import os
import pwd
import signal
import time

from tests.lib.realflux import (
    GUEST,
    IMP,
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
from tests.lib.sandbox import PATIENCE

JOBS = int(os.environ.get("FLUX_DAT_TEST_GUEST_JOBS", "20"))
# Until Flux kills what ignores SIGTERM; where the job shell does not answer either, it
# sends SIGUSR1 to the IMP after five times that.
KILL_TIMEOUT = "0.2s"


def by_signal(signum):
    """wait(2) status of a job whose task was ended by a signal, as its shell tells it."""
    return (128 + signum) << 8


class Guests:
    """Guests' jobs at `self.uri`, the class' IMP being `self.imp`."""

    bundled = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # To end the brokers in order takes as long as a test does.
        cls.addClassCleanup(cls.instance.kill)

    @classmethod
    def new_instance(cls):
        cls.imp, env = IMP, {}
        if cls.bundled:
            cls.bundle = BundledImp()
            cls.addClassCleanup(cls.bundle.remove)
            cls.imp, env = cls.bundle.program, cls.bundle.env
        cls.imp_env = env
        return Instance(
            cls.size,
            cls.configuration,
            imp=cls.imp,
            execution=f'kill-timeout = "{KILL_TIMEOUT}"',
            env=env,
        )

    def setUp(self):
        super().setUp()
        # A DAT's brokers have the environment of who started it.
        self.env.update(self.imp_env)
        self.shared = self.place / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        self.enter()

    # Jobs

    def guest_command(self, *command, user=GUEST):
        return self.background(*command, user=user, env={"FLUX_URI": self.uri})

    def guest(self, *command, user=GUEST):
        return self.guest_command(*command, user=user).wait()

    def submit(self, *arguments):
        return self.guest("flux", "submit", *arguments).succeeded().out.strip()

    def wait_event(self, job, path, event):
        self.guest("flux", "job", "wait-event", "-qW", "-p", path, job, event).succeeded()

    def began(self, *arguments, script, tasks=1):
        """A running job; each task has written its job shell's process id, and runs `script`."""
        write = f"echo $PPID >{self.shared}/.$FLUX_TASK_RANK; cd {self.shared}"
        move = "mv .$FLUX_TASK_RANK shell.$FLUX_TASK_RANK"
        job = self.submit(*arguments, "sh", "-c", f"{write}; {move}; {script}")
        self.wait_event(job, "guest.exec.eventlog", "shell.start")
        eventually(lambda: len(list(self.shared.glob("shell.*"))) == tasks, "the tasks run")
        return job

    def end_of(self, job):
        """How it ended: exit status of attach; exception type, or None, and wait status;
        result and return code as flux-jobs(1) has them."""
        self.wait_event(job, "eventlog", "clean")
        attached = self.guest("flux", "job", "attach", job)
        events = self.eventlog(job, uri=self.uri)
        names = [name for name, _ in events]
        self.assertEqual(
            [name for name in names if name in ("start", "finish", "release", "free", "clean")],
            ["start", "finish", "release", "free", "clean"],
            events,
        )
        exceptions = [context["type"] for name, context in events if name == "exception"]
        self.assertEqual(names.count("exception"), len(exceptions[:1]), events)
        [status] = [context["status"] for name, context in events if name == "finish"]
        listed = self.guest("flux", "jobs", "-no", "{result} {returncode}", job).succeeded()
        exception = exceptions[0] if exceptions else None
        return (attached.status, exception, status, *listed.out.split())


class GuestJobs(Guests):
    """What guests can do, wherever that is."""

    def test_they_have_their_own_ids_on_every_node(self):
        account = pwd.getpwnam(GUEST)
        ran = self.guest("flux", "run", "-N2", "--label-io", "id").succeeded()
        lines = sorted(ran.out.splitlines())
        self.assertEqual([line.partition(": ")[0] for line in lines], ["0", "1"])
        for line in lines:
            self.assertIn(f"uid={account.pw_uid}({GUEST}) gid={account.pw_gid}(", line)
        self.assertEqual(ran.err, "")

    def test_exit_status(self):
        segv = 128 + signal.SIGSEGV
        for script, status, wait_status in (
            ("exit 3", 3, 3 << 8),
            ("kill -SEGV $$", segv, by_signal(signal.SIGSEGV)),
        ):
            job = self.submit("-N2", "sh", "-c", script)
            self.assertEqual(self.end_of(job), (status, None, wait_status, "FAILED", str(status)))

    def test_short_ones_in_a_row(self):
        submitted = self.guest_command(
            "flux", "submit", f"--cc=1-{JOBS}", "--quiet", "--wait",
            f"--output={self.shared}/{{{{id}}}}", "id", "-un",
        )  # fmt: skip
        ran = submitted.wait(PATIENCE + JOBS).succeeded()
        self.assertEqual(ran.err, "")
        out = [path.read_text() for path in self.shared.iterdir()]
        self.assertEqual(out, [f"{GUEST}\n"] * JOBS)
        listed = self.guest("flux", "jobs", "-a", "-c0", "-no", "{result} {returncode}")
        self.assertEqual(listed.succeeded().out.splitlines()[:JOBS], ["COMPLETED 0"] * JOBS)

    def test_cancelled(self):
        job = self.began("-N2", script="exec sleep 3600", tasks=2)
        self.guest("flux", "cancel", job).succeeded()
        end = (128 + signal.SIGTERM, "cancel", by_signal(signal.SIGTERM), "CANCELED")
        self.assertEqual(self.end_of(job), (*end, str(128 + signal.SIGTERM)))

    def test_out_of_time(self):
        job = self.began("-N2", "-t", "1h", script="exec sleep 3600", tasks=2)
        # A moment from now. As a time limit of the submission, it would be a race.
        number = fluxwire.parse_jobid(job)
        listed = self.flux(uri=self.uri).rpc("job-list.list-id", {"id": number, "attrs": ["t_run"]})
        soon = time.time() + 0.3 - listed["job"]["t_run"]
        self.flux(uri=self.uri).rpc(
            "job-manager.update",
            {"id": number, "updates": {"attributes.system.duration": soon}},
        )
        end = (128 + signal.SIGALRM, "timeout", by_signal(signal.SIGALRM), "TIMEOUT")
        self.assertEqual(self.end_of(job), (*end, str(128 + signal.SIGALRM)))

    def test_killed_when_sigterm_does_nothing(self):
        script = "trap '' TERM; while :; do sleep 0.1; done"
        job = self.began("-N2", script=script, tasks=2)
        self.guest("flux", "cancel", job).succeeded()
        end = (128 + signal.SIGKILL, "cancel", by_signal(signal.SIGKILL), "CANCELED")
        self.assertEqual(self.end_of(job), (*end, str(128 + signal.SIGKILL)))

    def test_killed_when_the_job_shell_does_nothing(self):
        """Not by the shell, which cannot: by the IMP, when it gets SIGUSR1."""
        job = self.began(script="exec sleep 3600")
        os.kill(int((self.shared / "shell.0").read_text()), signal.SIGSTOP)
        self.guest("flux", "cancel", job).succeeded()
        self.assertEqual(
            self.end_of(job),
            (128 + signal.SIGKILL, "cancel", int(signal.SIGKILL), "CANCELED", "-9"),
        )

    def test_of_two_users_at_once(self):
        # Each ends when the other one has begun.
        meet = "touch {0}/$(id -un); while ! test -e {0}/{1}; do sleep 0.05; done; id -un"
        running = {
            user: self.guest_command(
                "flux", "run", "-N2", "-n2", "sh", "-c", meet.format(self.shared, other), user=user
            )
            for user, other in ((GUEST, MEMBER), (MEMBER, GUEST))
        }
        for user, one in running.items():
            self.assertEqual(one.wait().succeeded().out.split(), [user] * 2)


class InSystem(Guests):
    """In the system instance."""

    def enter(self):
        self.uri = self.instance.uri


class InDat(Guests):
    """In a DAT, the same for all tests; its brokers are jobs of the system instance."""

    jobid = None

    def enter(self):
        cls = type(self)
        if not cls.jobid:
            cls.doors = self.instance.place / "doors"
            cls.doors.mkdir()
            cls.doors.chmod(0o1777)
        # In the place of those that go with a test.
        self.doors = cls.doors
        if not cls.jobid:
            cls.addClassCleanup(self.leave)
            cls.jobid = self.start(
                "-N2", "--user", f"{GUEST},{MEMBER}", "--imp", str(self.imp),
                f"--conf=exec.kill-timeout='{KILL_TIMEOUT}'",
            )  # fmt: skip
        [self.found] = self.dats()
        self.uri = f"local://{door_of(self.found)}/local"

    def down(self):
        """The DAT stays, without jobs."""
        self.cancel_all(self.uri)

    def leave(self):
        self.cancel_all()
        self.assert_no_process(set())
        self.assertEqual(self.files_in(self.doors), [])
        self.doCleanups()

    def only_the_imp(self):
        """Of the layers that keep a stranger out. The doors are opened as root can, and
        nobody should; the supervisor, which would cancel the jobs, is stopped."""
        for pid in self.supervisors():
            os.kill(pid, signal.SIGSTOP)
            self.addCleanup(os.kill, pid, signal.SIGCONT)
        for rank in range(2):
            door = door_of(self.found, rank)
            self.addCleanup(door.chmod, door.stat().st_mode & 0o777)
            door.chmod(0o711)

    def test_flux_proxy(self):
        out = self.run_in(self.jobid, "-N2", "id", "-un", user=GUEST).succeeded().out
        self.assertEqual(out.split(), [GUEST] * 2)


@needs_flux
class System(GuestJobs, InSystem, FluxTest):
    size = 2


@needs_flux
class SystemWithPeer(GuestJobs, InSystem, FluxTest):
    size, bundled = 2, False


@needs_flux
class Dat(GuestJobs, InDat, FluxTest):
    size = 2

    def test_a_stranger_who_came_in_is_refused(self):
        self.only_the_imp()
        for rank in range(2):
            # Of one node: where one of several does not come up, Flux drains them all.
            where = f"--requires=rank:{rank}"
            ran = self.guest("flux", "run", "-N1", where, "id", "-un", user=STRANGER)
            self.assertEqual((ran.status, ran.out), (1, ""))
            job = self.guest("flux", "job", "last", user=STRANGER).succeeded().out.strip()
            [said] = [
                context["data"]
                for name, context in self.eventlog(job, "guest.exec.eventlog", uri=self.uri)
                if name == "log"
            ]
            self.assertIn(f"user {STRANGER}({pwd.getpwnam(STRANGER).pw_uid}) is not on", said)
        out = self.guest("flux", "run", "-N2", "id", "-un").succeeded().out
        self.assertEqual(out.split(), [GUEST] * 2)


@needs_flux
class DatWithPeer(GuestJobs, InDat, FluxTest):
    size, bundled = 2, False

    def test_a_stranger_who_came_in_runs_jobs(self):
        """Else the bundled IMP would not be what refuses."""
        self.only_the_imp()
        ran = self.guest("flux", "run", "-N2", "id", "-un", user=STRANGER).succeeded()
        self.assertEqual(ran.out.split(), [STRANGER] * 2)


@needs_flux
class PrologAndEpilog(InSystem, FluxTest):
    """As root, on each node of a job, through `flux-dat-imp run`."""

    size = 2

    @classmethod
    def new_instance(cls):
        cls.bundle = BundledImp()
        cls.addClassCleanup(cls.bundle.remove)
        cls.imp, cls.imp_env = cls.bundle.program, cls.bundle.env
        cls.log = cls.bundle.directory / "log"
        configuration = '[job-manager]\nplugins = [ { load = "perilog.so" } ]\n'
        for name in ("prolog", "epilog"):
            cls.bundle.command(
                name,
                f'echo "{name} $(id -u) $FLUX_JOB_ID $FLUX_JOB_USERID $FLUX_OWNER_USERID"'
                f" >>{cls.log}",
            )
            configuration += (
                f"[job-manager.{name}]\nper-rank = true\n"
                f'command = ["{cls.imp}", "run", "{name}"]\n'
            )
        return Instance(cls.size, configuration, imp=cls.imp, env=cls.imp_env)

    def assert_both_run(self):
        """For a guest's job on two nodes at self.uri."""
        self.log.write_text("")
        job = self.submit("-N2", "true")
        self.assertEqual(self.end_of(job), (0, None, 0, "COMPLETED", "0"))
        lines = [line.split() for line in self.log.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            line[2] = fluxwire.parse_jobid(line[2])
        ids = [str(pwd.getpwnam(user).pw_uid) for user in (GUEST, OWNER)]
        self.assertEqual(
            lines,
            [
                [name, "0", fluxwire.parse_jobid(job), *ids]
                for name in ("prolog", "prolog", "epilog", "epilog")
            ],
        )
        statuses = [
            (name, context["status"])
            for name, context in self.eventlog(job, uri=self.uri)
            if name in ("prolog-finish", "epilog-finish")
        ]
        self.assertEqual(statuses, [("prolog-finish", 0), ("epilog-finish", 0)])

    def test_of_the_system_instance(self):
        self.assert_both_run()

    def test_of_a_dat_which_inherits_them(self):
        self.start("-N2", "--user", GUEST, "--imp", str(self.imp))
        [dat] = self.dats()
        self.uri = f"local://{door_of(dat)}/local"
        self.assert_both_run()
