# SPDX-License-Identifier: LGPL-3.0-or-later
"""Configuration of the setuid IMP that it refuses, and what `check` tells of it."""

import json
import os
import shutil

from tests.lib.imp import GUEST, OTHER_OWNER, OWNER, ImpTest, mode_of, uid


class Refused(ImpTest):
    def fails(self, *says):
        done = self.execute("id")
        self.refused(done, "Warning: configuration: ", "Failed to load configuration", *says)

    def test_a_file_that_others_can_write(self):
        with mode_of(self.conf / "a.toml", 0o666):
            self.fails("a.toml", "can be written by others than root (mode 0666)")

    def test_a_file_of_somebody_else(self):
        with mode_of(self.conf / "a.toml", owner=OWNER):
            self.fails("a.toml", f"belongs to uid {uid(OWNER)} and not to root")

    def test_a_directory_that_others_can_write(self):
        with mode_of(self.conf, 0o777):
            self.fails(f"{self.conf}: can be written by others")
        with mode_of(self.place, 0o777):
            self.fails(f"{self.place}: can be written by others")

    def test_a_directory_of_somebody_else(self):
        with mode_of(self.conf, owner=GUEST):
            self.fails(f"{self.conf}: belongs to uid {uid(GUEST)}")

    def test_a_symbolic_link(self):
        os.rename(self.conf / "a.toml", self.conf / "real")
        (self.conf / "a.toml").symlink_to("real")
        self.fails("a.toml: is a symbolic link")

    def test_what_is_no_file(self):
        os.mkfifo(self.conf / "b.toml")
        self.fails("b.toml: is not a regular file")

    def test_absent(self):
        (self.conf / "a.toml").unlink()
        self.refused(self.execute("id"), "there is no such file", "not in allowed-users")
        shutil.rmtree(self.conf)
        self.refused(self.execute("id"), "there is no such file", "not in allowed-users")

    def test_not_toml(self):
        for text in ("[exec]\nallowed-users = [\n", "[, x]\n", "x\n", "= 1\n", "[a.]\n", "x = [\u00e9]\n"):
            self.configure(b=text)
            self.fails("b.toml:", "not TOML")

    def test_nested_without_end(self):
        self.configure(b="x = " + "[" * 100000)
        self.fails("b.toml:", "not TOML")

    def test_too_large(self):
        self.configure(b="#" * ((1 << 20) + 1))
        self.fails("b.toml: larger than 1048576 bytes")

    def test_too_many(self):
        for i in range(256):
            (self.conf / f"c{i}.toml").touch()
        self.fails("more than 256 files")

    def test_types(self):
        for table, says in (
            ("exec = 1", "exec is not a table"),
            ("run = 1", "run is not a table"),
            ("[run]\nx = 1", "run.x is not a table"),
            ("sign = 1", "sign is not a table"),
            ("[exec]\nallowed-users = 'daemon'", "exec.allowed-users is not an array"),
            ("[exec]\nallowed-users = [1]", "an entry of exec.allowed-users is not a string"),
            ("[exec]\nallowed-shells = {}", "exec.allowed-shells is not an array"),
            ("[exec]\npam-support = 1", "exec.pam-support is neither true nor false"),
            ("[exec]\nrequire-grant = 'yes'", "exec.require-grant is neither true nor false"),
            ("[run.x]\npath = 1", "run.x.path is not a string"),
            ("[sign]\nmax-ttl = 0\nallowed-types = ['munge']", "sign.max-ttl is not a number"),
            ("[sign]\nmax-ttl = 1", "sign.allowed-types is missing or empty"),
            ("log-level = 'loud'", "log-level is not one of warning, info, debug"),
            ("allow-sudo = 1", "allow-sudo is neither true nor false"),
        ):
            self.configure(b=table + "\n")
            self.fails("b.toml:", says)


class Check(ImpTest):
    def check(self, *words, user="root", status=1, **options):
        done = self.imp("check", *words, user=user, **options)
        self.assertEqual((done.returncode, done.stderr), (status, b""), done.stdout)
        return done.stdout.decode()

    def test_nothing_is_wrong(self):
        self.assertEqual(self.check(status=0), "no errors or warnings\n")
        self.assertEqual(
            json.loads(self.check("--json", status=0)),
            {"ok": True, "allowed": False, "problems": []},
        )

    def test_whether_it_allows_the_caller(self):
        def allowed(user):
            return json.loads(self.imp("check", "--json", user=user).stdout)["allowed"]

        self.assertEqual((allowed(OWNER), allowed(GUEST)), (True, False))
        with mode_of(self.conf / "a.toml", 0o600):
            self.assertIsNone(allowed(OWNER))

    def test_all_problems_at_once(self):
        insecure = self.script("insecure", "env", 0o777)
        self.configure(
            'allowed-users = ["nosuchuser"]\nallowed-shells = ["sh", "/nonexistent", '
            f'"{insecure}"]\nreaders = ["json", "kv", "new"]\nunknown-key = 1',
            sign='allowed-types = ["curve"]',
            b=f'[run.x]\npath = "{insecure}"\n[other]\n',
            c="[run.y]\n",
        )
        text = self.check()
        for says in (
            'there is no user "nosuchuser"',
            "sh is not an absolute path",
            "/nonexistent: No such file",
            "can be changed by others than root",
            'no reader is called "new"',
            "kv, which is for tests",
            "exec.unknown-key is not known here",
            '"curve", which is not known here',
            "nothing that is known here",
            '"other" is not known here',
            "[run] takes the place of all of [run.*]",
            "run.y.path is missing",
            "run.y.allowed-users is missing or empty",
        ):
            self.assertIn(says, text)
        problems = json.loads(self.check("--json"))["problems"]
        self.assertEqual(len(problems), len(text.splitlines()))
        for problem in problems:
            self.assertEqual(set(problem), {"severity", "file", "line", "message"})
            self.assertIn(problem["severity"], ("error", "warning", "note"))

    def test_an_insecure_command(self):
        insecure = self.script("insecure", "env", 0o777)
        self.configure(b=f'[run.x]\nallowed-users = ["{OWNER}"]\npath = "{insecure}"\n')
        self.assertIn("run.x.path: ", self.check())

    def test_files_that_the_program_would_refuse(self):
        with mode_of(self.conf / "a.toml", owner=OWNER):
            self.assertIn("error: ", self.check(user=OWNER))
        with mode_of(self.conf / "a.toml", 0o666):
            self.assertIn("can be written by others", self.check())

    def test_it_reads_with_the_callers_rights(self):
        """A file that the caller may not read is not read out in error messages."""
        (self.conf / "a.toml").write_text("secret secret\n")
        with mode_of(self.conf / "a.toml", 0o600):
            self.assertIn("Permission denied", self.check(user=OTHER_OWNER))

    def test_not_setuid(self):
        plain = self.install(self.program, "plain", 0o755)
        self.assertIn("not installed setuid root", self.check(program=plain))

    def test_usage(self):
        done = self.imp("check", "--nosuch")
        self.refused(done, "check: unknown argument", status=2)
