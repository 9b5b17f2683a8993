# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat run, for a guest: signed, through the IMP, under the guest's own uid."""

import base64
import contextlib
import json
import os
import pwd
import signal
import socket
import struct
import subprocess
import tempfile
import threading

from tests.lib import fluxwire, imp
from tests.lib.guests import GuestTest
from tests.lib.sandbox import GUEST, OWNER, STRANGER, SandboxTest, eventually, needs_root

GUEST_ID = pwd.getpwnam(GUEST).pw_uid
# Prints a line when it is up; SIGTERM and SIGINT it ignores.
STUBBORN = "trap '' TERM INT; echo up; while :; do sleep 60; done"


class InDat(GuestTest):
    """With a DAT of two nodes for GUEST."""

    start_options = ("--user", GUEST)

    def setUp(self):
        super().setUp()
        self.start("-N2", "--name", "demo", *self.start_options)
        [dat] = self.dats()
        self.uri = dat["uri"]
        self.owner = self.flux(uri=self.uri)

    def in_background(self, *arguments, user=GUEST, **options):
        """A guest's command that has said "up" on all of its ranks."""
        running = self.guest_background(*arguments, user=user, **options)
        self.says_up(running, 2 if "-N2" in arguments else 1)
        return running

    @staticmethod
    def says_up(running, ranks):
        def said():
            ended = running.process.poll() is not None
            if running.stdout().count("up") == ranks:
                return True
            assert not ended, running.wait()
            return False

        eventually(said, "the job runs")

    def jobs(self, state="running"):
        return self.owner.rpc(
            "job-list.list",
            {"max_entries": 20, "attrs": ["all"], "constraint": {"states": [state]}},
        )["jobs"]

    def raise_on(self, job, kind="cancel"):
        self.owner.rpc(
            "job-manager.raise", {"id": job["id"], "type": kind, "severity": 0, "note": ""}
        )

    def assert_gone(self, words, user=GUEST):
        eventually(lambda: not self.processes_with(words, user), f"{words!r} of {user} has ended")
        eventually(lambda: not self.processes_with("flux-dat-shell", user), "its job shells, too")

    def eventlog(self, job, path="guest.exec.eventlog"):
        return [
            json.loads(line)
            for line in self.owner.rpc(
                "job-info.lookup", {"id": job["id"], "keys": [path], "flags": 0}
            )[path].splitlines()
        ]


