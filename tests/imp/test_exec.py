# SPDX-License-Identifier: LGPL-3.0-or-later
"""exec of the setuid IMP: what is accepted, and what the shell then is."""

import json
import os
import signal
import socket
import subprocess

from tests.lib.imp import (
    GUEST,
    OTHER_OWNER,
    OWNER,
    PATIENCE,
    PROGRAM,
    ImpTest,
    as_user,
    gid,
    kv,
    sign_none,
    uid,
)


class Accepted(ImpTest):
    def test_the_shell_is_the_guest_for_good(self):
        status = self.accepted(self.execute("cat", "/proc/self/status"))
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        self.assertEqual(fields["Uid"].split(), [str(uid(GUEST))] * 4)
        self.assertEqual(fields["Gid"].split(), [str(gid(GUEST))] * 4)
        groups = subprocess.check_output(["id", "-G", GUEST]).decode().split()
        self.assertEqual(sorted(fields["Groups"].split()), sorted(groups))
        for capabilities in ("CapEff", "CapPrm"):
            self.assertEqual(int(fields[capabilities], 16), 0)
        self.assertEqual(int(fields["SigBlk"], 16), 0)

    def test_arguments_and_directory(self):
        done = self.execute("sh", "-c", 'pwd; for a; do echo "[$a]"; done', "sh", "a b", "", "*")
        self.assertEqual(self.accepted(done), "/\n[a b]\n[]\n[*]\n")

    def test_the_environment_is_passed_on(self):
        out = self.accepted(self.execute("env", env={"FLUX_URI": "local:///x", "A": "1\n2"}))
        self.assertIn("FLUX_URI=local:///x\n", out)
        self.assertIn("A=1\n2\n", out)

    def test_what_would_load_code_is_not_passed_on(self):
        env = {"LD_PRELOAD": "/nonexistent.so", "LD_SOMETHING": "1"}
        self.assertNotIn("LD_", self.execute("env", env=env).stdout.decode())

    def test_thousands_of_variables(self):
        env = {f"VARIABLE_{i}": "x" * 20 for i in range(20000)}
        out = self.accepted(self.execute("env", env=env))
        self.assertEqual(out.count("VARIABLE_"), 20000)

    def test_a_credential_that_was_seen_before(self):
        data = self.input()
        for _ in range(2):
            self.accepted(self.execute("true", data=data))

    def test_the_owner_runs_own_jobs(self):
        self.accepted(self.execute("true", data=self.input(OWNER)))

    def test_mechanism_none_is_for_oneself(self):
        self.configure(sign='allowed-types = ["munge", "none"]')
        mine = json.dumps({"J": sign_none(uid(OWNER))}).encode()
        self.assertEqual(self.accepted(self.execute("id", "-u", data=mine)), f"{uid(OWNER)}\n")

    def test_unknown_members_of_the_input_are_ignored(self):
        self.accepted(self.execute("true", data=self.input(something={"else": [1]})))

    def test_a_jobspec_of_a_megabyte(self):
        data = json.dumps({"J": self.munged.sign(GUEST, b"x" * (1 << 20))}).encode()
        self.accepted(self.execute("true", data=data))

    def test_exit_status(self):
        for status in (0, 1, 3, 126, 127, 255):
            done = self.execute("sh", "-c", f"exit {status}")
            self.assertEqual((done.returncode, done.stderr), (status, b""))

    def test_a_signal_ends_the_imp_as_it_ended_the_shell(self):
        done = self.execute("sh", "-c", "kill -TERM $$")
        self.assertEqual(done.returncode, -signal.SIGTERM)

    def test_a_helper_leaves_stdin_to_the_shell(self):
        helper = {"FLUX_IMP_EXEC_HELPER": f"cat {self.given()}"}
        done = self.execute("cat", data=b"for the shell", env=helper)
        self.assertEqual(self.accepted(done), "for the shell")

    def test_a_helper_has_no_privileges_and_no_shell(self):
        text = f'id -u >&2; echo "[$1][$2]" >&2; cat {self.given()}'
        helper = self.script("helper", text)
        done = self.execute("true", env={"FLUX_IMP_EXEC_HELPER": f"{helper} $HOME 'a b'"})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.decode(), f"{uid(OWNER)}\n[$HOME]['a]\n")

    def test_closed_standard_descriptors(self):
        env = self.environment(FLUX_IMP_EXEC_HELPER=f"cat {self.given()}")
        for closed in ("<&-", "2>&-", "<&- 2>&-"):
            done = subprocess.run(
                ["sh", "-c", f'exec "$0" exec {self.shell} id -u {closed}', self.program],
                stdout=subprocess.PIPE, timeout=PATIENCE, env=env, **as_user(OWNER),
            )  # fmt: skip
            self.assertEqual((done.returncode, done.stdout.decode()), (0, f"{uid(GUEST)}\n"), closed)
        silent = subprocess.run(
            ["sh", "-c", f'exec "$0" exec {self.shell} true <&- >&- 2>&-', self.program],
            timeout=PATIENCE, env=env, **as_user(OWNER),
        )  # fmt: skip
        self.assertEqual(silent.returncode, 0)

    def test_nothing_of_the_imps_own_is_left_open(self):
        listing = self.accepted(self.execute("ls", "/proc/self/fd")).split()
        self.assertEqual(sorted(set(listing) - {"3"}), ["0", "1", "2"])

    def test_reader_kv_where_it_is_allowed(self):
        self.configure('readers = ["kv"]')
        data = kv(("J", "s", self.munged.sign(GUEST)))
        done = self.execute("id", "-u", data=data, env={"FLUX_DAT_IMP_READER": "kv"})
        self.assertEqual(self.accepted(done), f"{uid(GUEST)}\n")

    def test_a_later_file_takes_the_place_of_a_table(self):
        allowed = f'allowed-users = ["{OTHER_OWNER}"]\nallowed-shells = ["{self.shell}"]\n'
        self.configure(b=f"[exec]\n{allowed}")
        done = self.execute("id", "-u", user=OTHER_OWNER)
        self.assertEqual(done.stdout.decode(), f"{uid(GUEST)}\n")
        warning = done.stderr.decode()
        for part in ("Warning: configuration", "[exec]", "a.toml", "b.toml"):
            self.assertIn(part, warning)
        self.refused(self.execute("true"), OWNER, "not in allowed-users list", "b.toml")


