# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat on a real Flux, for system tests.

    @needs_flux
    class Start(FluxTest):
        size = 4
        def test_ready(self):
            jobid = self.start("-N2", "--user", GUEST)
            self.run_as(GUEST, "flux", "proxy", jobid, "flux", "run", "id").succeeded()

A FluxTest starts a test instance of `size` brokers on this machine, once for the class:
a system instance for every purpose here, in a directory of its own, owned by OWNER, with
the machine's own flux-imp, or with another IMP where new_instance() says so. After each
test it ends what DATs there are, and asserts that no process, no door and no job of them
is left; so each test begins with nothing. Nothing outside of the directory is written,
and no installed system instance is touched.

Since flux-imp reads its configuration from a place that only root may write, OWNER is
somebody whom the machine's configuration allows. Where there is nobody, or anything else
is missing, `needs_flux` skips, and says what it was.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import tomllib
import unittest

from tests.lib import fluxwire, wireproxy
from tests.lib.sandbox import (
    GUEST,
    PATIENCE,
    ROOT,
    STRANGER,
    Installed,
    SandboxTest,
    acting_as,
    eventually,
    processes_of,
)

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
FLUX = shutil.which("flux", path=SYSTEM_PATH)
PREFIX = pathlib.Path(FLUX).parents[1] if FLUX else pathlib.Path("/usr")
IMP = PREFIX / "libexec/flux/flux-imp"
IMP_CONFIGURATION = (
    pathlib.Path("/etc") if PREFIX == pathlib.Path("/usr") else PREFIX / "etc"
) / "flux/imp/conf.d"
# A guest who is one by its group. Accounts that every Debian has.
MEMBER = GROUP = "mail"
# How long 64 brokers may take to come up on a machine that does other things as well,
# and how long they get to end before they are killed (seconds). Not speed limits.
START_PATIENCE = 300.0
SHUTDOWN_PATIENCE = 60.0

__all__ = [
    "GROUP", "GUEST", "IMP", "MEMBER", "OWNER", "SECOND_OWNER", "STRANGER", "Cluster", "FluxTest",
    "door_of", "eventually", "fluxwire", "imp_configuration", "needs_flux",
    "needs_second_owner", "processes_of",
]  # fmt: skip


def imp_configuration():
    """The IMP's configuration, as it takes it: a table of a later file replaces one of
    the same name."""
    tables = {}
    for path in sorted(IMP_CONFIGURATION.glob("*.toml")):
        tables.update(tomllib.loads(path.read_text()))
    return tables


def allowed_owners():
    owners = []
    for name in imp_configuration().get("exec", {}).get("allowed-users", []):
        with contextlib.suppress(KeyError):
            if pwd.getpwnam(name).pw_uid != 0 and name not in (GUEST, STRANGER, MEMBER):
                owners.append(name)
    return sorted(owners, key=lambda name: name != "flux")


def has_security():
    version = subprocess.run([FLUX, "version"], capture_output=True, text=True, check=False)
    return "libflux-security" in version.stdout


def munge_works():
    program = shutil.which("munge", path=SYSTEM_PATH)
    return bool(program) and (
        subprocess.run([program, "-n"], capture_output=True, check=False).returncode == 0
    )


def why_not():
    """What is missing for these tests; None if nothing is."""
    if not FLUX:
        return "flux is not installed"
    if not has_security():
        return f"{FLUX} was built without flux-security"
    if not ROOT:
        return "needs root, to act as several users"
    if not IMP.exists():
        return f"{IMP} is not there"
    if IMP.stat().st_uid != 0 or not IMP.stat().st_mode & stat.S_ISUID:
        return f"{IMP} is not setuid root"
    try:
        if not allowed_owners():
            return f"exec.allowed-users in {IMP_CONFIGURATION} allows no ordinary user"
    except (OSError, tomllib.TOMLDecodeError) as error:
        return f"{IMP_CONFIGURATION}: {error}"
    if not munge_works():
        # Not one of our own: which socket flux uses is told by a file of root's, which
        # is not ours to change.
        return "no munged is running, or not where munge(1) looks for it"
    return None


WHY_NOT = why_not()
OWNERS = [] if WHY_NOT else allowed_owners()
OWNER = OWNERS[0] if OWNERS else GUEST
SECOND_OWNER = OWNERS[1] if len(OWNERS) > 1 else None

needs_flux = unittest.skipIf(WHY_NOT, WHY_NOT or "")
needs_second_owner = unittest.skipUnless(
    SECOND_OWNER, WHY_NOT or f"exec.allowed-users in {IMP_CONFIGURATION} allows {OWNER} alone"
)


def door_of(dat, rank=0):
    """The directory of a rank's door; `dat` is an entry of status --json."""
    door = pathlib.Path(fluxwire.socket_path(dat["uri"])).parent
    return door.with_name(door.name.rpartition(".")[0] + f".{rank}")


