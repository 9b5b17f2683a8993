# SPDX-License-Identifier: LGPL-3.0-or-later
"""A sandbox whose guests can run jobs: with a setuid IMP and a munged of the tests' own.

The IMP and the job shell are the test builds of both, which take their configuration from
FLUX_IMP_CONFIG_PATTERN; they are copied to a directory of root's that everybody can reach.
"""

import os
import pathlib
import shutil
import tempfile
import unittest

from tests.lib import imp
from tests.lib.sandbox import BUILD, GUEST, OWNER, ROOT, STRANGER, SandboxTest

SHELL = BUILD / "lib/sandbox/program/flux-dat-shell-test"


class GuestTest(SandboxTest):
    """A sandbox whose exec.imp and exec.job-shell are those of this test."""

    up_conf = ()  # more options of `sandbox up`

    @classmethod
    def setUpClass(cls):
        if not ROOT:
            raise unittest.SkipTest("needs root, to play guests: their jobs change users")
        if not os.path.exists("/usr/sbin/munged") or not shutil.which("munge"):
            raise unittest.SkipTest("there is no munge here")
        super().setUpClass()
        cls.trusted = pathlib.Path(tempfile.mkdtemp(prefix="imp-"))
        cls.addClassCleanup(shutil.rmtree, cls.trusted)
        cls.trusted.chmod(0o755)
        if os.statvfs(cls.trusted).f_flag & os.ST_NOSUID:
            raise unittest.SkipTest(f"{cls.trusted} is on a file system without setuid")
        cls.imp = cls.install(imp.TEST_PROGRAM, "flux-dat-imp", 0o4755)
        cls.install(imp.READER, "flux-dat-imp-reader", 0o755)
        cls.install(
            imp.READER.parent / "flux-dat-imp-reader-full", "flux-dat-imp-reader-full", 0o755
        )
        cls.shell = cls.install(SHELL, "flux-dat-shell", 0o755)
        cls.munged = imp.Munged(cls.trusted / "munge")
        cls.addClassCleanup(cls.munged.stop)

    @classmethod
    def install(cls, source, name, mode):
        path = cls.trusted / name
        shutil.copyfile(source, path)
        path.chmod(mode)
        return path

    def configure(self, users=(OWNER,), shells=None, more=""):
        names = ", ".join(f'"{name}"' for name in users)
        shells = ", ".join(f'"{path}"' for path in shells or [self.shell])
        (self.trusted / "imp.toml").write_text(
            f"[exec]\nallowed-users = [{names}]\nallowed-shells = [{shells}]\n{more}\n"
            f'[sign]\nallowed-types = ["munge"]\n'
            f'munge.socket-path = "{self.munged.socket}"\n'
        )

    def up(self):
        self.configure()
        self.env["FLUX_IMP_CONFIG_PATTERN"] = str(self.trusted / "*.toml")
        self.env["FLUX_DAT_SECURITY_PATTERN"] = str(self.trusted / "*.toml")
        self.env["FLUX_DAT_IMP_TEST_READER"] = str(self.trusted / "flux-dat-imp-reader")
        self.up_options = (
            f"--conf=exec.imp={self.imp}",
            f"--conf=exec.job-shell={self.shell}",
            *self.up_conf,
        )
        super().up()

    def start_arguments(self, *arguments):
        # Else a DAT would have the bundled IMP, where that is installed.
        if "--imp" not in arguments:
            arguments = (*arguments, "--imp", str(self.imp))
        return super().start_arguments(*arguments)

    def guest_background(self, *arguments, user=GUEST, env=None, **options):
        # A job shell that is killed cannot remove its directory.
        tmp = self.place / "tmp"
        if not tmp.exists():
            tmp.mkdir()
            tmp.chmod(0o1777)
        env = {"TMPDIR": str(tmp), **(env or {})}
        return self.dat_background("run", *arguments, user=user, env=env, **options)

    def run_as_guest(self, *arguments, **options):
        return self.guest_background(*arguments, **options).wait()

    def processes_with(self, words, user=GUEST):
        """The processes of that user's and of this test's whose command line has these
        words in it; with "^", at its beginning."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                fits = line.startswith(words[1:]) if words[0] == "^" else words in line
                # All of them have the path of the DAT's socket or of a directory of theirs.
                ours = str(self.place).encode() in (entry / "environ").read_bytes()
                if fits and ours and entry.stat().st_uid == imp.uid(user):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found