class Run(InDat):
    def test_ids_of_all_ranks(self):
        ran = self.run_as_guest("-N2", "-l", "id").succeeded()
        lines = sorted(ran.out.splitlines())
        self.assertEqual([line[:3] for line in lines], ["0: ", "1: "])
        for line in lines:
            self.assertIn(f"uid={GUEST_ID}({GUEST})", line)
            self.assertNotIn("root", line)
        self.assertEqual(ran.err, "")

    def test_exit_status_and_stderr(self):
        ran = self.run_as_guest("-N2", "-l", "sh", "-c", "echo oh >&2; exit $FLUX_TASK_RANK")
        ran.ended(1)
        self.assertEqual(sorted(ran.err.splitlines()), ["0: oh", "1: oh"])

    def test_a_command_that_is_killed(self):
        self.run_as_guest("sh", "-c", "kill -SEGV $$").ended(128 + signal.SIGSEGV)

    def test_a_command_that_is_not_there(self):
        ran = self.run_as_guest("-N2", "/no/such/command").ended(127)
        self.assertIn("start failed: /no/such/command: No such file or directory", ran.err)

    def test_environment_and_directory_are_those_that_were_signed(self):
        ran = self.run_as_guest(
            "--cwd", "/usr", "--env", "COLOUR=blue", "sh", "-c",
            "pwd; echo $COLOUR ${FLUX_IMP_CONFIG_PATTERN-none} $(umask);"
            "stat -c %U:%a $FLUX_JOB_TMPDIR",
            env={"FLUX_IMP_CONFIG_PATTERN": None},
        ).succeeded()  # fmt: skip
        self.assertEqual(ran.out, f"/usr\nblue none 0022\n{GUEST}:700\n")

    def test_a_directory_that_the_guest_may_not_enter(self):
        ran = self.run_as_guest("--cwd", "/root", "pwd").succeeded()
        self.assertEqual(ran.out, "/tmp\n")
        self.assertIn("Could not change dir to /root", ran.err)

    def test_tasks_and_their_places(self):
        ran = self.run_as_guest(
            "-N2", "-n2", "sh", "-c", "echo $FLUX_TASK_RANK {{node.name}} $FLUX_JOB_NNODES"
        ).succeeded()
        self.assertEqual(
            sorted(ran.out.splitlines()), ["0 sandbox0 2", "1 sandbox1 2"]
        )

    def test_much_output(self):
        ran = self.run_as_guest("head", "-c", "3000000", "/dev/zero").succeeded()
        self.assertEqual(len(ran.out), 3000000)

    def test_too_much_output_is_cut_and_told(self):
        ran = self.run_as_guest("head", "-c", "20000000", "/dev/zero").succeeded()
        # Bytes of the task's, whatever they are in messages.
        self.assertGreater(len(ran.out), 9 << 20)
        self.assertLessEqual(len(ran.out), 10 << 20)
        self.assert_says(ran, f"flux-dat run: output is truncated after {len(ran.out)} bytes")

    def test_standard_input(self):
        text = "".join(f"line {i} \u00fc\n" for i in range(100000))
        with tempfile.TemporaryFile("w+") as file:
            file.write(text)
            file.seek(0)
            ran = self.run_as_guest("cat", stdin=file).succeeded()
        self.assertEqual(ran.out, text)
        ran = self.run_as_guest("-N2", "-l", "wc", "-c").succeeded()
        self.assertEqual(sorted(ran.out.splitlines()), ["0: 0", "1: 0"])

    def test_stdin(self):
        # One that does not end by itself.
        running = self.guest_background(
            "-N2", "-l", "sh", "-c", "echo up; cat", stdin=subprocess.PIPE
        )
        self.addCleanup(running.process.stdin.close)
        self.says_up(running, 2)
        [job] = self.jobs()
        service = f"{GUEST_ID}-shell-{self.eventlog(job)[2]['context']['service'].split('-')[-1]}"
        guest = self.flux(user=GUEST, uri=self.uri)
        request = {"stream": "stdin", "rank": "1", "data": "to one\n"}
        guest.rpc(f"{service}.stdin", request)
        guest.rpc(f"{service}.stdin", {"stream": "stdin", "rank": "all", "eof": True})
        ran = running.wait().succeeded()
        self.assertIn("1: to one", ran.out.splitlines())
        self.assertNotIn("0: to one", ran.out)

    def test_what_a_task_leaves_running_ends_with_the_job(self):
        self.run_as_guest("sh", "-c", "setsid sleep 6001 >/dev/null 2>&1 <&1 & exec true").succeeded()
        self.assert_gone("sleep 6001")

    def test_no_directory_is_left(self):
        ran = self.run_as_guest("-N2", "sh", "-c", "echo $FLUX_JOB_TMPDIR").succeeded()
        for path in ran.out.split():
            self.assertTrue(path.startswith(f"{self.place}/tmp/jobtmp-"), path)
        self.assertEqual(self.files_in(self.place / "tmp"), [])

    def test_what_flux_says_of_it(self):
        self.run_as_guest("-N2", "true").succeeded()
        [job] = self.jobs("inactive")
        names = [event["name"] for event in self.eventlog(job)]
        self.assertEqual(
            names[:5], ["init", "starting", "shell.init", "shell.start", "shell.task-exit"]
        )
        self.assertEqual(names[-2:], ["complete", "done"])
        [shell_exit] = [e for e in self.eventlog(job) if e["name"] == "shell-exit"]
        self.assertEqual(shell_exit["context"]["wait_status"], 0)

    def test_many_jobs_in_a_row(self):
        for _ in range(20):
            self.assertEqual(self.run_as_guest("id", "-u").succeeded().out, f"{GUEST_ID}\n")