class WithoutPrivileges(ImpTest):
    def setUp(self):
        super().setUp()
        self.plain = self.install(self.program, "flux-dat-imp-plain", 0o755)

    def test_refused_unless_allowed(self):
        self.refused(self.execute("id", program=self.plain), "not installed setuid root")

    def test_allowed_it_runs_as_the_owner(self):
        self.configure("allow-unprivileged-exec = true")
        done = self.execute("id", "-u", program=self.plain, data=self.input(OWNER))
        self.assertEqual(done.stdout.decode(), f"{uid(OWNER)}\n")
        self.assertIn(b"Warning: Running without privilege", done.stderr)

    def test_whoami(self):
        u, g = uid(OWNER), gid(OWNER)
        self.assertEqual(
            self.accepted(self.imp("whoami", program=self.plain)),
            f"flux-dat-imp: unprivileged: uid={u} euid={u} gid={g} egid={g}\n",
        )


class Commands(ImpTest):
    def test_whoami(self):
        u, g = uid(OWNER), gid(OWNER)
        self.assertEqual(
            self.accepted(self.imp("whoami")),
            f"flux-dat-imp: unprivileged: uid={u} euid={u} gid={g} egid={g}\n"
            f"flux-dat-imp: privileged: uid={u} euid=0 gid={g} egid={g}\n",
        )

    def test_version(self):
        self.assertRegex(self.accepted(self.imp("version")), r"^flux-dat-imp v\d+\.\d+\.\d+\n$")

    def test_help(self):
        for word in ("help", "--help", "-h"):
            self.assertIn("usage: flux-dat-imp version", self.accepted(self.imp(word)))

    def test_no_command(self):
        self.refused(self.imp(), "command required")

    def test_unknown_command(self):
        self.refused(self.imp("no\nsuch"), "Unknown IMP command: no?such")

    def test_exec_without_arguments(self):
        self.refused(self.imp("exec"), "exec: missing arguments")
        self.refused(self.imp("exec", self.shell), "exec: missing arguments")

    def test_root_is_refused(self):
        for command in ("whoami", "exec", "run"):
            self.refused(self.imp(command, user="root"), "Refusing to run as root")

    def test_sudo_only_where_allowed(self):
        sudo = {"SUDO_UID": str(uid(OWNER)), "SUDO_GID": str(gid(OWNER))}
        self.refused(self.imp("whoami", user="root", env=sudo), "sudo support not enabled")
        self.configure(more="allow-sudo = true")
        out = self.accepted(self.imp("whoami", user="root", env=sudo))
        self.assertIn(f"privileged: uid={uid(OWNER)} euid=0", out)
        done = self.execute("id", "-u", user="root", env=sudo)
        self.assertEqual(self.accepted(done), f"{uid(GUEST)}\n")

    def test_the_installed_program_takes_nothing_from_its_environment(self):
        installed = self.install(PROGRAM, "installed", 0o4755)
        self.addCleanup(os.unlink, installed)
        done = self.execute("id", program=installed)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertNotIn(str(self.conf), done.stderr.decode())


class Notify(ImpTest):
    def states(self, mode):
        path = self.place / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(str(path))
            self.addCleanup(path.unlink)
            path.chmod(mode)
            self.accepted(self.execute("true", env={"NOTIFY_SOCKET": str(path)}))
            server.setblocking(False)
            states = []
            while True:
                try:
                    states.append(server.recv(4096).decode())
                except BlockingIOError:
                    return states

    def test_systemd_is_told(self):
        ready, stopping, _ = self.states(0o777)
        self.assertTrue(ready.startswith("READY=1\n"))
        self.assertTrue(stopping.startswith("STOPPING=1\n"))

    def test_a_socket_that_the_owner_may_not_write_to(self):
        self.assertEqual(self.states(0o700), [])
