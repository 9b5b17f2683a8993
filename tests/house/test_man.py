# SPDX-License-Identifier: LGPL-3.0-or-later
"""The man pages are well formed."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLUX_DAT_TEST_BUILD", TOP / "build"))
PAGES = sorted((TOP / "man").glob("*.[158]"))


class Man(unittest.TestCase):
    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_no_warnings(self):
        self.assertTrue(PAGES)
        for page in PAGES:
            with self.subTest(page=page.name):
                ran = subprocess.run(
                    ["groff", "-man", "-ww", "-z", "-Tutf8", "-K", "utf8", "-t", str(page)],
                    capture_output=True,
                    text=True,
                    env=dict(os.environ, MANWIDTH="80"),
                    check=False,
                )
                self.assertEqual(ran.stderr, "")
                self.assertEqual(ran.returncode, 0)

    def test_directories_are_those_of_the_installation(self):
        for page in PAGES:
            with self.subTest(page=page.name):
                built = (BUILD / "man" / page.name).read_text()
                self.assertIsNone(re.search(r"@\w+@|[A-Z]DIR\b(?=/)", built))
        self.assertIn("/flux/dat/conf.d/", (BUILD / "man/flux-config-dat.5").read_text())


if __name__ == "__main__":
    unittest.main()