class Ending(InDat):
    up_conf = ("--conf=exec.kill-timeout=500ms",)

    def test_sigint_is_passed_on(self):
        running = self.in_background(
            "-N2", "sh", "-c", "trap 'echo interrupted; exit 3' INT; echo up; sleep 600 & wait"
        )
        ran = running.signal(signal.SIGINT).wait().ended(3)
        self.assertEqual(ran.out.count("interrupted"), 2)
        self.assert_gone("sleep 600")

    def test_sigint_ends_a_job(self):
        running = self.in_background("-N2", "sh", "-c", "echo up; exec sleep 6002")
        running.signal(signal.SIGINT).wait().ended(128 + signal.SIGINT)
        self.assert_gone("sleep 6002")

    def test_second_sigint_cancels(self):
        running = self.in_background(
            "sh", "-c", "trap '' TERM; trap 'echo no' INT; echo up; while :; do sleep 1; done"
        )
        running.signal(signal.SIGINT)
        eventually(lambda: "no" in running.stdout(), "the job has the first one")
        running.signal(signal.SIGINT)
        ran = running.wait().ended(128 + signal.SIGKILL)
        self.assertIn("cancel: interrupted", ran.err)
        self.assert_gone("echo up; while")

    def test_cancel(self):
        running = self.in_background("-N2", "sh", "-c", "echo up; exec sleep 6003")
        self.raise_on(self.jobs()[0])
        ran = running.wait().ended(128 + signal.SIGTERM)
        self.assertIn("cancel", ran.err)
        self.assert_gone("sleep 6003")

    def test_cancel_of_a_job_that_ignores_sigterm(self):
        running = self.in_background("-N2", "sh", "-c", STUBBORN)
        self.raise_on(self.jobs()[0])
        running.wait().ended(128 + signal.SIGKILL)
        self.assert_gone("echo up; while")

    def test_time_limit(self):
        running = self.in_background("-t", "2s", "sh", "-c", "echo up; exec sleep 6004")
        ran = running.wait().ended(128 + signal.SIGALRM)
        self.assertIn("timeout", ran.err)
        self.assert_gone("sleep 6004")

    def test_a_signal_that_no_imp_hands_on(self):
        running = self.in_background("sh", "-c", "trap 'exit 9' USR2; echo up; sleep 601 & wait")
        self.owner.rpc(
            "job-manager.kill", {"id": self.jobs()[0]["id"], "signum": int(signal.SIGUSR2)}
        )
        running.wait().ended(9)
        self.assert_gone("sleep 601")

    def test_a_job_shell_that_its_user_has_stopped(self):
        flag = self.place / "flag"
        running = self.in_background(
            "sh", "-c",
            f"echo up; until [ -e {flag} ]; do sleep 0.1; done; kill -STOP $PPID; exec sleep 6005",
        )  # fmt: skip
        flag.touch()
        eventually(lambda: self.processes_with("^sleep 6005"), "it has stopped its job shell")
        [job] = self.jobs()
        self.raise_on(job)
        running.wait()
        eventually(lambda: not self.jobs(), "the job has ended")
        self.assert_gone("sleep 6005")

    def test_a_job_shell_that_its_user_has_killed(self):
        ran = self.run_as_guest("sh", "-c", "kill -KILL $PPID; exec sleep 6006")
        ran.ended(128 + signal.SIGKILL)
        self.assertIn("shell rank 0 (on sandbox0): Killed", ran.err)
        self.assert_gone("sleep 6006")

    def test_one_of_two_job_shells_is_killed(self):
        ran = self.run_as_guest(
            "-N2", "-l", "sh", "-c", "[ $FLUX_TASK_RANK = 0 ] || kill -KILL $PPID; echo hello"
        ).ended(128 + signal.SIGKILL)
        self.assertIn("0: hello", ran.out)
        self.assertIn("shell rank 1 (on sandbox1): Killed", ran.err)

    def test_the_engine_is_killed(self):
        self.in_background("-N2", "sh", "-c", STUBBORN)
        [engine] = [job for job in self.flux().rpc(
            "job-list.list", {"max_entries": 1, "attrs": ["all"]})["jobs"]]  # fmt: skip
        pid = int(self.owner.rpc("attr.get", {"name": "broker.pid"})["value"])
        os.kill(pid, signal.SIGKILL)
        self.assert_gone("echo up; while")
        self.assertEqual(engine["name"], "demo")

    def test_stop_ends_what_runs(self):
        running = self.in_background("-N2", "sh", "-c", STUBBORN)
        self.dat("stop", "--now").succeeded()
        running.wait()
        self.assert_gone("echo up; while")


