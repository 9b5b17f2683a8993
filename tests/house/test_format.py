# SPDX-License-Identifier: LGPL-3.0-or-later
"""The source is formatted as .clang-format says, with the version that Debian 12 has."""

import pathlib
import re
import shutil
import subprocess
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
CLANG_FORMAT = shutil.which("clang-format-14")


class Format(unittest.TestCase):
    @unittest.skipUnless(CLANG_FORMAT, "clang-format-14 is not installed")
    def test_source_is_formatted(self):
        sources = [
            str(path)
            for directory in ("cli", "lib", "tests")
            for path in sorted((TOP / directory).rglob("*"))
            if path.suffix in (".cpp", ".h")
        ]
        self.assertTrue(sources)
        checked = subprocess.run(
            [CLANG_FORMAT, "--dry-run", "-Werror", *sources], capture_output=True, text=True
        )
        places = re.findall(r"^(?:.*/)?((?:cli|lib|tests)/\S+?:\d+):", checked.stderr, re.M)
        self.assertEqual(checked.returncode, 0, "run clang-format-14 -i on: %s" % places)

    def test_source_says_its_license(self):
        for directory in ("cli", "lib", "tests", "tools", "completions"):
            for path in sorted((TOP / directory).rglob("*")):
                if path.is_dir() or path.suffix in (".build", ".pyc"):
                    continue
                if "corpus" in path.parts or "data" in path.parts:
                    continue
                with self.subTest(path=str(path.relative_to(TOP))):
                    head = path.read_text(errors="replace").splitlines()[:3]
                    self.assertIn("SPDX-License-Identifier: LGPL-3.0-or-later", "".join(head))
