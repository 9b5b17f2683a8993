# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat check: each thing that makes a DAT fail, provoked, and the remedy it names."""

import os
import pathlib
import pwd
import queue
import shutil
import signal
import subprocess
import threading

from tests.lib.guests import GuestTest
from tests.lib.imp import Munged
from tests.lib.sandbox import (
    GUEST,
    OWNER,
    ROOT,
    STRANGER,
    SandboxTest,
    eventually,
    needs_root,
)

HOSTS = "sandbox[0-3]"


class Checks:
    """What is asked of a check's answer. With SandboxTest."""

    def check_arguments(self, *arguments):
        if "--door-dir" not in arguments:
            arguments = ("--door-dir", str(self.doors), *arguments)
        return ["check", *arguments]

    def check(self, *arguments, status=0, **options):
        """{id: [verdicts]} of a check that ends with this status."""
        before = self.files_in(self.doors)
        ran = self.dat(*self.check_arguments("--json", *arguments), **options).ended(status)
        answer = ran.json()
        self.assertEqual(answer["version"], 1)
        self.assertEqual(answer["exit"], status)
        self.assertIs(answer["ok"], status == 0)
        self.assertEqual(self.files_in(self.doors), before, "nothing of the check stays")
        found = {}
        for verdict in answer["checks"]:
            self.assertEqual(
                set(verdict), {"id", "state", "nodes", "seen", "remedy"}, verdict
            )
            found.setdefault(verdict["id"], []).append(verdict)
        return found

    def assert_found(self, found, name, state, seen=(), remedy=(), nodes=None):
        """Of that check, one verdict has this state, and these texts in it."""
        seen = (seen,) if isinstance(seen, str) else seen
        remedy = (remedy,) if isinstance(remedy, str) else remedy
        for verdict in found[name]:
            if (
                verdict["state"] == state
                and all(str(text) in verdict["seen"] for text in seen)
                and all(str(text) in (verdict["remedy"] or "") for text in remedy)
                and nodes in (None, verdict["nodes"])
            ):
                return verdict
        self.fail(f"no {name} that is {state} with {seen}, {remedy}, {nodes}: {found[name]}")

    def fails(self, name, *arguments, seen, remedy, nodes=None, status=1, **options):
        found = self.check(*arguments, status=status, **options)
        self.assert_found(found, name, "failed", seen, remedy, nodes)
        return found

    def node_program(self, script):
        """The program for a check whose path is this script on the nodes: what runs is
        a file that was there before. REAL is a program that is as it should be."""
        directory = self.place / "another"
        directory.mkdir(exist_ok=True)
        path = directory / "flux-dat"
        shutil.copyfile(self.installed.program, path)
        path.chmod(0o755)
        held = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, held)
        path.unlink()
        if script is not None:
            real = self.installed.program
            path.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
            path.chmod(0o755)
        return held

    def check_with_nodes(self, script, *arguments, status=1, **options):
        held = self.node_program(script)
        words = self.check_arguments("--json", *arguments)
        ran = self.background(
            f"/proc/self/fd/{held}", *words, pass_fds=(held,), **options
        ).wait()
        ran.ended(status)
        found = {}
        for verdict in ran.json()["checks"]:
            found.setdefault(verdict["id"], []).append(verdict)
        return found


