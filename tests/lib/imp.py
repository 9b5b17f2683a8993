# SPDX-License-Identifier: LGPL-3.0-or-later
"""The IMP as a setuid program, with real users and a munged of the tests' own.

Jobs are signed here by RFC 38 and RFC 39, with munge(1), and share no code with lib/imp.
"""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLUX_DAT_TEST_BUILD", TOP / "build"))
TEST_PROGRAM = BUILD / "lib/imp/program/flux-dat-imp-test"
PROGRAM = BUILD / "lib/imp/program/flux-dat-imp"
READER = BUILD / "lib/imp/reader/flux-dat-imp-reader"

# Accounts that every Debian has.
OWNER, OTHER_OWNER, GUEST, STRANGER = "daemon", "bin", "games", "nobody"
PATIENCE = 60.0  # seconds until something that does not come is given up

needs_setuid = unittest.skipUnless(
    os.geteuid() == 0, "needs root: installs a setuid program and runs it as several users"
)
needs_munged = unittest.skipUnless(
    os.path.exists("/usr/sbin/munged") and shutil.which("munge"), "there is no munge here"
)


def uid(name):
    return pwd.getpwnam(name).pw_uid


def gid(name):
    return pwd.getpwnam(name).pw_gid


def as_user(name):
    """What subprocess takes for a process of that user, with no other groups."""
    return {"user": uid(name), "group": gid(name), "extra_groups": []}


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(0.01)


def kv(*pairs):
    """RFC 38: (key, type character, value as text) in this order."""
    return b"".join(
        key.encode() + b"\0" + kind.encode() + str(value).encode() + b"\0"
        for key, kind, value in pairs
    )


def header(mechanism, userid, version=1):
    return kv(("version", "i", version), ("mechanism", "s", mechanism), ("userid", "i", userid))


class Munged:
    """A munged with a key of its own."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(mode=0o755)
        self.socket = self.directory / "socket"
        key = self.directory / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        with open(self.directory / "output", "wb") as output:
            self.process = subprocess.Popen(
                ["/usr/sbin/munged", "--foreground", "--num-threads=2", f"--socket={self.socket}"]
                + [f"--{name}-file={self.directory / name}" for name in ("key", "pid", "log", "seed")],
                stdout=output, stderr=output,
            )  # fmt: skip
        eventually(lambda: self.socket.exists() or self.process.poll() is not None, "munged")
        if self.process.poll() is not None:
            raise AssertionError((self.directory / "output").read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def credential(self, content, user):
        """What MUNGE makes of `content` for `user`."""
        return subprocess.run(
            ["munge", f"--socket={self.socket}"],
            input=content, stdout=subprocess.PIPE, check=True, **as_user(user),
        ).stdout.decode().strip()  # fmt: skip

    def sign(self, user, payload=b"{}", head=None):
        """A J (RFC 39) that `user` signed; with `head`, over another header."""
        head = header("munge", uid(user)) if head is None else head
        signed = base64.b64encode(head).decode() + "." + base64.b64encode(payload).decode()
        digest = b"\1" + hashlib.sha256(signed.encode()).digest()
        return signed + "." + self.credential(digest, user)


def sign_none(userid, payload=b"{}"):
    return ".".join(
        [
            base64.b64encode(header("none", userid)).decode(),
            base64.b64encode(payload).decode(),
            "none",
        ]
    )


@needs_setuid
@needs_munged
class ImpTest(unittest.TestCase):
    """self.imp(...) runs the setuid program as OWNER. Configuration: self.configure()."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="imp-"))
        cls.place.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.place)
        if os.statvfs(cls.place).f_flag & os.ST_NOSUID:
            raise unittest.SkipTest(f"{cls.place} is on a file system without setuid")
        cls.program = cls.install(TEST_PROGRAM, "flux-dat-imp", 0o4755)
        cls.reader = cls.install(READER, "flux-dat-imp-reader", 0o755)
        cls.install(READER.parent / "flux-dat-imp-reader-full", "flux-dat-imp-reader-full", 0o755)
        cls.munged = Munged(cls.place / "munge")
        cls.addClassCleanup(cls.munged.stop)

    @classmethod
    def install(cls, source, name, mode):
        path = cls.place / name
        shutil.copyfile(source, path)
        path.chmod(mode)
        return path

    def setUp(self):
        self.conf = self.place / "conf"
        self.conf.mkdir(mode=0o755)
        self.addCleanup(shutil.rmtree, self.conf, ignore_errors=True)
        self.shell = self.script("shell", "exec \"$@\"")
        self.configure()

    def script(self, name, text, mode=0o755):
        path = self.place / name
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(mode)
        return path

    def configure(self, execute="", sign="", more="", **files):
        """Writes conf.d/a.toml; keyword arguments are further files, NAME=text."""
        if "allowed-users" not in execute:
            execute += f'\nallowed-users = ["{OWNER}"]'
        if "allowed-shells" not in execute:
            execute += f'\nallowed-shells = ["{self.shell}", "/bin/sh"]'
        if "allowed-types" not in sign:
            sign += '\nallowed-types = ["munge"]'
        if "socket-path" not in sign:
            sign += f'\nmunge.socket-path = "{self.munged.socket}"'
        (self.conf / "a.toml").write_text(f"{more}\n[exec]\n{execute}\n[sign]\n{sign}\n")
        (self.conf / "a.toml").chmod(0o644)
        for name, text in files.items():
            (self.conf / f"{name}.toml").write_text(text)

    def environment(self, **more):
        env = {
            "PATH": "/usr/bin:/bin",
            "FLUX_IMP_CONFIG_PATTERN": f"{self.conf}/*.toml",
            "FLUX_DAT_IMP_TEST_READER": str(self.reader),
        }
        env.update(more)
        return {name: value for name, value in env.items() if value is not None}

    def imp(self, *words, data=b"", user=OWNER, env=None, program=None, **options):
        options.setdefault("timeout", PATIENCE)
        return subprocess.run(
            [str(word) for word in (program or self.program, *words)],
            input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment(**(env or {})), **as_user(user), **options,
        )  # fmt: skip

    def input(self, user=GUEST, **more):
        return json.dumps({"J": self.munged.sign(user), **more}).encode()

    def given(self):
        """A file with an input, for a helper to print."""
        path = self.place / "given"
        path.write_bytes(self.input())
        path.chmod(0o644)
        return path

    def execute(self, *command, data=None, **options):
        """exec of a shell that runs `command` as GUEST."""
        data = self.input() if data is None else data
        return self.imp("exec", self.shell, *command, data=data, **options)

    def accepted(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        return done.stdout.decode()

    def refused(self, done, *says, status=1):
        """Nothing was executed, and the last line says why."""
        text = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, status, text)
        self.assertEqual(done.stdout, b"")
        self.assertTrue(text.endswith("\n"), text)
        last = text.splitlines()[-1]
        self.assertTrue(last.startswith("flux-dat-imp: Fatal: "), text)
        for part in says:
            self.assertIn(part, text)
        return last


@contextlib.contextmanager
def mode_of(path, mode=None, owner=None):
    """Another mode or owner of a file for a while."""
    before = os.stat(path)
    if mode is not None:
        os.chmod(path, mode)
    if owner is not None:
        os.chown(path, uid(owner), -1)
    try:
        yield
    finally:
        os.chown(path, before.st_uid, -1)
        os.chmod(path, stat.S_IMODE(before.st_mode))