def as_owner():
    """What makes subprocess run a command as OWNER."""
    account = pwd.getpwnam(OWNER)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class Instance:
    """A running test instance.

    `configuration` is more TOML, `execution` more lines of its [exec], and `env` what
    its brokers have in their environment besides, which the IMP has from them."""

    def __init__(self, size, configuration="", imp=IMP, execution="", env=()):
        # Short: a UNIX socket's path has at most 107 bytes.
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="f-"))
        self.place.chmod(0o755)
        self.run, self.conf, self.state = (
            self.directory(name) for name in ("run", "conf", "state")
        )
        self.tmp = self.place / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)
        self.uri = f"local://{self.run}/local-0"
        self.hosts = f"fluke[131-{130 + size}]"
        (self.conf / "system.toml").write_text(
            "[access]\nallow-guest-user = true\nallow-root-owner = true\n"
            f'[exec]\nimp = "{imp}"\n{execution}\n'
            '[tbon]\ntopo = "kary:256"\n'
            "[resource]\nnoverify = true\n"
            f'[[resource.config]]\nhosts = "{self.hosts}"\ncores = "0-1"\n'
        )
        (self.conf / "test.toml").write_text(configuration)
        self.env = {
            "PATH": SYSTEM_PATH,
            "HOME": str(self.directory("home")),
            "TMPDIR": str(self.tmp),
            "LC_ALL": "C.UTF-8",
            "FLUX_IPADDR_INTERFACE": "lo",
            **dict(env),
        }
        self.log = self.place / "log"
        self.start(size)

    def directory(self, name):
        path = self.place / name
        path.mkdir(mode=0o755)
        shutil.chown(path, OWNER)
        return path

    def popen(self, *command, **options):
        return subprocess.Popen(
            command,
            env={**self.env, "FLUX_URI": self.uri},
            cwd="/",
            stdin=subprocess.DEVNULL,
            **as_owner(),
            **options,
        )

    def start(self, size):
        ready = self.place / "home" / "ready"
        # Named queues are stopped when an instance has booted.
        program = f"flux queue start --quiet --all; touch {ready}; exec sleep inf"
        with open(self.log, "wb") as log:
            self.process = self.popen(
                "flux", "start", f"--test-size={size}", f"--test-hosts={self.hosts}",
                f"--test-rundir={self.run}", "--test-exit-mode=leader", f"-c{self.conf}",
                f"-Sstatedir={self.state}", "-Slog-stderr-level=4", "sh", "-c", program,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.sessions = {self.process.pid}
        try:
            eventually(
                lambda: ready.exists() or self.process.poll() is not None,
                "the test instance is up",
                START_PATIENCE,
            )
            assert ready.exists(), f"the test instance: {self.log.read_text(errors='replace')}"
        except AssertionError:
            self.end()
            raise

    def end(self):
        """Ends it in order, or else by force, and removes its directory. May be repeated."""
        if self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen("flux", "shutdown", "--quiet").wait(SHUTDOWN_PATIENCE)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(SHUTDOWN_PATIENCE)
        self.kill()
        shutil.rmtree(self.place, ignore_errors=not self.place.exists())

    def kill(self):
        """Kills it as a machine that loses power would."""
        mine = str(self.place).encode()
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and (
                    os.getsid(int(entry)) in self.sessions
                    or mine in pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
                ):
                    os.kill(int(entry), signal.SIGKILL)
        self.process.wait()

    def brokers(self):
        """The brokers' process ids, by rank."""
        pids = {}
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError):
                status = pathlib.Path(f"/proc/{int(entry)}/stat").read_text()
                name = status[status.index("(") + 1 : status.rindex(")")]
                parent = int(status[status.rindex(")") + 1 :].split()[1])
                if parent == self.process.pid and name.startswith("flux-broker-"):
                    pids[int(name.removeprefix("flux-broker-"))] = int(entry)
        return pids


