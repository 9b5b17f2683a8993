# SPDX-License-Identifier: LGPL-3.0-or-later
"""Bad input of `start`: each has its message, with what, where and what to do, the right
exit status, and leaves nothing behind."""

import errno
import pathlib
import shutil
import socket
import subprocess
import tempfile

from tests.lib import fluxwire
from tests.lib.sandbox import GUEST, OWNER, ROOT, SandboxTest, acting_as, needs_root

UNIX_PATH_MAX = 107  # bytes of a UNIX socket's path


# What is no number of nodes, tasks or cores.
NO_COUNTS = ("0", "-1", "two", "1.5", "2x", "99999999999")


class Uri(SandboxTest):
    def refused(self, uri, status, says):
        for command in (["start"], ["status"], ["stop"]):
            with self.subTest(command=command):
                ran = self.dat(*command, env={"FLUX_URI": uri}).ended(status)
                self.assert_says(ran, says)
        self.assert_no_dat_left()

    def test_no_broker_there(self):
        nowhere = self.place / "nowhere"
        self.refused(f"local://{nowhere}", 1, [str(nowhere), "flux-dat sandbox up"])

    def test_a_socket_that_nobody_serves(self):
        dead = self.place / "dead"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(dead))
        dead.chmod(0o777)
        self.refused(f"local://{dead}", 1, [str(dead), "flux-dat sandbox up"])

    def test_unknown_scheme(self):
        self.refused("tcp://host:1234", 2, ["tcp", "local", "ssh"])
        self.refused("nothing", 2, ["nothing"])

    def test_path_too_long(self):
        self.refused("local:///" + "x" * 200, 2, "x" * 20)

    @needs_root
    def test_permission_denied_at_the_socket(self):
        closed = self.place / "closed"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(closed))
            listener.listen()
            closed.chmod(0o700)
            self.refused(f"local://{closed}", 7, [str(closed), "permission denied"])

    def test_ssh_that_fails(self):
        ssh = self.place / "ssh"
        ssh.write_text("#!/bin/sh\necho 'no route to host' >&2\nexit 255\n")
        ssh.chmod(0o755)
        ran = self.dat(
            "status",
            env={
                "FLUX_URI": "ssh://far/run/flux/local",
                "FLUX_SSH": str(ssh),
                "FLUX_URI_RESOLVE_LOCAL": None,
            },
        ).ended(1)
        self.assert_says(ran, "far")