class Refused(InDat):
    start_options = ("--open",)

    @staticmethod
    def close(grants):
        """Nobody but the owner is on that list any more, though the door is open."""
        text = grants.read_text()
        assert "open yes" in text, text
        grants.write_text(text.replace("open yes", "open no"))

    def test_a_stranger_at_an_open_door_is_refused_by_the_imp(self):
        self.assertEqual(self.run_as_guest("id", "-un", user=STRANGER).succeeded().out, f"{STRANGER}\n")
        for grants in self.doors.glob("dat-*/grants"):
            self.close(grants)
        ran = self.run_as_guest("-N2", "id", user=STRANGER).ended(1)
        self.assertEqual(ran.out, "")
        self.assertRegex(
            ran.err, rf"flux-dat-imp\[[01]\]: stderr: flux-dat-imp: Fatal: exec: user {STRANGER}.* is "
            r"not on the guest list"
        )  # fmt: skip
        self.assertIn("terminated before first barrier", ran.err)
        ran = self.run_as_guest("id", user=STRANGER).ended(1)
        self.assertIn("is not on the guest list", ran.err)
        self.assertEqual(self.jobs(), [])

    def test_each_rank_has_the_list_of_its_own_door(self):
        [grants] = self.doors.glob("dat-*.1/grants")
        self.close(grants)
        ran = self.run_as_guest("-N2", "id").ended(1)
        self.assertIn("flux-dat-imp[1]: stderr:", ran.err)
        self.assertNotIn("flux-dat-imp[0]: stderr:", ran.err)
        self.run_as_guest("id").succeeded()

    def test_two_guests_at_once(self):
        one = self.in_background("sh", "-c", "echo up; exec sleep 6007")
        other = self.in_background("sh", "-c", "echo up; exec sleep 6008", user=STRANGER)
        self.assertEqual({job["userid"] for job in self.jobs()}, {GUEST_ID, pwd.getpwnam(STRANGER).pw_uid})
        one.signal(signal.SIGINT).wait().ended(130)
        self.assertEqual(len(self.jobs()), 1)
        other.signal(signal.SIGINT).wait().ended(130)

    def test_the_imp_does_not_allow_the_owner(self):
        self.configure(users=["bin"])
        ran = self.run_as_guest("-N2", "id").ended(1)
        self.assertIn("not in allowed-users list", ran.err)
        # Of two ranks that fail at once, either may be the first.
        self.assertRegex(ran.err, r"sandbox[01] \(ranks [01]\) terminated before first barrier")

    def test_another_user_asks_for_the_job(self):
        running = self.in_background("sh", "-c", "echo up; exec sleep 6009")
        [job] = self.jobs()
        for user in (STRANGER, OWNER):
            client = self.flux(user=user, uri=self.uri)
            for ask in (
                lambda: next(iter(client.stream("sandbox-shell.plan", {"id": job["id"]}))),
                lambda: client.rpc("sandbox-shell.report", {"id": job["id"], "task": 0}),
            ):
                with self.assertRaises(fluxwire.FluxError) as refused:
                    ask()
                self.assertIn("only the job's own user runs its job shell", str(refused.exception))
        # Nor does a second program of its user.
        guest = self.flux(user=GUEST, uri=self.uri)
        with self.assertRaises(fluxwire.FluxError) as refused:
            next(iter(guest.stream("sandbox-shell.plan", {"id": job["id"]})))
        self.assertIn("a job shell on this node already", str(refused.exception))
        with self.assertRaises(fluxwire.FluxError):
            guest.rpc("sandbox-shell.report", {"id": job["id"], "task": 0, "pid": 1, "status": 0})
        self.assertEqual(len(self.jobs()), 1)
        running.signal(signal.SIGINT).wait().ended(130)

    def test_the_imp_does_not_allow_the_job_shell(self):
        self.configure(shells=["/bin/sh"])
        ran = self.run_as_guest("id").ended(1)
        self.assertIn("shell not in allowed-shells", ran.err)

    def test_a_munged_that_is_gone(self):
        (self.trusted / "imp.toml").write_text(
            (self.trusted / "imp.toml").read_text().replace(str(self.munged.socket), "/no/munged")
        )
        ran = self.run_as_guest("id").ended(1)
        self.assert_says(ran, ["cannot sign the job", "/no/munged"])
        self.configure()

    def test_an_imp_that_is_not_there(self):
        self.dat("stop", "--now").succeeded()
        missing = self.trusted / "gone"
        missing.write_text("")
        missing.chmod(0o4755)
        self.start("-N2", "--name", "other", "--open", "--imp", missing)
        missing.unlink()
        ran = self.run_as_guest("id").ended(1)
        self.assert_says(ran, f"cannot run the IMP {missing} (exec.imp): No such file")

    def test_a_configuration_that_is_no_toml(self):
        (self.trusted / "imp.toml").write_text("[sign\n")
        ran = self.run_as_guest("id").ended(1)
        self.assert_says(ran, ["cannot sign the job", "imp.toml:1: not TOML"])
        self.configure()


