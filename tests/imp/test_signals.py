# SPDX-License-Identifier: LGPL-3.0-or-later
"""Signals for the IMP, at any moment: RFC 15, "Signal Handling"."""

import signal
import subprocess

from tests.lib.imp import OWNER, PATIENCE, ImpTest, as_user

LOOP = "echo ready; while :; do sleep 0.01; done"


class Signals(ImpTest):
    def popen(self, *command, **env):
        env.setdefault("FLUX_IMP_EXEC_HELPER", f"cat {self.given()}")
        process = subprocess.Popen(
            [self.program, "exec", self.shell, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment(**env), **as_user(OWNER),
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def start(self, script):
        """exec of a shell that runs `script`, which says "ready" first."""
        process = self.popen("sh", "-c", script)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def owner_kills(self, pid, signum):
        subprocess.run(["kill", f"-{int(signum)}", str(pid)], check=True, **as_user(OWNER))

    def test_they_are_handed_on(self):
        for name in ("HUP", "INT", "QUIT", "ALRM", "TERM", "WINCH", "TTIN", "TTOU"):
            process = self.start(f"trap 'echo got; exit 7' {name}; {LOOP}")
            self.owner_kills(process.pid, signal.Signals[f"SIG{name}"])
            out, _ = process.communicate(timeout=PATIENCE)
            self.assertEqual((out, process.returncode), (b"got\n", 7), name)

    def test_others_neither_arrive_nor_end_the_imp(self):
        process = self.start(f"trap 'exit 7' TERM; {LOOP}")
        for signum in (signal.SIGUSR2, signal.SIGPIPE, signal.SIGIO, signal.SIGXCPU,
                       signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGSYS):  # fmt: skip
            self.owner_kills(process.pid, signum)
        self.owner_kills(process.pid, signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 7)

    def test_usr1_kills_what_ignores_everything(self):
        process = self.start("trap '' TERM INT HUP; exec 2>/dev/null; " + LOOP)
        self.owner_kills(process.pid, signal.SIGTERM)
        self.owner_kills(process.pid, signal.SIGUSR1)
        process.wait(timeout=PATIENCE)
        self.assertEqual(process.returncode, -signal.SIGKILL)

    def test_at_any_moment_they_leave_nothing(self):
        for turn in range(40):
            process = self.popen("sleep", "1000")
            # A loop of growing length: the signal comes at another place each time.
            for _ in range(turn * 4000):
                pass
            process.send_signal(signal.SIGTERM)
            # The pipes are closed when all who had them have ended.
            process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_a_caller_that_ignores_children(self):
        """SIGCHLD ignored is inherited, and would hide how the shell ended."""
        script = (
            "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        done = subprocess.run(
            ["/usr/bin/python3", "-c", script, self.program, "exec", self.shell, "sh", "-c", "exit 5"],
            env=self.environment(FLUX_IMP_EXEC_HELPER=f"cat {self.given()}"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, **as_user(OWNER),
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (5, b""))

    def test_a_reader_that_its_owner_kills(self):
        waiting = self.script("waiting", "echo $PPID >&2; exec sleep 1000")
        process = self.popen("id", FLUX_IMP_EXEC_HELPER=str(waiting))
        self.owner_kills(int(process.stderr.readline()), signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out), (1, b""))
        self.assertIn(b"the reader was killed by signal 9 and gave no answer", err)
