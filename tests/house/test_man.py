# SPDX-License-Identifier: LGPL-3.0-or-later
"""The man pages are well formed."""

import os
import pathlib
import shutil
import subprocess
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
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


if __name__ == "__main__":
    unittest.main()