@needs_root
@imp.needs_munged
class NoImp(SandboxTest):
    """The sandbox as it comes: with something in place of an IMP."""

    def up(self):
        munged = imp.Munged(self.place / "munge")
        self.addCleanup(munged.stop)
        conf = self.place / "sign.toml"
        conf.write_text(
            f'[sign]\nallowed-types = ["munge"]\nmunge.socket-path = "{munged.socket}"\n'
        )
        self.env["FLUX_DAT_SECURITY_PATTERN"] = str(conf)
        super().up()

    def test_a_guest_is_told_what_is_missing(self):
        stand_in = self.flux().rpc("config.get")["exec"]["imp"]
        self.start("--name", "demo", "--user", GUEST, "--imp", stand_in)
        ran = self.dat("run", "true", user=GUEST).ended(1)
        self.assertIn("the sandbox has no IMP", ran.err)
        self.assertIn("--conf exec.imp=PATH", ran.err)

    def test_start_by_a_guest_whose_jobs_the_imp_refuses(self):
        self.start_fails(status=1, says="before it was ready; rank 0: flux-imp: ", user=GUEST)


class LyingBroker:
    """What an instance may do that belongs to somebody hostile: answers job-info.lookup
    with a J of its choice. `asked` has the topics it was asked for."""

    def __init__(self, path, J):
        self.J, self.asked = J, []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        os.chmod(path, 0o777)
        self.socket.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(ConnectionError):
            self.talk()

    def talk(self):
        client, _ = self.socket.accept()
        client.sendall(b"\0")
        stream = client.makefile("rb")
        while head := stream.read(8):
            request = fluxwire.decode(stream.read(struct.unpack(">I", head[4:])[0]))
            self.asked.append(request.topic)
            if request.topic == "sandbox-shell.plan":
                break
            answer = fluxwire.Message(
                fluxwire.RESPONSE, request.topic, userid=0, rolemask=fluxwire.OWNER,
                payload=json.dumps({"id": 1, "J": self.J}).encode() + b"\0",
                aux1=0, aux2=request.aux2, routes=request.routes,
            )  # fmt: skip
            client.sendall(fluxwire.encode(answer))
        stream.close()
        client.close()

    def close(self):
        self.socket.close()
        self.thread.join()


