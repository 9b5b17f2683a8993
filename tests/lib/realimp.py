# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat-imp as the IMP of a real Flux, for system tests.

    imp = BundledImp(tables='[run.prolog]\\n...')
    Instance(size, imp=imp.program, env=imp.env)

The program is the test build, setuid in a directory of root's, and finds configuration
and reader by what the brokers have in their environment, which they hand on to it. In
the installed program these places are fixed; it is tested in its place with

    FLUX_DAT_TEST_PREFIX=DIR    a prefix that was made for this: `meson install` of a build
                                with its sysconfdir DIR/etc. Configuration is written there.
"""

import os
import pathlib
import shutil
import tempfile
import unittest

from tests.lib import imp
from tests.lib.realflux import OWNER, imp_configuration

INSTALLED = os.environ.get("FLUX_DAT_TEST_PREFIX")


class BundledImp:
    """The program and its configuration: what [exec] and [sign] need, and command()."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="imp-"))
        self.directory.chmod(0o755)
        if os.statvfs(self.directory).f_flag & os.ST_NOSUID:
            self.directory.rmdir()
            raise unittest.SkipTest(f"{self.directory} is on a file system without setuid")
        self.env = {}
        if INSTALLED:
            prefix = pathlib.Path(INSTALLED)
            self.program = prefix / "libexec/flux-dat/flux-dat-imp"
            self.file = prefix / "etc/flux/imp/conf.d/test.toml"
            sign = prefix / "etc/flux/security/conf.d/test.toml"
            for path in (self.file, sign):
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self.files = [self.file, sign]
        else:
            self.program = self.install(imp.TEST_PROGRAM, "flux-dat-imp", 0o4755)
            self.install(imp.READER, imp.READER.name, 0o755)
            full = f"{imp.READER.name}-full"
            self.install(imp.READER.with_name(full), full, 0o755)
            self.env = {
                "FLUX_IMP_CONFIG_PATTERN": str(self.directory / "*.toml"),
                "FLUX_DAT_IMP_TEST_READER": str(self.directory / imp.READER.name),
            }
            self.file, sign = self.directory / "imp.toml", self.directory / "sign.toml"
            self.files = []
        # As the machine's own flux-imp has it.
        shells = imp_configuration()["exec"]["allowed-shells"]
        self.file.write_text(
            f'[exec]\nallowed-users = ["{OWNER}"]\n'
            f"allowed-shells = {[str(shell) for shell in shells]}\n"
        )
        sign.write_text('[sign]\nallowed-types = ["munge"]\n')

    def install(self, source, name, mode):
        path = self.directory / name
        shutil.copyfile(source, path)
        path.chmod(mode)
        return path

    def command(self, name, text):
        """[run.NAME], a script."""
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        with open(self.file, "a") as file:
            file.write(
                f'[run.{name}]\nallowed-users = ["{OWNER}"]\n'
                f'allowed-environment = ["FLUX_*"]\npath = "{path}"\n'
            )

    def remove(self):
        shutil.rmtree(self.directory)
        for path in self.files:
            path.unlink()
