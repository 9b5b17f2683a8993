# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat in a sandbox of its own, for system tests.

    class Start(SandboxTest):
        size = 4
        def test_ready(self):
            jobid = self.start("-N2", "--name", "demo")
            self.dat("status").succeeded()

A SandboxTest brings its sandbox up for each test and takes it down after it. Then it
asserts that no process, no door and no file is left. As root, the sandbox belongs to
OWNER, as a system instance belongs to user flux, and `user=` runs a command as somebody
else; otherwise everything runs as the user who runs the tests.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from tests.lib import fluxwire, wireproxy

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLUX_DAT_TEST_BUILD", TOP / "build"))
PROGRAM = BUILD / "cli" / "flux-dat"

ROOT = os.geteuid() == 0
# Accounts that every Debian has.
OWNER = "daemon" if ROOT else pwd.getpwuid(os.geteuid()).pw_name
OWNER_ID = pwd.getpwnam(OWNER).pw_uid
GUEST = "games"
STRANGER = "nobody"

# How long a wait for something that must come may take (seconds). Not a speed limit.
PATIENCE = 300.0
POLL = 0.02  # seconds between two looks

needs_root = unittest.skipUnless(ROOT, "needs root, to act as several users")


def eventually(condition, what, patience=PATIENCE):
    """Waits until condition() is true, and gives its value.

    Looks are counted, not the time: where everything was stopped for a while, what is
    waited for could not come either.
    """
    for _ in range(round(patience / POLL)):
        value = condition()
        if value:
            return value
        time.sleep(POLL)
    raise AssertionError(f"{what}: not within {patience:.0f} s")


@contextlib.contextmanager
def acting_as(user):
    """This process has the effective ids of that user, where it is root's."""
    if not ROOT:
        yield
        return
    account = pwd.getpwnam(user)
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@dataclasses.dataclass
class Ran:
    """A command that has ended."""

    command: list
    status: int
    out: str
    err: str

    def succeeded(self):
        return self.ended(0)

    def ended(self, status):
        assert self.status == status, f"expected exit {status} of {self}"
        return self

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return (
            f"{shlex.join(map(str, self.command))}: exit {self.status}\n"
            f"stdout: {self.out}\nstderr: {self.err}"
        )


class Running:
    """A command that is running, with its output going to files."""

    def __init__(self, command, **options):
        self.command = command
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        options = {
            "stdin": subprocess.DEVNULL, "stdout": self.out, "stderr": self.err, **options
        }  # fmt: skip
        self.process = subprocess.Popen(command, **options)
        self.pid = self.process.pid

    @staticmethod
    def content(file):
        # Not by the file's own position, which the process shares.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(
            errors="replace"
        )

    def stderr(self):
        return self.content(self.err)

    def stdout(self):
        return self.content(self.out)

    def says(self, text):
        """Waits until it has said that on standard error."""

        def said():
            if text in self.stderr():
                return True
            if self.process.poll() is not None:
                assert text in self.stderr(), f"{text!r} was never said: {self.wait()}"
            return False

        eventually(said, f"{self.command} says {text!r}")
        return self

    def signal(self, signum):
        self.process.send_signal(signum)
        return self

    def wait(self, patience=PATIENCE):
        try:
            eventually(lambda: self.process.poll() is not None, "it ends", patience)
        except AssertionError:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"does not end: {self.command}\n{self.stderr()}") from None
        return Ran(self.command, self.process.returncode, self.stdout(), self.stderr())