class Forged(GuestTest):
    """The IMP verifies the J it is given, and the job shell the one that it runs."""

    def payload(self, *command):
        return json.dumps(fluxwire.jobspec(list(command))).encode()

    def imp_exec(self, given, told):
        """The IMP with one J, its job shell's broker with another."""
        path = self.place / "lies"
        broker = LyingBroker(path, told)
        account = pwd.getpwnam(OWNER)
        try:
            ran = subprocess.run(
                [self.imp, "exec", self.shell, "1"],
                input=json.dumps({"J": given}).encode(), capture_output=True,
                env={**self.env, "FLUX_URI": f"local://{path}"}, check=False,
                user=account.pw_uid, group=account.pw_gid, extra_groups=[],
            )  # fmt: skip
        finally:
            if not broker.asked:
                socket.socket(socket.AF_UNIX).connect(str(path))
            broker.close()
            path.unlink()
        return ran, broker.asked

    def refused(self, given, told, *says):
        ran, asked = self.imp_exec(given, told)
        self.assertEqual((ran.returncode, ran.stdout), (1, b""), ran.stderr)
        for text in says:
            self.assertIn(text, ran.stderr.decode())
        self.assertNotIn("sandbox-shell.plan", asked)
        return asked

    def test_what_the_environment_says_is_not_run(self):
        ssh = self.place / "ssh"
        ssh.write_text(f"#!/bin/sh\ntouch {self.place}/evil\n")
        ssh.chmod(0o755)
        self.place.chmod(0o777)
        for uri in ("ssh://host/tmp/socket", "local://relative", None):
            environment = {**self.env, "FLUX_SSH": str(ssh), "FLUX_URI": uri}
            account = pwd.getpwnam(OWNER)
            ran = subprocess.run(
                [self.imp, "exec", self.shell, "1"],
                input=json.dumps({"J": self.munged.sign(GUEST)}).encode(), capture_output=True,
                env={k: v for k, v in environment.items() if v is not None}, check=False,
                user=account.pw_uid, group=account.pw_gid, extra_groups=[],
            )  # fmt: skip
            self.assertEqual(ran.returncode, 1, ran.stderr)
            self.assertIn("FLUX_URI is not the local:///PATH of a broker", ran.stderr.decode())
        self.assertFalse((self.place / "evil").exists())

    def test_by_hand(self):
        for words, says in (
            ([], "usage: flux-dat-shell JOBID"),
            (["x y"], "flux-dat-shell: "),
            (["1"], "FLUX_URI is not"),
        ):
            ran = self.run_as(GUEST, self.shell, *words, env={"FLUX_URI": None}).ended(1)
            self.assertIn(says, ran.err)
        self.assertIn("not run as root", self.run_as("root", self.shell, "1").ended(1).err)

    def test_forged(self):
        good = self.munged.sign(GUEST, self.payload("true"))
        evil = base64.b64encode(self.payload("sh", "-c", "touch /tmp/evil")).decode()
        head, _, signature = good.split(".")
        forged = f"{head}.{evil}.{signature}"
        self.assertEqual(self.refused(forged, good, "signature validation failed"), [])
        for told, says in (
            (forged, "the job's signature is not good"),
            (self.munged.sign(STRANGER, self.payload("true")), "was signed by uid"),
            (imp.sign_none(GUEST_ID, self.payload("true")), "is not good"),
            ("nonsense", "is not good"),
            (self.munged.sign(GUEST, b"{}"), ""),
        ):
            asked = self.refused(good, told, "flux-dat-shell: ", says)
            self.assertEqual(asked, ["job-info.lookup"])
        # And what is good gets as far as the plan.
        _, asked = self.imp_exec(good, good)
        self.assertEqual(asked[:2], ["job-info.lookup", "sandbox-shell.plan"])