class Cluster(Instance):
    """One whose brokers were started each for itself, as a site's nodes start theirs: each
    may be killed, and started again."""

    def start(self, size):
        cert = self.conf / "curve.cert"
        shutil.chown(self.conf, OWNER)
        subprocess.run(
            [FLUX, "keygen", str(cert)], check=True, stdout=subprocess.DEVNULL, **as_owner()
        )
        hosts = [
            f'{{ host = "{self.host(rank)}", bind = "{end}", connect = "{end}"'
            + (f', parent = "{self.host(0)}" }}' if rank else " }")
            for rank in range(size)
            for end in [f"ipc://{self.state}/{rank}"]
        ]
        (self.conf / "bootstrap.toml").write_text(
            f'[bootstrap]\ncurve_cert = "{cert}"\nhosts = [\n' + ",\n".join(hosts) + "\n]\n"
        )
        self.processes, self.sessions = {}, set()
        try:
            self.start_brokers(*range(size))
            self.popen("flux", "queue", "start", "--quiet", "--all").wait()
        except AssertionError:
            self.end()
            raise

    def host(self, rank):
        return f"fluke{131 + rank}"

    @property
    def process(self):
        return self.processes[0]

    def start_brokers(self, *ranks):
        """Until they are up. The first one is when all are."""
        for rank in ranks:
            self.start_broker(rank)
        for rank in ranks:
            eventually(
                lambda rank=rank: self.is_up(rank), f"{self.host(rank)} is up", START_PATIENCE
            )

    def start_broker(self, rank):
        rundir = self.run / str(rank)
        if not rundir.exists():
            self.directory(f"run/{rank}")
        account = pwd.getpwnam(OWNER)
        with open(self.log, "ab") as log:
            self.processes[rank] = subprocess.Popen(
                [
                    # A broker finds itself in the list by its host's name.
                    "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.host(rank),
                    "setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}",
                    "--clear-groups", "--", FLUX, "broker", f"-c{self.conf}",
                    f"-Srundir={rundir}", f"-Slocal-uri=local://{self.run}/local-{rank}",
                    f"-Sstatedir={self.state}", "-Sbroker.rc2_none=1", "-Slog-stderr-level=4",
                ],
                env=self.env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.sessions.add(self.processes[rank].pid)

    def is_up(self, rank):
        assert self.processes[rank].poll() is None, self.log.read_text(errors="replace")
        with contextlib.suppress(OSError, fluxwire.FluxError), acting_as(OWNER):
            client = fluxwire.Flux(f"local://{self.run}/local-{rank}", timeout=PATIENCE)
            try:
                return client.rpc("state-machine.get", {})["state"] == "run"
            finally:
                client.close()
        return False

    def kill_broker(self, rank):
        process = self.processes[rank]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def kill(self):
        super().kill()
        for process in self.processes.values():
            process.wait()


class FluxTest(SandboxTest):
    size = 4
    configuration = ""  # more TOML for the instance
    execution = ""  # more lines of its [exec]

    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.remove)
        cls.instance = cls.new_instance()
        # Not `cls.instance.end`: a test may replace the instance.
        cls.addClassCleanup(lambda: cls.instance.end())

    @classmethod
    def new_instance(cls):
        return Instance(cls.size, cls.configuration, execution=cls.execution)

    def setUp(self):
        self.owner = OWNER
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="t-"))
        self.addCleanup(shutil.rmtree, self.place)
        self.place.chmod(0o755)
        self.doors = self.place / "doors"
        self.doors.mkdir()
        # Each owner of a DAT makes doors, as in a /run/flux that several may write.
        self.doors.chmod(0o1777)
        self.env = {
            **self.instance.env,
            "PATH": f"{self.installed.directory}:{SYSTEM_PATH}",
            "HOME": str(self.place),
            "FLUX_URI": self.instance.uri,
            "FLUX_URI_RESOLVE_LOCAL": "t",
        }
        self.env.update(
            (name, value)
            for name, value in os.environ.items()
            if name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")
        )
        self.engine = set()
        self.addCleanup(self.down)

    def down(self):
        """Whatever is left of this test's jobs ends; then nothing may be left."""
        self.cancel_all()
        self.assert_no_process(set())
        self.assertEqual(self.files_in(self.doors), [])

    def cancel_all(self, uri=None):
        """Ends all jobs of the instance, or of the DAT at `uri`."""
        if self.instance.process.poll() is not None:
            return
        with contextlib.suppress(OSError):
            flux = self.flux(uri=uri)
            for jobid in self.active_jobs(uri):
                with contextlib.suppress(fluxwire.FluxError):
                    flux.rpc(
                        "job-manager.raise",
                        {"id": jobid, "type": "cancel", "severity": 0, "note": "the test is over"},
                    )
            eventually(lambda: not self.active_jobs(uri), "all jobs have ended")

    def active_jobs(self, uri=None):
        """The ids of all jobs of the instance, or of the DAT at `uri`, that are not inactive."""
        answer = self.flux(uri=uri).rpc(
            "job-list.list",
            {
                "max_entries": 0,
                "since": 0.0,
                "attrs": ["state"],
                "constraint": {"states": [62]},
            },
        )
        return [job["id"] for job in answer["jobs"]]

    # Commands

    def background(self, *arguments, user=None, **options):
        return super().background(*arguments, user=user or self.owner, **options)

    def run_flux(self, *arguments, **options):
        return self.background("flux", *arguments, **options).wait()

    def run_in(self, jobid, *arguments, user):
        """`flux run ...` in a DAT, as a guest does it."""
        return self.run_flux("proxy", jobid, "flux", "run", *arguments, user=user)

    # The wire

    def flux(self, user=None, uri=None):
        with acting_as(user or self.owner):
            client = fluxwire.Flux(uri or self.env["FLUX_URI"], timeout=PATIENCE)
        self.addCleanup(client.close)
        return client

    def proxy(self, moment, act):
        proxy = wireproxy.WireProxy(
            self.place / f"proxy-{moment}",
            fluxwire.socket_path(self.env["FLUX_URI"]),
            moment,
            act,
            pwd.getpwnam(self.owner),
        )
        self.addCleanup(proxy.close)
        return proxy

    def eventlog(self, jobid, path="eventlog", user=None, uri=None):
        """[(event name, context), ...] so far."""
        answer = self.flux(user, uri).rpc(
            "job-info.lookup",
            {"id": fluxwire.parse_jobid(jobid), "keys": [path], "flags": 0},
        )
        events = [fluxwire.json.loads(line) for line in answer[path].splitlines()]
        return [(event["name"], event.get("context", {})) for event in events]
