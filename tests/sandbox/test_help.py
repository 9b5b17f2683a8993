# SPDX-License-Identifier: LGPL-3.0-or-later
"""What the program says of itself, and whether manual page and completion say the same."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from tests.lib.sandbox import BUILD, PROGRAM, TOP

COMMANDS = ("start", "status", "stop", "check", "config", "run", "sandbox")
OF_ALL = {"--help", "--json", "--quiet", "--verbose"}


def flux_dat(*words, program=PROGRAM, **options):
    return subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, **options
    )


def options_in_help(*command):
    """The long options in a command's help."""
    ran = flux_dat(*command, "--help")
    assert ran.returncode == 0, ran
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", ran.stdout, re.M)) | set(
        re.findall(r"^ +(?:-\w,)?--[a-z-]+,(--[a-z-]+)", ran.stdout, re.M)
    )


class Help(unittest.TestCase):
    def test_version(self):
        ran = flux_dat("--version")
        self.assertEqual((ran.returncode, ran.stdout), (0, "flux-dat 0.1.0\n"))

    def test_help_names_all_commands_and_no_hidden_ones(self):
        ran = flux_dat("--help")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        for command in COMMANDS:
            self.assertRegex(ran.stdout, rf"(?m)^  {command}\b")
        self.assertNotIn("launch", ran.stdout)
        self.assertNotIn("supervise", ran.stdout)

    def test_each_command_has_help(self):
        for command in COMMANDS:
            for flag in ("--help", "-h"):
                ran = flux_dat(command, flag)
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                self.assertIn("Usage: flux-dat " + command, ran.stdout)

    def test_check_takes_what_start_takes(self):
        self.assertEqual(options_in_help("check"), options_in_help("start"))

    def test_common_options(self):
        for command in COMMANDS[:-1]:
            self.assertLessEqual(OF_ALL, options_in_help(command), command)

    def test_no_command_and_unknown_command(self):
        ran = flux_dat()
        self.assertEqual(ran.returncode, 2)
        self.assertIn("flux-dat --help", ran.stderr)
        ran = flux_dat("nosuch")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("nosuch", ran.stderr)
        self.assertNotIn("did you mean", ran.stderr)
        for word, meant in (
            ("stat", "start"), ("statsu", "status"), ("revoek", "revoke"), ("reports", "report"),
        ):  # fmt: skip
            ran = flux_dat(word)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(f'no command "{word}": did you mean {meant}?', ran.stderr)

    def test_help_is_a_command_too(self):
        self.assertEqual(flux_dat("help").stdout, flux_dat("--help").stdout)
        for words in (("start",), ("sandbox", "up")):
            ran = flux_dat("help", *words)
            self.assertEqual((ran.returncode, ran.stdout), (0, flux_dat(*words, "--help").stdout))
        self.assertIn("no command", flux_dat("help", "nosuch").stderr)

    def test_slips(self):
        for words, says in (
            (("extend", "demo", "1h"), "if demo is a DAT's name: flux-dat extend --dat demo 1h"),
            (("--dat", "demo", "status"), "options come behind the command: flux-dat status --dat demo"),
            (("--dat=demo", "stop"), "options come behind the command: flux-dat stop --dat=demo"),
            (("start", "-q", "--name", "x"), "-q is the queue, as in flux alloc, and --quiet is written"),
            (("check", "-q", "-N2"), "-q is the queue"),
            (("grant", "nosuchdat", "root"), "if that is a DAT's name: flux-dat grant --dat nosuchdat"),
        ):  # fmt: skip
            ran = flux_dat(*words)
            self.assertEqual(ran.returncode, 2, ran)
            self.assertIn(says, ran.stderr)
            self.assertEqual(ran.stderr.count("\n"), 1)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            ran = subprocess.run(
                [PROGRAM, "--version"], stdout=full, stderr=subprocess.PIPE, check=False
            )
        self.assertEqual(ran.returncode, 1)


class Documented(unittest.TestCase):
    def sections(self):
        """{command: its part of the manual page}"""
        page = (TOP / "man/flux-dat.1").read_text().replace("\\-", "-")
        parts = re.split(r"^\.SS flux-dat (\w+)\n", page, flags=re.M)
        return {name: text.split("\n.SH ")[0] for name, text in zip(parts[1::2], parts[2::2])}

    def test_manual_page_has_the_options_of_the_help(self):
        sections = self.sections()
        for command in COMMANDS[:-1]:
            with self.subTest(command=command):
                documented = set(re.findall(r"^\.(?:TP|BR?|RB?).*?$", sections[command], re.M))
                documented = set(re.findall(r"--[a-z][a-z-]*", "\n".join(documented)))
                offered = options_in_help(command) - OF_ALL
                if command == "check":
                    self.assertIn("It takes all options of\n.BR start ", sections[command])
                    documented |= options_in_help("start")
                self.assertLessEqual(offered, documented, "not in the manual page")

    def test_completion_has_the_options_of_the_help(self):
        for command in COMMANDS[:-1] + ("sandbox up",):
            with self.subTest(command=command):
                ran = subprocess.run(
                    ["bash", "-c", f"source {TOP}/completions/flux-dat; "
                     f"_flux_dat_options '{command}'"],
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                self.assertEqual(set(ran.stdout.split()), options_in_help(*command.split()))


class Installed(unittest.TestCase):
    def test_what_is_installed(self):
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(
                ["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", directory],
                check=True, capture_output=True,
            )  # fmt: skip
            prefix = pathlib.Path(directory) / "usr/local"
            files = {str(path.relative_to(prefix)) for path in prefix.rglob("*")}
            for name in (
                "bin/flux-dat",
                "libexec/flux-dat/flux-dat-imp",
                "libexec/flux-dat/flux-dat-imp-reader",
                "share/man/man1/flux-dat.1",
                "share/bash-completion/completions/flux-dat",
            ):
                self.assertIn(name, files)
            setuid = [
                path.name for path in prefix.rglob("*") if path.lstat().st_mode & 0o6000
            ]
            self.assertEqual(setuid, ["flux-dat-imp"])
            self.assertEqual([name for name in files if name.endswith("-test")], [])
            ran = flux_dat("--version", program=prefix / "bin/flux-dat", env=dict(os.environ))
            self.assertEqual(ran.returncode, 0, ran.stderr)
