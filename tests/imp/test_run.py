# SPDX-License-Identifier: LGPL-3.0-or-later
"""run of the setuid IMP: commands as root, with the environment of flux-imp's."""

import os
import signal
import subprocess

from tests.lib.imp import OTHER_OWNER, OWNER, PATIENCE, ImpTest, as_user, gid, mode_of, uid


class Run(ImpTest):
    def setUp(self):
        super().setUp()
        self.command("env")

    def command(self, text, *keys, path=None):
        """[run.x], a script; `keys` are lines of the table."""
        script = self.script("x", text)
        users = "" if any("allowed-users" in key for key in keys) else f'allowed-users = ["{OWNER}"]'
        lines = "\n".join([users, f'path = "{path or script}"', *keys])
        self.configure(b=f"[run.x]\n{lines}\n")
        return script

    def run_x(self, **env):
        return self.imp("run", "x", env=env)

    def test_as_root_with_the_callers_group(self):
        self.addCleanup(os.umask, os.umask(0))  # the caller's is not the command's
        self.command("id -u; id -g; pwd; umask; echo $#")
        self.assertEqual(self.accepted(self.run_x()), f"0\n{gid(OWNER)}\n/\n0022\n0\n")

    def test_environment(self):
        self.command("cat /proc/$$/environ | tr '\\0' '\\n'", 'allowed-environment = ["FLUX_*", "X?"]')
        out = self.accepted(self.run_x(FLUX_JOB_ID="1", FLUX_URI="u", XA="1", XAB="1", FOO="1"))
        own = [f"FLUX_OWNER_USERID={uid(OWNER)}", "HOME=/root", "USER=root"]
        own += ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        self.assertEqual(out.splitlines()[-4:], own)
        names = {line.split("=")[0] for line in out.splitlines()}
        self.assertLessEqual({"FLUX_JOB_ID", "FLUX_URI", "XA"}, names)
        self.assertFalse({"XAB", "FOO"} & names)

    def test_environment_by_default(self):
        print_it = "cat /proc/$$/environ | tr '\\0' '\\n' | cut -d= -f1"
        own = ["FLUX_OWNER_USERID", "HOME", "USER", "PATH"]
        ids = {"FLUX_JOB_ID": "1", "FLUX_JOB_USERID": "2", "FLUX_URI": "u"}
        self.command(print_it, "allowed-environment = []")
        self.assertEqual(self.accepted(self.run_x(**ids)).split(), [*list(ids)[:2], *own])
        # As flux-imp: nothing at all where the key is not there.
        self.command(print_it)
        self.assertEqual(self.accepted(self.run_x(**ids)).split(), own)

    def test_what_the_imp_sets_cannot_be_set(self):
        self.command('echo "$PATH $HOME $USER $FLUX_OWNER_USERID"', 'allowed-environment = ["*"]')
        out = self.accepted(self.run_x(PATH="/evil", HOME="/evil", USER="evil", FLUX_OWNER_USERID="0"))
        self.assertEqual(out, f"/usr/sbin:/usr/bin:/sbin:/bin /root root {uid(OWNER)}\n")

    def test_the_linker_is_told_nothing(self):
        self.command("env", 'allowed-environment = ["*"]')
        done = self.run_x(LD_PRELOAD="/nonexistent.so", LD_NEW="1")
        self.assertNotIn("LD_", self.accepted(done))

    def test_exit_status_and_signal(self):
        self.command("exit 7")
        self.assertEqual(self.run_x().returncode, 7)
        self.command("kill -9 $$")
        self.assertEqual(self.run_x().returncode, -9)

    def test_signals_reach_what_the_command_has_started(self):
        self.command("sh -c 'trap \"echo child; exit\" TERM; echo ready; while :; do sleep 0.01; done' & "
                     "trap 'wait; echo parent; exit 5' TERM; wait")  # fmt: skip
        process = subprocess.Popen(
            [self.program, "run", "x"], stdout=subprocess.PIPE, env=self.environment(),
            **as_user(OWNER),
        )  # fmt: skip
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual((out, process.returncode), (b"child\nparent\n", 5))

    def test_usr1_is_kill(self):
        self.command("trap '' TERM; echo ready; while :; do sleep 0.01; done")
        process = subprocess.Popen(
            [self.program, "run", "x"], stdout=subprocess.PIPE, env=self.environment(),
            **as_user(OWNER),
        )  # fmt: skip
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGUSR1)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, -signal.SIGKILL)


class Refused(Run):
    def test_nothing(self):
        self.refused(self.imp("run"), "run: nothing to run")

    def test_a_name_that_is_not_configured(self):
        self.refused(self.imp("run", "y\n"), "run: y?: no configuration found", str(self.conf))

    def test_a_caller_who_is_not_allowed(self):
        done = self.imp("run", "x", user=OTHER_OWNER)
        self.refused(done, "run: permission denied", OTHER_OWNER, "run.x.allowed-users", "b.toml")
        self.command("env", "allowed-users = []")
        self.refused(self.run_x(), "run: permission denied")

    def test_a_path_that_is_not_one(self):
        for path in ("x", "./x"):
            self.command("env", path=path)
            self.refused(self.run_x(), "x: path is missing or invalid", "run.x.path", "b.toml")
        self.configure(b=f'[run.x]\nallowed-users = ["{OWNER}"]\n')
        self.refused(self.run_x(), "x: path is missing or invalid")

    def test_a_command_that_is_not_there(self):
        self.command("env", path="/nonexistent")
        self.refused(self.run_x(), "run: /nonexistent: No such file", "run.x.path", "b.toml")

    def test_a_command_that_is_not_executable(self):
        self.command("env").chmod(0o644)
        self.refused(self.run_x(), "Permission denied", status=126)

    def test_a_command_that_is_not_secure(self):
        script = self.command("env")
        for mode in (0o777, 0o757, 0o775):
            os.chown(script, 0, gid(OWNER))
            with mode_of(script, mode):
                self.refused(self.run_x(), "can be written by others", "run.x.path")
        with mode_of(script, owner=OTHER_OWNER):
            self.refused(self.run_x(), f"belongs to uid {uid(OTHER_OWNER)}")
        with mode_of(self.place, 0o777):
            self.refused(self.run_x(), f"{self.place}: can be written by others")
        with mode_of(self.place, owner=OTHER_OWNER):
            done = self.run_x()
        self.assertEqual(done.returncode, 1)

    def test_a_symbolic_link(self):
        script = self.command("env")
        link = self.place / "link"
        link.symlink_to(script)
        self.addCleanup(link.unlink)
        self.command("env", path=str(link))
        self.refused(self.run_x(), "is a symbolic link")