class Options(SandboxTest):
    def test_nodes(self):
        for nodes in NO_COUNTS:
            with self.subTest(nodes=nodes):
                self.start_fails(
                    f"--nodes={nodes}", status=2, says=["--nodes", "1 to 1048576", f'"{nodes}"']
                )
        self.start_fails("-N", "x", status=2, says=["--nodes", '"x"'])
        self.start_fails("--nodes=", status=2, says="--nodes needs a value")

    def test_numbers_of_other_commands(self):
        for command, options in (
            (("run",), ("--nodes", "--ntasks", "--cores-per-task")),
            (("sandbox", "up"), ("--size", "--cores")),
        ):
            for option in options:
                for value in NO_COUNTS:
                    with self.subTest(command=command, option=option, value=value):
                        ran = self.dat(*command, f"{option}={value}", "true").ended(2)
                        self.assert_says(
                            ran, [" ".join(command), option, "whole number", f'"{value}"']
                        )

    def test_more_nodes_than_there_are(self):
        self.start_fails("-N5", status=1, says="unsatisfiable")

    def test_bad_durations(self):
        for option in ("--time-limit", "--timeout"):
            for value in ("soon", "-1", "1y", ""):
                with self.subTest(option=option, value=value):
                    self.start_fails(f"{option}={value}", status=2, says=[option, value])

    def test_bad_begin_time(self):
        for value in ("next week", "+", "2026-13-01", "2026-01-01 25:00"):
            with self.subTest(value=value):
                self.start_fails(f"--begin-time={value}", status=2, says=["--begin-time", value])

    def test_bad_urgency(self):
        for value in ("32", "-1", "high", ""):
            with self.subTest(value=value):
                self.start_fails(f"--urgency={value}", status=2, says=["--urgency", value])

    def test_bad_constraint_points_at_the_column(self):
        for value, column in (("host:a and (", 13), ("host:a )", 8), ("rank:x", None)):
            with self.subTest(value=value):
                says = ["--requires"] + ([f"column {column}"] if column else [])
                self.start_fails("--requires", value, status=2, says=says)

    def test_an_option_twice(self):
        for options in (
            ("--nodes=1", "-N2"),
            ("--name", "a", "--name", "b"),
            ("--name", "a", "--job-name", "b"),
            ("--time-limit", "1", "-t", "2"),
            ("--imp", "/a", "--imp", "/b"),
        ):
            with self.subTest(options=options):
                self.start_fails(
                    *options, status=2, says=[options[0].partition("=")[0], "more than once"]
                )

    def test_values_where_none_belong_and_none_where_one_does(self):
        for words, says in (
            (("start", "--nodes"), "--nodes needs a value"),
            (("start", "--conf"), "--conf needs a value"),
            (("start", "--open=maybe"), "--open takes no value"),
            (("stop", "--now=x"), "--now takes no value"),
            (("stop", "--now", "--grace", "1"), "exclude each other"),
            (("sandbox",), "which command?"),
            (("sandbox", "nosuch"), "which command?"),
        ):
            with self.subTest(words=words):
                self.assert_says(self.dat(*words).ended(2), [says, "--help"])

    def test_unknown_option_and_argument(self):
        self.start_fails("--nosuch", status=2, says=["--nosuch", "--help"])
        self.start_fails("leftover", status=2, says="leftover")

    def test_what_was_probably_meant(self):
        for words, says in (
            (("stop", "demo"), "if that is a DAT's name: --dat demo"),
            (("status", "demo"), "--dat demo"),
            (("start", "demo"), "--name demo"),
            (("grant", "--user", "alice"), "users are its arguments: flux-dat grant USER"),
            (("--json", "status"), "options come behind the command: flux-dat status --json"),
            (("status", "--dat", ""), "--dat: needs a name or a job id"),
        ):
            with self.subTest(words=words):
                self.assert_says(self.dat(*words).ended(2), [says, "--help"])

    def test_names(self):
        for name in ("", "x" * 65, "a/b", "a\nb", "a\tb", "-a", ".a", "a b", "ä", "123", "ƒabc"):
            with self.subTest(name=name):
                self.start_fails(f"--name={name}", status=2, says="name")

    def test_longest_name(self):
        self.start("--name", "x" * 64)
        self.assertEqual([dat["name"] for dat in self.dats()], ["x" * 64])

    def test_no_such_user_or_group(self):
        for option in ("--user", "--group", "--manager"):
            for who in ("nosuchone", "games,nosuchone", "4294967295", "-1"):
                with self.subTest(option=option, who=who):
                    self.start_fails(
                        f"{option}={who}", status=2, says=[option, who.rpartition(",")[2]]
                    )

    def test_empty_entries(self):
        for option in ("--user", "--group", "--manager"):
            self.start_fails(f"{option}=", status=2, says=f"{option} needs a value")
            for who in (",", "games,", ",games", "games,,games"):
                with self.subTest(option=option, who=who):
                    self.start_fails(f"{option}={who}", status=2, says=[option, "empty", "comma"])

    def test_lists_and_repeated_options_add_up(self):
        self.start("--user", "games,mail", "--user", "news")
        self.assertEqual(len(self.dats()[0]["users"]), 3)

    def test_root_as_guest(self):
        for who in ("root", "0"):
            with self.subTest(who=who):
                self.start_fails("--user", who, status=2, says=["--user", "root"])
        self.start_fails("--group", "root", status=2, says=["--group", "root"])

    @needs_root
    def test_as_root_in_the_instance_of_another_user(self):
        says = [f"root's jobs are not accepted by an instance of user {OWNER}", "runuser -u"]
        self.start_fails(status=7, says=says, user="root")
        self.start()
        self.assert_says(self.dat("run", "true", user="root").ended(7), says)

    def test_bad_attributes_and_shell_options(self):
        self.start_fails("-S", "=1", status=2, says="-S")
        self.start_fails("-o", "=1", status=2, says="-o")

    def test_bad_env_rule(self):
        self.start_fails("--env", "/[/", status=2, says="--env")


