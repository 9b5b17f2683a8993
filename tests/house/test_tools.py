# SPDX-License-Identifier: LGPL-3.0-or-later
"""tools/prepare: which packages are installed, and what is said where they cannot be.

Package tools are stand-ins that write down how they were called.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
ROOT = os.geteuid() == 0


class Packages(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.place)
        self.place.chmod(0o755)
        shutil.copy(TOP / "tools/prepare", self.place)
        self.calls = self.place / "calls"

    def stand_in(self, name, body):
        path = self.place / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def prepare(self, missing=(), apt="exit 0", **options):
        lacks = " | ".join(missing) or "-"
        self.stand_in(
            "dpkg-query",
            'for last; do :; done; case $last in %s) echo "no packages found" >&2; exit 1;; '
            "*) printf installed;; esac" % lacks,
        )
        self.stand_in("apt-get", f'echo "$DEBIAN_FRONTEND: $*" >>{self.calls}\n{apt}')
        return subprocess.run(
            ["bash", "-c", f"source {self.place}/prepare && prepare_packages"],
            env={"PATH": f"{self.place}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            **options,
        )

    def called(self):
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def test_nothing_is_missing(self):
        ran = self.prepare()
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "", ""))
        self.assertEqual(self.called(), [])

    @unittest.skipUnless(ROOT, "needs root, to install")
    def test_missing_as_root(self):
        ran = self.prepare(missing=["libuv1-dev", "catch2"])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("installing Debian packages: libuv1-dev catch2", ran.stderr)
        update, install = self.called()
        self.assertTrue(update.endswith(" update"), update)
        self.assertTrue(install.startswith("noninteractive: "), install)
        self.assertTrue(install.endswith("--no-install-recommends libuv1-dev catch2"), install)

    @unittest.skipUnless(ROOT, "needs root, to install")
    def test_install_fails(self):
        ran = self.prepare(missing=["meson"], apt="echo E: no network; exit 100")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("E: no network", ran.stderr)

    def test_missing_without_root(self):
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if ROOT else {}
        ran = self.prepare(missing=["meson", "acl"], **nobody)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("missing Debian packages: meson acl", ran.stderr)
        self.assertIn("apt-get install --no-install-recommends meson acl", ran.stderr)
        self.assertEqual(self.called(), [])