class Check(Checks, SandboxTest):
    """In a sandbox without an IMP."""

    def test_all_is_well(self):
        found = self.check("-N2")
        for name in ("flux", "submit", "queue", "limits", "nodes", "configuration"):
            self.assert_found(found, name, "ok", nodes="")
        for name in ("exec", "flux-dat", "door-dir", "clock"):
            self.assert_found(found, name, "ok", nodes=HOSTS)
        self.assert_found(found, "flux", "ok", [f"Flux 0.88.0 at {self.env['FLUX_URI']}"])
        self.assert_found(found, "nodes", "ok", "2 nodes asked for, and 4 of 4 up")
        self.assert_found(found, "door-dir", "ok", [f"{self.doors}, with ACLs"])
        self.assert_found(found, "imp", "warning", "the sandbox has none", "sandbox up --conf")
        for name in ("imp-config", "munge", "prolog", "epilog"):
            self.assert_found(found, name, "skipped")
        self.start("-N2")  # as it said

    def test_a_table_for_people(self):
        ran = self.dat(*self.check_arguments("-N2")).succeeded()
        lines = ran.out.splitlines()
        self.assertEqual(lines[0].split(), ["CHECK", "STATE", "NODES", "SEEN"])
        self.assertIn("flux          ok      -            Flux 0.88.0", ran.out)
        self.assertIn(f"flux-dat      ok      {HOSTS} ", ran.out)
        self.assertIn("\n              -> flux-dat sandbox up --conf exec.imp=PATH", ran.out)
        self.assertNotIn("\033", ran.out)
        self.assertEqual(ran.err, "flux-dat check: a start would work: 1 warning\n")

    def test_quiet_prints_failures_only(self):
        ran = self.dat(*self.check_arguments("--quiet")).succeeded()
        self.assertEqual((ran.out, ran.err), ("", ""))
        ran = self.dat(*self.check_arguments("--quiet", "-N5")).ended(1)
        self.assertEqual(len(ran.out.splitlines()), 2, ran)
        self.assertIn("nodes         failed  -     5 nodes asked for", ran.out)
        self.assertEqual(ran.err, "")

    def on_terminal(self, **env):
        env = {"TERM": "xterm", **env}
        command = " ".join(
            ["exec", str(self.installed.program), *self.check_arguments("-N5")]
        )
        return self.run_as(OWNER, "script", "-qec", command, "/dev/null", env=env).out

    def test_colour_on_a_terminal_only(self):
        if not shutil.which("script"):
            self.skipTest("there is no script(1) here")
        self.assertIn("\033[1;31mfailed \033[0m", self.on_terminal())
        self.assertIn("\033[32mok     \033[0m", self.on_terminal())
        for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\033", self.on_terminal(**plain))

    def test_a_narrow_terminal_breaks_no_words(self):
        if not shutil.which("script"):
            self.skipTest("there is no script(1) here")
        words = " ".join(self.check_arguments("--door-dir", "/nosuch"))
        command = f"stty cols 70; exec {self.installed.program} {words}"
        out = self.run_as(OWNER, "script", "-qec", command, "/dev/null").out
        lines = out.splitlines()
        self.assertTrue(all(len(line) <= 70 for line in lines), out)
        # Below what it goes on, and what is to be done in a line of its own.
        indent = " " * len(f"door-dir      failed  {HOSTS} ")
        self.assertIn(f"door-dir      failed  {HOSTS} cannot open the door", out)
        self.assertIn(f"{indent}/nosuch: No such file or directory", lines)
        self.assertIn(f"              -> install -d -m 755 -o {OWNER} /nosuch", lines)

    def test_says_what_it_comes_to(self):
        ran = self.dat(*self.check_arguments("-N5")).ended(1)
        self.assertEqual(ran.err, "flux-dat check: a start would fail: 1 check failed\n")

    # Flux

    def test_no_flux(self):
        found = self.fails(
            "flux", env={"FLUX_URI": "local:///no/flux/local"},
            seen="/no/flux/local", remedy="is Flux running on this host",
        )  # fmt: skip
        for name in ("submit", "queue", "limits", "nodes", "configuration", "exec"):
            self.assert_found(found, name, "skipped", "there is no Flux to ask")

    @needs_root
    def test_a_flux_that_lets_nobody_in(self):
        socket = pathlib.Path(self.env["FLUX_URI"].removeprefix("local://"))
        before = socket.parent.stat().st_mode
        socket.parent.chmod(0o700)
        try:
            self.fails("flux", user=GUEST, status=7, seen="ermission denied", remedy="ask its owner")
        finally:
            socket.parent.chmod(before)

    def test_a_flux_that_does_not_say_who_it_is(self):
        # At its first answer, and at the one that has the configuration.
        for moment in (1, 4):
            proxy = self.proxy(moment, lambda: False)
            found = self.fails(
                "flux", env={"FLUX_URI": proxy.uri},
                seen="lost the connection", remedy="flux dmesg",
            )  # fmt: skip
            self.assert_found(found, "queue", "skipped", "there is no Flux to ask")

    def test_interrupted_at_any_moment(self):
        # As often as it hears from a broker; its nodes answer with many messages.
        for moment in [*range(1, 14), *range(14, 400, 7)]:
            there = queue.SimpleQueue()  # the process, as soon as we have it
            frozen = threading.Event()  # the broker does not answer before it has ended

            def interrupt(there=there, frozen=frozen):
                there.get().signal(signal.SIGINT)
                frozen.wait()

            proxy = self.proxy(moment, interrupt)
            running = self.dat_background(
                *self.check_arguments("-N2"), env={"FLUX_URI": proxy.uri}
            )
            there.put(running)
            ran = running.wait()
            frozen.set()
            proxy.close()
            if not proxy.acted:
                ran.succeeded()
                self.assertGreater(moment, 8)
                # A door that a node was about to try is swept by the next DAT there.
                self.start("-N4")
                self.dat("stop").succeeded()
                return
            self.assertEqual((ran.status, ran.out), (1, ""), f"message {moment}: {ran}")
            self.assert_says(ran, "interrupted by SIGINT")
        self.fail("it never came to its end")

    @needs_root
    def test_root_is_told_whose_jobs_count(self):
        found = self.check(user="root", status=1)
        self.assert_found(
            found, "submit", "failed", f"runuser -u {OWNER} -- flux-dat", nodes=""
        )

    # What is asked of the parent

    def test_a_jobspec_that_cannot_be_made(self):
        self.fails("submit", "-S", "system.=1", status=2, seen="system.", remedy="")
        self.check("-o", "verbose", "-S", "system.x=1", "--bank", "b", "--env", "A=1")
        for options in (["--env", "A"], ["--timeout", "0"], ["--timeout", "inf"],
                        ["--door-dir", "doors"], ["--user", "nosuch"]):  # fmt: skip
            with self.subTest(options=options):
                ran = self.dat("check", *options)
                if options[0] == "--env":
                    continue
                self.assert_says(ran.ended(2), options)

    # What start takes

    def test_a_line_of_a_crontab_is_checked_by_changing_one_word(self):
        line = [
            "-N2", "--name", "lab", "-t", "2h", "--begin-time", "tomorrow 18:00", "--early", "1h",
            "--if-not-running", "--no-wait", "--timeout", "1m", "--cancel-on-timeout", "--warn",
            "15m", "--close", "10m", "--grace", "1m", "--urgency", "17", "--manager", GUEST,
        ]  # fmt: skip
        found = self.check(*line)
        self.assert_found(found, "name", "ok", 'no other DAT of yours is named "lab"')
        self.assert_found(found, "window", "ok", ["18:00:00 ", "for 2h"])
        self.dat("start", *line).succeeded()
        for arguments, says in (
            (("--name", "no/name"), "name"),
            (("--manager", "nosuch"), "--manager nosuch"),
            (("--begin-time", "soon"), "--begin-time"),
            (("--early", "1h"), "needs a --begin-time"),
            (("--warn", "soon"), "--warn"),
            (("--grace", "3h", "-t", "2h"), "longer than the DAT's time limit"),
            (("--urgency", "99"), "--urgency"),
            (("--cancel-on-timeout",), "--timeout"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_says(self.dat("check", *arguments).ended(2), says)
        self.assert_no_dat_left()

    def test_a_name_that_is_taken(self):
        jobid = self.start("--name", "lab")
        self.fails(
            "name", "--name", "lab", seen=f'you have a DAT named "lab" already: job {jobid}',
            remedy="--if-not-running",
        )  # fmt: skip
        found = self.check("--name", "lab", "--if-not-running")
        self.assert_found(found, "name", "ok", f"job {jobid}, which a start would leave")
        self.assert_found(self.check(), "name", "ok", "of which there may be several")

    def test_times_of_which_nothing_comes(self):
        found = self.check("-t", "10m", "--warn", "15m", "--begin-time", "2026-01-02")
        self.assert_found(found, "window", "warning", "--warn 15m is too long", "--time-limit")
        self.assert_found(found, "window", "warning", "it starts now", "--begin-time")
        self.assert_found(self.check("--close", "1m"), "window", "warning", "has no end")

    # Nodes, queue

    def test_more_nodes_than_there_are(self):
        self.fails(
            "nodes", "-N5", seen="5 nodes asked for, and 4 in all", remedy="--nodes=4 or less"
        )

    def test_a_constraint_that_leaves_too_few(self):
        found = self.fails(
            "nodes", "-N2", "--requires", "host:sandbox[2,7]",
            seen="2 nodes asked for, and 1 in all", remedy="another --requires",
        )  # fmt: skip
        self.assert_found(found, "flux-dat", "ok", nodes="sandbox2")

    def test_nodes_that_are_busy(self):
        self.start("-N3")
        found = self.check("-N2")
        self.assert_found(found, "nodes", "warning", "1 of 4 free now: a start would wait")

    def test_a_queue_that_takes_no_jobs(self):
        self.flux().rpc(
            "job-manager.queue-enable", {"enable": False, "all": True, "reason": "upgrade"}
        )
        self.fails("queue", seen="takes no jobs: upgrade", remedy="flux queue enable")

    def test_a_queue_that_is_stopped(self):
        self.flux().rpc(
            "job-manager.queue-start",
            {"start": False, "all": True, "nocheckpoint": False, "reason": "repair"},
        )
        self.fails("queue", seen="is stopped", remedy="flux queue start")

    def test_a_queue_that_there_is_not(self):
        found = self.fails(
            "queue", "-q", "debug", status=2,
            seen='there is no queue "debug"', remedy="leave --queue out",
        )  # fmt: skip
        self.assert_found(found, "limits", "skipped")

    # Configuration

    def test_a_configuration_that_makes_no_dat(self):
        path = self.place / "mine.toml"
        path.write_text("[access]\nallow-guest-user = false\n")
        self.fails(
            "configuration", "--conf", path, status=2,
            seen=f"{path}:2", remedy="remove the line or make it true",
        )  # fmt: skip

    def test_a_configuration_that_cannot_be_read(self):
        self.fails(
            "configuration", "--conf", "access.allow-guest-user=perhaps", status=2,
            seen="--conf", remedy=["mend it there", "flux-config-dat(5)"],
        )  # fmt: skip

    def test_what_the_configuration_warns_of(self):
        found = self.check("--conf", "ingest.validator.disable=true")
        self.assert_found(
            found, "configuration", "warning", "jobs of guests are not validated"
        )

    def test_an_imp_that_there_is_not(self):
        found = self.fails(
            "imp", "--imp", "/no/imp", status=2, nodes=HOSTS,
            seen="/no/imp: No such file", remedy="name another one with --imp",
        )  # fmt: skip
        self.assert_found(found, "configuration", "failed", "/no/imp")
        self.dat("config", "--imp", "/no/imp").ended(2)

    def test_an_imp_that_is_not_setuid(self):
        path = self.place / "flux-imp"
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        self.fails(
            "imp", "--imp", path, nodes=HOSTS,
            seen=f"{path}: not setuid root", remedy=f"chmod 4755 {path}" if ROOT else "install it as root",
        )  # fmt: skip

    def test_a_prolog_that_there_is_not(self):
        imp = self.place / "flux-imp"
        imp.write_text("#!/bin/sh\n")
        imp.chmod(0o755)
        self.fails(
            "prolog", "--imp", imp, "--conf", 'job-manager.prolog.command=["/no/prolog"]',
            nodes=HOSTS, seen="/no/prolog is not there or not executable",
            remedy="job-manager.prolog.command",
        )  # fmt: skip

    # On the nodes

    def test_flux_dat_is_not_installed(self):
        found = self.check_with_nodes(None)
        self.assert_found(
            found, "flux-dat", "failed", "/another/flux-dat is not there",
            ["install flux-dat", f"--requires '-host:{HOSTS}'"], HOSTS,
        )  # fmt: skip

    def test_flux_dat_of_another_version(self):
        found = self.check_with_nodes('exec "$REAL" "$@" | sed "s/\\"program\\":\\"[^\\"]*/&9/"')
        self.assert_found(found, "flux-dat", "failed", "9, and", "install flux-dat", HOSTS)
        found = self.check_with_nodes("echo unknown command >&2; exit 2")
        self.assert_found(
            found, "flux-dat", "failed", "another version: unknown command", "install", HOSTS
        )
        found = self.check_with_nodes("echo what")
        self.assert_found(found, "flux-dat", "failed", "another version", "install", HOSTS)

    def test_a_node_that_does_not_answer(self):
        found = self.check_with_nodes(
            'case $FLUX_URI in *1) exec sleep 1000 ;; esac; exec "$REAL" "$@"',
            "--timeout", "3s",
        )  # fmt: skip
        self.assert_found(
            found, "exec", "failed", "no answer within 3 s",
            ["flux overlay status", "-host:sandbox1"], "sandbox1",
        )  # fmt: skip
        self.assert_found(found, "exec", "ok", nodes="sandbox[0,2-3]")

    def test_a_node_on_which_it_is_killed(self):
        found = self.check_with_nodes("kill -KILL $$")
        self.assert_found(found, "exec", "failed", "ended by signal 9", "-host", HOSTS)

    def test_guests_that_a_node_does_not_know(self):
        found = self.check()
        self.assertNotIn("accounts", found)
        found = self.check("--user", GUEST, "--group", "mail")
        self.assert_found(found, "accounts", "ok", "are known", nodes=HOSTS)
        # A user and a group of this host that the node has under other numbers.
        script = 's/"users":.[0-9]*/"users":[4000001/; s/"groups":.[0-9]*/"groups":[4000002/'
        found = self.check_with_nodes(
            f'''case $FLUX_URI in *[13]) set -- "$1" "$(echo "$2" | sed '{script}')" ;; esac
            exec "$REAL" "$@"''',
            "--user", GUEST, "--group", "mail", status=0,
        )  # fmt: skip
        self.assert_found(
            found, "accounts", "warning", "user 4000001, group 4000002",
            "accounts on sandbox[1,3]", "sandbox[1,3]",
        )  # fmt: skip
        self.assert_found(found, "accounts", "ok", nodes="sandbox[0,2]")

    def test_a_node_may_take_longer_than_a_minute(self):
        # What is asked says how long the question is worth an answer.
        found = self.check_with_nodes(
            'case "$2" in *\'"lifetime":130\'*) exec "$REAL" "$@" ;; esac; exit 3',
            "--timeout", "2m", status=0,
        )  # fmt: skip
        self.assert_found(found, "exec", "ok", nodes=HOSTS)

    def test_a_clock_that_is_off(self):
        script = '"$REAL" "$@" | sed "s/\\"time\\":[0-9.]*/\\"time\\":1000/"'
        found = self.check_with_nodes(
            f'case $FLUX_URI in *[02]) {script} ;; *) exec "$REAL" "$@" ;; esac'
        )
        self.assert_found(
            found, "clock", "failed", "behind this node's clock", "timedatectl", "sandbox[0,2]"
        )
        self.assert_found(found, "clock", "ok", nodes="sandbox[1,3]")

    def test_a_door_dir_that_there_is_not(self):
        path = self.place / "no"
        self.fails(
            "door-dir", "--door-dir", path, nodes=HOSTS,
            seen=[str(path), "No such file"], remedy=f"install -d -m 755 -o {OWNER} {path}",
        )  # fmt: skip

    @needs_root
    def test_a_door_dir_that_is_not_ours_to_write(self):
        path = self.place / "roots"
        path.mkdir(mode=0o755)
        self.fails(
            "door-dir", "--door-dir", path, nodes=HOSTS, seen=[path, "Permission denied"],
            remedy=f"as root: install -d -m 755 -o {OWNER} {path}/dat, and --door-dir {path}/dat",
        )  # fmt: skip

    def test_a_door_dir_whose_paths_are_too_long(self):
        path = self.place / ("x" * 90)
        path.mkdir(mode=0o755)
        shutil.chown(path, OWNER)
        self.fails(
            "door-dir", "--door-dir", path, nodes=HOSTS,
            seen="is the most", remedy="choose a shorter --door-dir",
        )  # fmt: skip

    @needs_root
    def test_a_door_dir_that_somebody_else_may_write(self):
        path = self.place / "open"
        path.mkdir()
        path.chmod(0o777)
        self.fails(
            "door-dir", "--door-dir", path, nodes=HOSTS,
            seen="can be written by others", remedy=f"chmod go-w {path}",
        )  # fmt: skip

    @needs_root
    def test_a_door_dir_without_acls(self):
        point = self.place / "ramfs"
        point.mkdir()
        subprocess.run(["mount", "-t", "ramfs", "none", str(point)], check=True)
        try:
            shutil.chown(point, OWNER)
            point.chmod(0o755)
            self.fails(
                "door-dir", "--door-dir", point, nodes=HOSTS, seen="ACL",
                remedy=["choose another --door-dir", "--open"],
            )  # fmt: skip
            found = self.check("--door-dir", point, "--open")
            self.assert_found(found, "door-dir", "ok", "for everybody")
        finally:
            subprocess.run(["umount", "-l", str(point)], check=True)

    def test_a_node_that_is_down(self):
        self.start("-N2")
        [dat] = self.dats()
        # A DAT is a Flux as well, and of this one a node can crash.
        os.kill(self.broker_of(1), signal.SIGKILL)
        uri = {"FLUX_URI": dat["uri"], "FLUX_URI_RESOLVE_LOCAL": "t"}
        self.flux_sees_down(dat["uri"])
        found = self.fails(
            "nodes", "-N2", env=uri, seen="1 of 2 up: a start would wait",
            remedy="bring those up",
        )  # fmt: skip
        self.assert_found(
            found, "nodes", "warning", "down or drained", "flux resource status", "sandbox1"
        )

    def flux_sees_down(self, uri):
        flux = self.flux(uri=uri)
        eventually(
            lambda: flux.rpc("resource.sched-status")["down"]["execution"]["R_lite"],
            "the node is down",
        )

    # Usage

    def test_usage(self):
        for arguments, says in (
            (("--timeout", "soon"), "--timeout"),
            (("--requires", "host:["), "--requires"),
            (("-t", "long"), "--time-limit"),
            (("--inherit", "all"), "all"),
            (("--door-dir", "here"), "not an absolute path"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_says(self.dat("check", *arguments).ended(2), says)

    def test_hidden_command(self):
        ran = self.dat("check-node").ended(2)
        self.assertIn("for the job of a DAT only", ran.err)
        ran = self.dat("check-node", "what").ended(1)
        self.assertIn("flux-dat check-node: ", ran.err)
        ran = self.dat("check-node", '{"version": 2}').ended(1)
        self.assertIn("of another version of flux-dat", ran.err)


class Limits(Checks, SandboxTest):
    up_options = (
        "--conf", "policy.limits.duration='1h'",
        "--conf", "policy.limits.job-size.max.nnodes=2",
    )  # fmt: skip

    def test_limits(self):
        self.check("-N2", "-t", "30m")
        self.fails(
            "limits", "-t", "2h", seen="2h is longer than policy.limits.duration allows, 1h",
            remedy="--time-limit=1h or less",
        )  # fmt: skip
        self.fails("limits", seen="no time limit is given", remedy="--time-limit=1h")
        self.fails(
            "limits", "-N3", "-t", "30m",
            seen="3 nodes asked for, and policy.limits.job-size.max.nnodes allows 2",
            remedy="--nodes=2 or less",
        )  # fmt: skip


class Imp(Checks, GuestTest):
    """In a sandbox with a setuid IMP and a munged."""

    def up(self):
        super().up()
        self.env["FLUX_DAT_IMP_PATTERN"] = str(self.trusted / "*.toml")

    def check_arguments(self, *arguments):
        return super().check_arguments("--imp", str(self.imp), *arguments)

    @property
    def file(self):
        return self.trusted / "imp.toml"

    def test_all_is_well(self):
        found = self.check("-N2")
        for name in ("imp", "imp-config", "flux-dat", "door-dir", "clock"):
            self.assert_found(found, name, "ok", nodes=HOSTS)
        [munge] = found["munge"]
        self.assertEqual(munge["state"], "ok")
        self.assertTrue(munge["nodes"].startswith(HOSTS), munge)
        self.assert_found(found, "imp-config", "ok", f"{OWNER} may run guests' jobs")

    def test_an_imp_without_setuid(self):
        self.imp.chmod(0o755)
        try:
            self.fails("imp", seen="not setuid root", remedy="chmod 4755", nodes=HOSTS)
        finally:
            self.imp.chmod(0o4755)

    def test_an_owner_who_is_no_user_of_the_imp(self):
        self.configure(users=["bin"])
        self.fails(
            "imp-config", nodes=HOSTS,
            seen=f"exec.allowed-users in {self.file} has no {OWNER}",
            remedy=f'add "{OWNER}" to exec.allowed-users in {self.file}',
        )  # fmt: skip

    def test_start_says_so_too(self):
        self.configure(users=["bin"])
        for quiet in ([], ["--quiet"]):
            ran = self.dat(*self.start_arguments(*quiet)).succeeded()
            self.assert_says(
                ran, ["warning: guests' jobs will not run", str(self.file), f'add "{OWNER}"']
            )
            self.dat("stop", "--now").succeeded()
        # Where it cannot tell, or all is well, it says nothing.
        self.configure()
        self.assertEqual(self.dat(*self.start_arguments()).succeeded().err, "")
        self.configure(users=["bin"])
        self.env["FLUX_DAT_IMP_PATTERN"] = str(self.place / "none/*.toml")
        other = self.dat(*self.start_arguments("--name", "other")).succeeded()
        self.assertEqual(other.err, "")

    def test_a_job_shell_that_is_not_allowed(self):
        self.configure(shells=["/bin/sh"])
        self.fails(
            "imp-config", nodes=HOSTS,
            seen=f"exec.allowed-shells in {self.file} has no {self.shell}",
            remedy=f'add "{self.shell}" to exec.allowed-shells in {self.file}',
        )  # fmt: skip

    def another_file(self, text):
        path = self.trusted / "z.toml"
        path.write_text(text)
        self.addCleanup(path.unlink)
        return path

    def test_two_files_that_set_the_same(self):
        self.configure(more='[run.prolog]\nallowed-users = ["daemon"]\npath = "/bin/true"')
        for table in ("exec", "run"):
            path = self.trusted / "z.toml"
            name = "run.prolog" if table == "run" else table
            path.write_text(f'\n[{name}]\nallowed-users = ["{OWNER}"]\n')
            with self.subTest(table=table):
                self.fails(
                    "imp-config", nodes=HOSTS,
                    seen=[f"{path}:2", f"[{table}] takes the place of", str(self.file)],
                    remedy="put both into one file",
                )  # fmt: skip
            path.unlink()

    def test_a_configuration_that_is_broken(self):
        path = self.another_file("[exec\n")
        self.fails("imp-config", seen=f"{path}:1", remedy="mend that file", nodes=HOSTS)

    def test_a_configuration_that_only_root_can_read(self):
        self.file.chmod(0o600)
        self.addCleanup(self.file.chmod, 0o644)
        # munge's socket is told in the same file here.
        found = self.fails("munge", seen="Permission denied", remedy="chmod a+r")
        self.assert_found(
            found, "imp-config", "skipped", f"{OWNER} cannot read it", "look as root", HOSTS
        )

    def perilog(self, users=(OWNER,), path="/bin/true", more=""):
        names = ", ".join(f'"{name}"' for name in users)
        self.configure(more=f'[run.prolog]\nallowed-users = [{names}]\npath = "{path}"\n{more}')
        return ("--conf", f'job-manager.prolog.command=["{self.imp}", "run", "prolog"]')

    def test_a_prolog(self):
        found = self.check(*self.perilog())
        self.assert_found(
            found, "prolog", "ok", f"/bin/true, [run.prolog] in {self.file}", nodes=HOSTS
        )
        self.assert_found(found, "epilog", "skipped", "the DAT has none")

    def test_a_prolog_that_the_owner_may_not_run(self):
        self.fails(
            "prolog", *self.perilog(users=["bin"]), nodes=HOSTS,
            seen=f"run.prolog.allowed-users in {self.file} has no {OWNER}",
            remedy=f'add "{OWNER}" to run.prolog.allowed-users',
        )  # fmt: skip

    def test_a_prolog_that_there_is_not(self):
        self.fails(
            "prolog", *self.perilog(path="/no/prolog"), nodes=HOSTS,
            seen="/no/prolog is not there or not executable", remedy="chmod 755 /no/prolog",
        )  # fmt: skip

    def test_an_epilog_that_is_not_configured(self):
        self.configure()
        self.fails(
            "epilog", "--conf", "job-manager.epilog.per-rank=true", nodes=HOSTS,
            seen="the IMP knows no [run.epilog]", remedy="add [run.epilog] there",
        )  # fmt: skip

    # MUNGE

    def test_no_munged(self):
        self.munged.stop()
        try:
            found = self.check(status=1)
            self.assert_found(
                found, "munge", "failed", str(self.munged.socket), "systemctl enable --now munge"
            )
        finally:
            shutil.rmtree(self.trusted / "munge")
            type(self).munged = Munged(self.trusted / "munge")
            self.addClassCleanup(self.munged.stop)

    def another_munged(self):
        munged = Munged(self.place / "munge")
        self.addCleanup(munged.stop)
        path = self.place / "sign.toml"
        path.write_text(
            f'[sign]\nallowed-types = ["munge"]\nmunge.socket-path = "{munged.socket}"\n'
        )
        return path

    def test_nodes_with_another_key(self):
        script = f"export FLUX_DAT_SECURITY_PATTERN={self.another_munged()}"
        found = self.check_with_nodes(
            f'case $FLUX_URI in *3) {script} ;; esac; exec "$REAL" "$@"'
        )
        self.assert_found(
            found, "munge", "failed", "does not accept what was encoded here",
            "the same /etc/munge/munge.key", "sandbox3",
        )  # fmt: skip

    def test_a_node_whose_credentials_are_not_accepted_here(self):
        # Another J than the one that was made there.
        script = '"$REAL" "$@" | sed "s/\\"credential\\":\\"./&AAAA/"'
        found = self.check_with_nodes(
            f'case $FLUX_URI in *3) {script} ;; *) exec "$REAL" "$@" ;; esac'
        )
        self.assert_found(
            found, "munge", "failed", "what it encodes is not accepted here",
            "the same /etc/munge/munge.key", "sandbox3",
        )  # fmt: skip

    # Somebody else than the owner

    def test_a_guest_sees_this_node_and_what_the_owner_would(self):
        doors = self.place / "guests-doors"
        doors.mkdir(mode=0o755)
        shutil.chown(doors, GUEST)
        self.configure(users=(OWNER, GUEST))
        found = self.check("--door-dir", doors, user=GUEST, status=7)
        self.assert_found(found, "submit", "ok", f"as {GUEST}, a guest of {OWNER}'s Flux")
        self.assert_found(
            found, "exec", "skipped", [f"only {OWNER}", "MUNGE, door directory"],
            "log in to one of them and run flux-dat check there", HOSTS,
        )  # fmt: skip
        for name in ("imp", "imp-config", "munge", "door-dir", "flux-dat"):
            self.assert_found(found, name, "ok")
        self.configure()
        found = self.check("--door-dir", doors, user=GUEST, status=1)
        self.assert_found(found, "imp-config", "failed", f"has no {GUEST}")
        self.assertEqual(self.files_in(doors), [])

    def test_a_stranger_may_look_too(self):
        self.assertNotEqual(pwd.getpwnam(STRANGER).pw_uid, 0)
        found = self.check(user=STRANGER, status=1)
        self.assert_found(found, "imp-config", "failed", f"has no {STRANGER}")
        self.assert_found(found, "door-dir", "failed", "belongs to user")