def processes_of(program):
    """{pid: command line} of the living processes that execute this very file."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            if os.readlink(f"/proc/{entry}/exe") != str(program):
                continue
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found[int(entry)] = b" ".join(words).decode(errors="replace").strip()
    return found


class Installed:
    """The program in a directory that every user can reach, as the build tree may not be.

    `flux-dat` there is a file of its own, so that its processes can be told from those
    of other tests.
    """

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="bin-"))
        self.directory.chmod(0o755)
        self.program = self.directory / "flux-dat"
        shutil.copyfile(PROGRAM, self.program)
        self.program.chmod(0o755)

    def remove(self):
        shutil.rmtree(self.directory)


class SandboxTest(unittest.TestCase):
    size = 4
    up_options = ()  # more options of `sandbox up`

    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.remove)

    def setUp(self):
        # Short: a UNIX socket's path has at most 107 bytes.
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="s-"))
        self.addCleanup(shutil.rmtree, self.place)
        self.place.chmod(0o755)
        self.home, self.doors = self.place / "home", self.place / "doors"
        for directory in (self.home, self.doors):
            directory.mkdir(mode=0o755)
            if ROOT:
                shutil.chown(directory, OWNER)
        self.env = {
            "PATH": f"{self.installed.directory}:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "FLUX_DAT_SANDBOX_DIR": str(self.home / "sandbox"),
        }
        self.env.update(
            (name, value)
            for name, value in os.environ.items()
            if name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TMPDIR")
        )
        self.sandbox_is_up = False
        self.up()
        self.addCleanup(self.down)

    # The sandbox

    def up(self):
        self.dat("sandbox", "up", "--size", str(self.size), *self.up_options).succeeded()
        self.sandbox_is_up = True
        self.engine = set(processes_of(self.installed.program))
        for line in self.dat("sandbox", "env").succeeded().out.splitlines():
            words = shlex.split(line)
            for word in words[1:] if words[0] == "export" else words:
                name, equals, value = word.partition("=")
                if equals:
                    self.env[name] = value

    def down(self):
        if self.sandbox_is_up:
            self.sandbox_is_up = False
            self.dat("sandbox", "down").succeeded()
        self.assert_no_process(set())
        self.assertEqual(self.files_in(self.doors), [])
        self.assertEqual(self.files_in(self.home), [])

    # Commands

    def background(self, *arguments, user=OWNER, env=None, **options):
        """A command as a user; of flux-dat, if it does not begin with another program."""
        command = [str(argument) for argument in arguments]
        if ROOT:
            account = pwd.getpwnam(user)
            options.setdefault("user", account.pw_uid)
            options.setdefault("group", account.pw_gid)
            options.setdefault("extra_groups", [])
        elif user != OWNER:
            self.skipTest("needs root, to act as several users")
        environment = {
            name: value
            for name, value in {**self.env, **(env or {})}.items()
            if value is not None
        }
        options.setdefault("cwd", "/")
        return Running(command, env=environment, **options)

    def run_as(self, user, *arguments, **options):
        return self.background(*arguments, user=user, **options).wait()

    def dat_background(self, *arguments, **options):
        return self.background(self.installed.program, *arguments, **options)

    def dat(self, *arguments, **options):
        return self.dat_background(*arguments, **options).wait()

    def start_arguments(self, *arguments):
        if "--door-dir" in arguments:
            return ["start", *arguments]
        return ["start", "--door-dir", str(self.doors), *arguments]

    def start(self, *arguments, **options):
        """flux-dat start; gives the job id that it printed."""
        return self.dat(*self.start_arguments(*arguments), **options).succeeded().out.strip()

    def start_fails(self, *arguments, status, says, leaves_nothing=True, **options):
        """start refuses, with exit status, one line with each of `says` in it, and
        nothing left behind."""
        ran = self.dat(*self.start_arguments(*arguments), **options).ended(status)
        self.assert_says(ran, says)
        self.assertEqual(ran.out, "", "nothing on stdout")
        if leaves_nothing:
            self.assert_no_dat_left()
        return ran

    def assert_says(self, ran, says):
        line = ran.err.rstrip("\n").splitlines()[-1] if ran.err else ""
        self.assertTrue(line.startswith("flux-dat"), f"no message: {ran}")
        for text in (says,) if isinstance(says, str) else says:
            self.assertIn(text, line)

    def dats(self, **options):
        return self.dat("status", "--json", **options).succeeded().json()["dats"]

    # The wire

    def flux(self, user=OWNER, uri=None):
        """A client of our own, of the sandbox or of the DAT at `uri`."""
        with acting_as(user):
            client = fluxwire.Flux(uri or self.env["FLUX_URI"])
        self.addCleanup(client.close)
        return client

    def cancel(self, jobid, note="cancelled by the test"):
        self.flux().rpc(
            "job-manager.raise",
            {"id": fluxwire.parse_jobid(jobid), "type": "cancel", "severity": 0, "note": note},
        )

    def proxy(self, moment, act):
        """A man in the middle before the sandbox, see wireproxy.WireProxy."""
        socket = fluxwire.socket_path(self.env["FLUX_URI"])
        proxy = wireproxy.WireProxy(
            self.place / f"proxy-{'x' if callable(moment) else moment}",
            socket,
            moment,
            act,
            pwd.getpwnam(OWNER) if ROOT else None,
        )
        self.addCleanup(proxy.close)
        return proxy

    # Processes

    def supervisors(self, worker=False):
        """The processes of the DATs' supervisors, two each, or the inner ones."""
        wanted = ["supervise", "--worker"] if worker else ["supervise"]
        return [
            pid
            for pid, words in processes_of(self.installed.program).items()
            if words.split()[1 : 1 + len(wanted)] == wanted
        ]

    def broker_of(self, rank):
        """Of the one DAT of the sandbox; the watcher over its door has a session of its own."""
        ours = processes_of(self.installed.program)
        found = []
        for pid, words in ours.items():
            with contextlib.suppress(OSError):
                process = pathlib.Path(f"/proc/{pid}")
                variables = (process / "environ").read_bytes().split(b"\0")
                if (
                    "broker" in words.split()
                    and os.getsid(pid) in ours
                    and f"FLUX_TASK_RANK={rank}".encode() in variables
                ):
                    found.append(pid)
        [broker] = found
        return broker

    # What is left

    @staticmethod
    def files_in(directory):
        return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))

    def assert_no_process(self, but):
        def others():
            return {
                pid: words
                for pid, words in processes_of(self.installed.program).items()
                if pid not in but
            }

        try:
            eventually(lambda: not others(), "all processes have ended")
        except AssertionError as late:
            raise AssertionError(f"{late}; left: {others()}") from None

    def assert_no_dat_left(self):
        """No DAT, no door, and no process but the sandbox's own."""
        self.assertEqual(self.dats(), [])
        self.assert_no_process(self.engine)
        self.assertEqual(self.files_in(self.doors), [])