class Configuration(SandboxTest):
    def conf(self, text, name="some.toml"):
        path = self.place / name
        path.write_text(text)
        return path

    def test_missing_file(self):
        path = self.place / "nosuch.toml"
        self.start_fails("--conf", path, status=2, says=str(path))

    @needs_root  # as root's file is unreadable to the owner
    def test_unreadable_file(self):
        path = self.conf("")
        path.chmod(0o600)
        self.start_fails("--conf", path, status=2, says=[str(path), "Permission denied"])

    def test_not_toml(self):
        path = self.conf("[access]\nallow-guest-user = maybe\n")
        self.start_fails("--conf", path, status=2, says=f"{path}:2:")

    def test_not_json(self):
        path = self.conf('{"access": {]}', "some.json")
        self.start_fails("--conf", path, status=2, says=f"{path}:1:")

    def test_wrong_type_at_a_key(self):
        path = self.conf("[access]\nallow-guest-user = 3\n")
        self.start_fails(
            "--conf", path, status=2, says=[f"{path}:2:", "access.allow-guest-user"]
        )

    def test_directory(self):
        path = self.place / "directory.toml"
        path.mkdir()
        self.start_fails("--conf", path, status=2, says=str(path))

    def test_guests_shut_out(self):
        path = self.conf("[access]\nallow-guest-user = false\n")
        self.start_fails("--conf", path, status=2, says=[f"{path}:2:", "allow-guest-user"])

    def test_topology_that_is_none(self):
        for topology in ("nosuch", "nosuch:1", "kary", "kary:x", "kary:-1", "binomial:2"):
            with self.subTest(topology=topology):
                self.start_fails(
                    "--conf", f"tbon.topo={topology}", status=2,
                    says=["tbon.topo", topology, "kary:K"],
                )  # fmt: skip
        self.start("--conf", "tbon.topo=kary:2")

    def test_imp_that_is_none(self):
        self.start_fails("--imp", "/etc/passwd", status=2, says=["/etc/passwd", "--imp"])
        self.start_fails("--imp", "/nosuch", status=2, says=["/nosuch", "--imp"])


class Queues(SandboxTest):
    def test_unknown_queue(self):
        self.start_fails("-q", "nosuch", status=1, says="nosuch")


class DoorDir(SandboxTest):
    def refused(self, directory, says, nodes=2):
        ran = self.start_fails(
            f"-N{nodes}", "--door-dir", str(directory), status=1, says=says
        )
        return ran

    def test_path_too_long_for_a_socket(self):
        long = self.place / ("x" * UNIX_PATH_MAX)
        long.mkdir()
        self.addCleanup(long.rmdir)
        if ROOT:
            subprocess.run(["chown", OWNER, long], check=True)
        self.refused(long, ["x" * 20, "socket"])
        self.assertEqual(list(long.iterdir()), [])

    def test_relative(self):
        self.start_fails("--door-dir", "doors", status=2, says=["--door-dir", "absolute"])

    @needs_root
    def test_not_writable(self):
        closed = self.place / "closed"
        closed.mkdir(mode=0o755)
        self.refused(closed, [str(closed), "Permission denied"])

    def test_a_file(self):
        path = self.place / "file"
        path.write_text("")
        self.refused(path / "below", [str(path)])

    def mounted(self, *mount):
        """A file system of its own for the doors."""
        point = pathlib.Path(tempfile.mkdtemp(prefix="m-"))
        self.addCleanup(point.rmdir)
        made = subprocess.run(
            ["mount", *mount, point], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            self.skipTest(f"cannot mount here: {made.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", point], check=True)
        shutil.chown(point, OWNER)
        point.chmod(0o755)
        return point

    @needs_root
    def test_no_acls(self):
        point = self.mounted("-t", "ramfs", "ramfs")
        self.start_fails(
            "--user", GUEST, "--door-dir", str(point), status=1,
            says=[str(point), "ACL", "--open"],
        )  # fmt: skip
        self.assertEqual(list(point.iterdir()), [])

    @needs_root
    def test_no_acls_are_needed_when_open(self):
        point = self.mounted("-t", "ramfs", "ramfs")
        self.start("--open", "--door-dir", str(point))
        self.dat("stop", "--now").succeeded()
        self.assertEqual(list(point.iterdir()), [])

    @needs_root
    def test_full(self):
        # Inodes for the directory itself and nothing else.
        point = self.mounted("-t", "tmpfs", "-o", "nr_inodes=1", "tmpfs")
        self.refused(point, [str(point), "No space left on device"])
        self.assertEqual(list(point.iterdir()), [])

    @needs_root
    def test_one_rank_fails_and_the_whole_start_is_undone(self):
        # Inodes for one rank's door (directory, lock, grants, socket), not for two.
        point = self.mounted("-t", "tmpfs", "-o", "nr_inodes=6", "tmpfs")
        ran = self.refused(point, ["No space left on device"])
        self.assertRegex(ran.err.splitlines()[-1], r"\(rank [01]\)")
        self.assertEqual(list(point.iterdir()), [])


