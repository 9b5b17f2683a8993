# SPDX-License-Identifier: LGPL-3.0-or-later
"""What the benchmarks share: places, a Flux test instance, interleaved rounds, tables.

Everything is measured pair by pair: in each round every variant runs once, in an order
that rotates, so that a machine that slows down slows all of them down. A table gives the
medians; a ratio is that of two medians of the same run.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLUX_DAT_TEST_BUILD", TOP / "build"))
PROGRAM = BUILD / "cli" / "flux-dat"
# Root runs everything as an account that every Debian has.
USER = "daemon" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
PATIENCE = 180.0  # seconds until something that does not come is given up


class Place:
    """A directory that USER can use, with the program in it, and an environment."""

    def __init__(self):
        if not PROGRAM.exists():
            sys.exit(f"{PROGRAM} is not there: run tools/prepare first")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="fdb-", dir="/tmp"))
        self.directory.chmod(0o755)
        self.bin = self.directory / "bin"
        self.bin.mkdir(mode=0o755)
        shutil.copyfile(PROGRAM, self.bin / "flux-dat")
        (self.bin / "flux-dat").chmod(0o755)
        self.env = {
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.make("home")),
            "TMPDIR": str(self.make("tmp")),
            "LC_ALL": "C.UTF-8",
            "FLUX_IPADDR_INTERFACE": "lo",
            "FLUX_URI_RESOLVE_LOCAL": "t",
        }

    def make(self, name):
        path = self.directory / name
        path.mkdir(mode=0o755)
        if os.geteuid() == 0:
            shutil.chown(path, USER, pwd.getpwnam(USER).pw_gid)
        return path

    def identity(self):
        if os.geteuid() != 0:
            return {}
        account = pwd.getpwnam(USER)
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def popen(self, *command, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            command, env=self.env, cwd=self.env["HOME"], **self.identity(), **options
        )

    def run(self, *command):
        """Runs to its end; gives stdout. Ends the benchmark when the command fails."""
        process = self.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = process.communicate(timeout=PATIENCE)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: exit {process.returncode}\n{out}{err}")
        return out.strip()

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(0.002)


@contextlib.contextmanager
def flux_instance(size):
    """A Flux test instance of `size` brokers on this machine, run by USER."""
    if not shutil.which("flux"):
        sys.exit("flux is not installed here: nothing to measure against")
    place = Place()
    run, conf = place.make("run"), place.make("conf")
    uri = place.directory / "home" / "uri"
    (conf / "system.toml").write_text(
        "[access]\nallow-guest-user = true\n"
        '[exec]\nimp = "/usr/libexec/flux/flux-imp"\n'
        '[tbon]\ntopo = "kary:256"\n'
        "[resource]\nnoverify = true\n"
        f'[[resource.config]]\nhosts = "node[1-{size}]"\ncores = "0-1"\n'
    )
    with open(place.directory / "log", "wb") as log:
        brokers = place.popen(
            "flux", "start", f"--test-size={size}", f"--test-hosts=node[1-{size}]",
            f"--test-rundir={run}", f"-c{conf}", "-Slog-stderr-level=4",
            "sh", "-c", f"echo $FLUX_URI >{uri}.new; mv {uri}.new {uri}; exec sleep inf",
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(lambda: uri.exists() or brokers.poll() is not None, "the test instance")
        if not uri.exists():
            raise SystemExit((place.directory / "log").read_text(errors="replace"))
        place.env["FLUX_URI"] = uri.read_text().strip()
        yield place
    finally:
        with contextlib.suppress(Exception):
            place.popen("flux", "shutdown", "--quiet").wait(PATIENCE)
        with contextlib.suppress(subprocess.TimeoutExpired):
            brokers.wait(PATIENCE)
        if brokers.poll() is None:
            brokers.kill()
        place.remove()


@contextlib.contextmanager
def sandbox(size):
    place = Place()
    place.env["FLUX_DAT_SANDBOX_DIR"] = f"{place.env['HOME']}/sandbox"
    place.run("flux-dat", "sandbox", "up", "--size", str(size))
    try:
        for line in place.run("flux-dat", "sandbox", "env").splitlines():
            name, equals, value = line.removeprefix("export ").partition("=")
            if equals:
                place.env[name] = value.strip("'\"")
        yield place
    finally:
        place.run("flux-dat", "sandbox", "down")
        place.remove()


def rounds(variants, count):
    """{name: [seconds, ...]}: each variant is a function that gives seconds."""
    names = list(variants)
    measured = {name: [] for name in names}
    for number in range(count):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            measured[name].append(variants[name]())
            print(f"  round {number + 1}/{count} {name}", end="\r", file=sys.stderr)
    print(" " * 60, end="\r", file=sys.stderr)
    return measured


def timed(function):
    began = time.monotonic()
    function()
    return time.monotonic() - began


def table(title, measured, unit="s", scale=1.0):
    print(f"\n{title}")
    print(f"  {'':<34} {'median':>9} {'least':>9} {'most':>9}   n")
    for name, values in measured.items():
        values = [value * scale for value in values]
        print(
            f"  {name:<34} {statistics.median(values):>9.3f} {min(values):>9.3f} "
            f"{max(values):>9.3f} {len(values):>3}  {unit}"
        )


def ratio(measured, of, to, at_most):
    value = statistics.median(measured[of]) / statistics.median(measured[to])
    verdict = "ok" if value <= at_most else "MISSED"
    print(f"  {of} / {to}: {value:.2f} (at most {at_most:.2f}: {verdict})")


def limit(what, value, at_most, unit):
    verdict = "ok" if value <= at_most else "MISSED"
    print(f"  {what}: {value:.1f} {unit} (at most {at_most:g}: {verdict})")


def peak_memory(pid):
    """VmHWM of a living process in MiB; 0 if it has ended."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def processes(place):
    """{pid: command line} of the processes that execute this place's flux-dat."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.readlink(entry / "exe") == str(place.bin / "flux-dat"):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found[int(entry.name)] = b" ".join(words).decode().strip()
        except OSError:
            pass
    return found
