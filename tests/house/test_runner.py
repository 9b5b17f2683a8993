# SPDX-License-Identifier: LGPL-3.0-or-later
"""The test runner counts what happened: crashes, hangs and leftovers are failures."""

import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import tempfile
import textwrap
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]


def load_runner():
    loader = importlib.machinery.SourceFileLoader("runner", str(TOP / "tests/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
    sys.modules["runner"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


RUNNER = load_runner()


class ModuleResults(unittest.TestCase):
    """Each test runs a small module of its own through the runner."""

    def outcome(self, source, hang=900.0):
        RUNNER.HANG = hang
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "sample_module.py"
            path.write_text("import os, subprocess, sys, unittest\n" + textwrap.dedent(source))
            program = RUNNER.Program(
                "sample",
                "house",
                TOP / "build",
                [
                    sys.executable,
                    "-c",
                    f"import sys; sys.path[:0] = [{directory!r}, {str(TOP / 'tests/lib')!r}]\n"
                    "import modulerun; modulerun.main()",
                    "{results}",
                    "sample_module",
                ],
            )
            return RUNNER.run(program, set())

    def test_counts(self):
        outcome = self.outcome(
            """
            class T(unittest.TestCase):
                def test_pass(self): pass
                def test_fail(self): self.assertEqual(1, 2)
                def test_error(self): raise OSError("no such luck")
                @unittest.skip("not here")
                def test_skip(self): pass
                def test_parts(self):
                    for part in (1, 2, 3):
                        with self.subTest(part=part): self.assertEqual(part, 1)
            """
        )
        self.assertEqual((outcome.passed, outcome.failed), (1, 3))
        self.assertEqual([reason for _, reason in outcome.skips], ["not here"])
        self.assertIn("no such luck", "\n".join(outcome.report))

    def test_crash_is_a_failure_of_the_running_test(self):
        outcome = self.outcome(
            """
            class T(unittest.TestCase):
                def test_a(self): pass
                def test_b(self): os.abort()
            """
        )
        self.assertEqual((outcome.passed, outcome.failed), (1, 1))
        self.assertIn("test_b", outcome.report[0])
        self.assertIn("SIGABRT", outcome.report[1])

    def test_hang_shows_what_hung(self):
        sample = """
            import signal
            class T(unittest.TestCase):
                def test_forever(self): signal.pause()
            """
        for hang in (1.0, 8.0, 64.0):  # a busy machine may not have begun it in a second
            outcome = self.outcome(sample, hang=hang)
            self.assertEqual(outcome.failed, 1)
            if "test_forever" in outcome.report[0]:
                break
        self.assertIn("test_forever", outcome.report[0])
        self.assertIn("hung", outcome.report[1])
        # faulthandler's: File ..., line N in test_forever
        self.assertIn("in test_forever", "\n".join(outcome.report))

    def test_a_module_that_does_not_load_is_a_failure(self):
        outcome = self.outcome("import nothing_of_this_name\n")
        self.assertEqual((outcome.passed, outcome.failed), (0, 1))
        self.assertIn("nothing_of_this_name", "\n".join(outcome.report))

    def test_no_test_is_a_failure(self):
        outcome = self.outcome("\n")
        self.assertEqual(outcome.failed, 1)
        self.assertIn("ran no test", "\n".join(outcome.report))

    def test_a_file_left_behind_is_a_failure(self):
        outcome = self.outcome(
            """
            class T(unittest.TestCase):
                def test_a(self): open(os.path.join(os.environ["TMPDIR"], "stray"), "w").close()
            """
        )
        self.assertEqual((outcome.passed, outcome.failed), (1, 1))
        self.assertIn("tmp/stray", outcome.report)

    def test_a_daemon_left_behind_is_killed_and_a_failure(self):
        os.environ["FLUX_DAT_TEST_GRACE"] = "0.2"
        self.addCleanup(os.environ.pop, "FLUX_DAT_TEST_GRACE")
        outcome = self.outcome(
            """
            class T(unittest.TestCase):
                def test_a(self):
                    subprocess.Popen(["sleep", "600"], start_new_session=True)
            """
        )
        self.assertEqual((outcome.passed, outcome.failed), (1, 1))
        [line] = [line for line in outcome.report if line.endswith("sleep 600")]
        self.assertFalse(pathlib.Path(f"/proc/{line.split()[0]}/cmdline").exists())


class CatchResults(unittest.TestCase):
    def read(self, text):
        outcome = RUNNER.Outcome()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "results"
            path.write_text(text)
            RUNNER.read_catch(path, outcome)
        return outcome

    HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<Catch name="t"><Group name="t">'
    TAIL = "</Group></Catch>"

    def case(self, name, inside, success):
        return (
            f'<TestCase name="{name}">{inside}<OverallResult success="{success}"/></TestCase>'
        )

    def test_counts(self):
        outcome = self.read(
            self.HEAD
            + self.case("good", "", "true")
            + self.case(
                "bad",
                '<Expression success="false" type="REQUIRE" filename="a.cpp" line="7">'
                "<Original> x == 1 </Original><Expanded> 2 == 1 </Expanded></Expression>",
                "false",
            )
            + self.case("elsewhere", "<Warning>SKIPPED: no munge here</Warning>", "true")
            + self.TAIL
        )
        self.assertEqual((outcome.passed, outcome.failed), (1, 1))
        self.assertEqual(outcome.skips, [("elsewhere", "no munge here")])
        self.assertEqual(
            outcome.report, ["--- bad", "a.cpp:7: REQUIRE( x == 1 )", "    with 2 == 1"]
        )
        self.assertEqual(outcome.running, "")

    def test_cut_off_in_a_test(self):
        outcome = self.read(self.HEAD + self.case("good", "", "true") + '<TestCase name="boom">')
        self.assertEqual((outcome.passed, outcome.running), (1, "boom"))