class Submission(SandboxTest):
    def waiting(self, *arguments):
        """A start that waits for its begin time, and its job's id."""
        running = self.dat_background(
            *self.start_arguments("--begin-time", "+1h", "--verbose", *arguments)
        )
        running.says("submitted")
        [dat] = self.dats() or [None]
        return running, dat["id"]

    def test_cancelled_while_waiting(self):
        running, jobid = self.waiting()
        self.cancel(jobid, note="not today")
        ran = running.wait().ended(1)
        self.assert_says(ran, [jobid, "cancel", "not today"])
        self.assert_no_dat_left()

    def test_timed_out_while_starting(self):
        self.start_fails("-t", "0.001s", status=1, says="timeout")

    def test_raised_exception_of_another_kind(self):
        running, jobid = self.waiting()
        self.flux().rpc(
            "job-manager.raise",
            {
                "id": fluxwire.parse_jobid(jobid),
                "type": "test",
                "severity": 0,
                "note": "as it were",
            },
        )
        ran = running.wait().ended(1)
        self.assert_says(ran, [jobid, "test", "as it were"])
        self.assert_no_dat_left()


class Hostile(SandboxTest):
    """A peer that does not speak the protocol, at either end."""

    ANSWERS = {
        "garbage": b"\0" + b"HTTP/1.1 400 Bad Request\r\n\r\n",
        "truncated": b"\0" + b"\x12\x00\xee\xff\x00\x00\x00\x40" + b"short",
        "nothing": b"",
        "huge frame": b"\0" + b"\x12\x00\xee\xff\xff\xff\xff\xff",
        "part of 4 GiB": b"\0"
        + b"\x12\x00\xee\xff\x00\x00\x00\x20\xff\xff\xff\xff\xff"
        + b"x" * 27,
        "refused": bytes([errno.EPERM]),
    }

    def answered(self, answer):
        """What `status` says to a broker that answers so and closes."""
        path = self.place / "hostile"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            path.chmod(0o777)
            listener.listen()
            running = self.dat_background("status", env={"FLUX_URI": f"local://{path}"})
            peer, _ = listener.accept()
            with peer:
                if callable(answer):
                    answer(peer)
                else:
                    peer.sendall(answer)
        path.unlink()
        return running.wait()

    def test_what_a_broker_may_send(self):
        for name, answer in self.ANSWERS.items():
            with self.subTest(answer=name):
                ran = self.answered(answer)
                self.assertIn(ran.status, (1, 7))
                self.assert_says(ran, "hostile")

    def test_json_nested_too_deep(self):
        def answer(peer):
            peer.sendall(b"\0")
            request = b""
            while len(request) < 8 or len(request) < 8 + int.from_bytes(request[4:8], "big"):
                request += peer.recv(65536)
            asked = fluxwire.decode(request[8 : 8 + int.from_bytes(request[4:8], "big")])
            deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\0"
            peer.sendall(
                fluxwire.encode(
                    fluxwire.Message(
                        fluxwire.RESPONSE, asked.topic, deep, aux1=0, aux2=asked.aux2,
                        routes=asked.routes,
                    )  # fmt: skip
                )
            )

        ran = self.answered(answer)
        self.assertEqual(ran.status, 1)
        self.assert_says(ran, "deep")

    def test_what_a_client_may_send_to_the_sandbox(self):
        path = fluxwire.socket_path(self.env["FLUX_URI"])
        deep = fluxwire.Message(
            topic="attr.get", payload=b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\0",
            routes=[], aux2=1,
        )  # fmt: skip
        sent = [answer[1:] for answer in self.ANSWERS.values()] + [
            fluxwire.encode(deep),
            fluxwire.encode(fluxwire.Message(topic="x" * 100_000, routes=[], aux2=1)),
            fluxwire.encode(fluxwire.Message(type=77, topic="x", routes=[])),
            b"\x12\x00\xee\xff\x00\x00\x00\x00",
        ]
        for data in sent:
            with self.subTest(data=data[:20]):
                with acting_as(OWNER):
                    client = socket.socket(socket.AF_UNIX)
                    client.connect(path)
                with client:
                    client.sendall(data)
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65536):
                        pass
                self.assertEqual(self.dats(), [], "it still answers")
