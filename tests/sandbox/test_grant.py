# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat grant and revoke: the guest list of a DAT, changed while it runs or before."""

import concurrent.futures
import contextlib
import errno
import grp
import json
import os
import pathlib
import pwd
import signal
import subprocess
import unittest

from tests.lib import fluxwire
from tests.lib.guests import GuestTest
from tests.lib.sandbox import (
    GUEST,
    OWNER,
    OWNER_ID,
    STRANGER,
    SandboxTest,
    eventually,
    needs_root,
    processes_of,
)

MANAGER = "bin"
MEMBER = GROUP = "mail"
from tests.lib.terminal import Terminal


def uid(name):
    return pwd.getpwnam(name).pw_uid


class ListTest(SandboxTest):
    """With a DAT of two nodes for GUEST, of which MANAGER is a manager."""

    start_options = ("--user", GUEST, "--manager", MANAGER)

    def setUp(self):
        super().setUp()
        self.jobid = self.start("-N2", "--name", "demo", *self.start_options)

    def door(self, rank):
        [door] = self.doors.glob(f"dat-*.{rank}")
        return door

    def enters(self, user, rank):
        try:
            self.flux(user=user, uri=f"local://{self.door(rank)}/local")
        except PermissionError:
            return False
        return True

    def assert_enters(self, user, enters=True):
        """On every rank."""
        self.assertEqual([self.enters(user, rank) for rank in range(2)], [enters] * 2, user)

    def guests(self):
        [dat] = self.dats()
        return {pwd.getpwuid(user).pw_name for user in dat["users"]}

    def worker(self):
        """The inner process of the supervisor."""
        pids = self.supervisors(worker=True)
        return pids[0] if len(pids) == 1 else None

    def eventually_applied(self):
        def applied():
            [dat] = self.dats()
            return dat["applied"] == dat["generation"]

        eventually(applied, "the list is in force on all ranks")

    def ask(self, method, payload, user=OWNER):
        service = f"{OWNER_ID}-dat-f{fluxwire.f58(fluxwire.parse_jobid(self.jobid))[1:]}"
        return self.flux(user=user).rpc(f"{service}.{method}", payload)


class DoorService(ListTest):
    """What each rank's door answers to the supervisor, by the process that watches over it."""

    def client(self, rank, user=OWNER):
        return self.flux(user=user, uri=f"local://{self.door(rank)}/local")

    def question(self, rank, **more):
        guests = {"generation": 1, "open": False, "users": [uid(GUEST)], "groups": []}
        return {"door": str(self.door(rank)), "guests": guests, **more}

    def serves(self, rank):
        with contextlib.suppress(fluxwire.FluxError):
            return bool(self.client(0).rpc("dat-door.check", self.question(rank), nodeid=rank))
        return False

    def watchers(self):
        return [
            pid
            for pid, words in processes_of(self.installed.program).items()
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "flux-dat-door\n"
        ]

    def test_checks_and_applies_on_its_rank(self):
        client = self.client(0)
        for rank in range(2):
            eventually(lambda: self.serves(rank), "the door's service")
            question = self.question(rank)
            answer = client.rpc("dat-door.check", question, nodeid=rank)
            self.assertEqual(answer, {"good": True, "lines": []})
            self.door(rank).chmod(0o700)
            answer = client.rpc("dat-door.check", question, nodeid=rank)
            self.assertFalse(answer["good"])
            self.assertIn(str(self.door(rank)), answer["lines"][0])
            question["guests"]["generation"] = 2
            answer = client.rpc("dat-door.apply", question, nodeid=rank)
            self.assertEqual(answer, {"good": True, "lines": []})
            answer = client.rpc("dat-door.apply", self.question(rank), nodeid=rank)
            self.assertFalse(answer["good"])
            self.assertIn("newer than 1; not changed", answer["lines"][0])

    def test_refuses_what_is_none_of_its_own(self):
        eventually(lambda: self.serves(1), "the door's service")
        client = self.client(0)
        for method, payload, errnum in (
            ("check", self.question(0), errno.EPROTO),
            ("check", None, errno.EPROTO),
            ("check", [], errno.EPROTO),
            ("apply", {"door": str(self.door(1))}, errno.EPROTO),
            ("restore", self.question(1), errno.ENOSYS),
        ):
            with self.subTest(method=method, payload=payload):
                with self.assertRaises(fluxwire.FluxError) as refused:
                    client.rpc(f"dat-door.{method}", payload, nodeid=1)
                self.assertEqual(refused.exception.errno, errnum)
        question = self.question(1, guests={"users": "all"})
        self.assertFalse(client.rpc("dat-door.apply", question, nodeid=1)["good"])

    @needs_root
    def test_refuses_guests(self):
        eventually(lambda: self.serves(1), "the door's service")
        for method in ("check", "apply", "nosuch"):
            with self.assertRaises(fluxwire.FluxError) as refused:
                self.client(1, user=GUEST).rpc(f"dat-door.{method}", self.question(1), nodeid=1)
            self.assertEqual(refused.exception.errno, errno.EPERM)

    @needs_root
    def test_a_change_goes_without_it(self):
        eventually(lambda: self.serves(0) and self.serves(1), "the doors' services")
        killed, stopped = self.watchers()
        os.kill(killed, signal.SIGKILL)
        os.kill(stopped, signal.SIGSTOP)
        try:
            self.dat("grant", STRANGER).succeeded()
            self.assert_enters(STRANGER)
        finally:
            os.kill(stopped, signal.SIGCONT)
        # Nobody is left to remove one of the doors; the next DAT does.
        self.dat("stop", "--now").succeeded()
        self.start("--name", "next")


@needs_root
class Grant(ListTest):
    def test_in_and_out_and_in_again(self):
        self.assert_enters(STRANGER, False)
        ran = self.dat("grant", STRANGER).succeeded()
        self.assertEqual((ran.out, ran.err), ("", ""))
        self.assert_enters(STRANGER)
        self.assert_enters(GUEST)
        self.dat("revoke", STRANGER).succeeded()
        self.assert_enters(STRANGER, False)
        self.assert_enters(GUEST)
        self.dat("grant", STRANGER).succeeded()
        self.assert_enters(STRANGER)
        self.assert_enters(MEMBER, False)
        for rank in range(2):
            text = (self.door(rank) / "grants").read_text()
            self.assertIn("generation 4\n", text)
            self.assertIn(f"user {uid(STRANGER)} {STRANGER}\n", text)

    def test_group(self):
        self.dat("grant", "-g", GROUP).succeeded()
        gid = grp.getgrnam(GROUP).gr_gid
        self.assertEqual(pwd.getpwnam(MEMBER).pw_gid, gid)
        for rank in range(2):
            self.assertIn(f"group {gid} {GROUP}\n", (self.door(rank) / "grants").read_text())
        # acting_as() gives a user its own group only, as this one's is.
        self.assert_enters(MEMBER)
        self.dat("revoke", "--group", GROUP).succeeded()
        self.assert_enters(MEMBER, False)

    def test_by_a_manager(self):
        self.dat("grant", STRANGER, user=MANAGER).succeeded()
        self.assert_enters(STRANGER)
        self.dat("revoke", STRANGER, GUEST, user=MANAGER).succeeded()
        self.assert_enters(STRANGER, False)
        self.assert_enters(GUEST, False)
        self.assert_enters(MANAGER, False)  # not by being one

    def test_a_manager_may_do_nothing_else(self):
        for options in (
            ("--manager", STRANGER), ("--open",), ("--close",), ("-g", GROUP, "--open"),
        ):  # fmt: skip
            ran = self.dat("grant", *options, user=MANAGER).ended(7)
            self.assert_says(ran, ["a manager may grant and revoke users and groups", "demo"])
        self.dat("revoke", "--manager", MANAGER, user=MANAGER).ended(7)
        self.dat("stop", user=MANAGER).ended(7)
        [dat] = self.dats()
        self.assertEqual((dat["generation"], dat["managers"]), (1, [uid(MANAGER)]))

    def test_by_nobody_else(self):
        for user in (GUEST, STRANGER):
            for command in ("grant", "revoke"):
                ran = self.dat(command, STRANGER, user=user).ended(7)
                self.assert_says(ran, ["only its owner", "managers", "demo"])
        self.assertEqual(self.guests(), {GUEST})

    def test_managers_by_the_owner(self):
        self.dat("grant", "--manager", STRANGER).succeeded()
        self.dat("grant", MEMBER, user=STRANGER).succeeded()
        self.dat("revoke", "--manager", f"{STRANGER},{MANAGER}").succeeded()
        for user in (STRANGER, MANAGER):
            self.dat("grant", "sys", user=user).ended(7)
        self.assertEqual(self.guests(), {GUEST, MEMBER})

    def test_open_and_close(self):
        self.dat("grant", "--open").succeeded()
        self.assert_enters(STRANGER)
        self.assertTrue(self.dats()[0]["open"])
        self.dat("grant", "--close").succeeded()
        self.assert_enters(STRANGER, False)
        self.assert_enters(GUEST)
        self.dat("grant", "--open").succeeded()
        self.dat("revoke", "--close", GUEST).succeeded()
        self.assert_enters(STRANGER, False)
        self.assert_enters(GUEST, False)

    def test_json(self):
        changed = self.dat("grant", STRANGER, GUEST, "--json").succeeded().json()
        self.assertEqual(
            set(changed),
            {
                "version", "id", "jobid", "name", "generation", "state", "open", "granted",
                "revoked", "ranks",
            },
        )  # fmt: skip
        self.assertEqual((changed["state"], changed["generation"]), ("applied", 2))
        self.assertEqual(changed["granted"]["users"], [uid(STRANGER)])
        self.assertEqual([rank["applied"] for rank in changed["ranks"]], [2, 2])

    def test_what_was_so_already(self):
        ran = self.dat("grant", GUEST).succeeded()
        self.assertEqual(ran.err, f"flux-dat grant: on the list already: {GUEST}\n")
        ran = self.dat("revoke", STRANGER).succeeded()
        self.assertEqual(ran.err, f"flux-dat revoke: not on the list: {STRANGER}\n")
        self.assertEqual(self.dat("revoke", "-q", STRANGER).succeeded().err, "")
        self.assertEqual(self.dats()[0]["generation"], 1)

    def test_who_may_still_enter_is_told(self):
        self.dat("grant", "-g", GROUP, MEMBER).succeeded()
        ran = self.dat("revoke", MEMBER).succeeded()
        self.assertEqual(ran.err, f"flux-dat revoke: {MEMBER} still may enter, by group {GROUP}\n")
        self.dat("grant", "--open").succeeded()
        ran = self.dat("revoke", GUEST).succeeded()
        self.assertIn("open to everybody", ran.err)

    def test_from_a_file(self):
        names = self.place / "names"
        names.write_text(f"# the project\n{STRANGER}\n\n  {MEMBER}\n")
        self.dat("grant", "--file", names).succeeded()
        self.assertEqual(self.guests(), {GUEST, STRANGER, MEMBER})

    def test_says_so_on_a_terminal(self):
        for command, done in (("grant", "granted"), ("revoke", "revoked")):
            with Terminal(columns=200) as terminal:
                self.dat_background(command, STRANGER, **terminal.streams).wait().succeeded()
                self.assertRegex(
                    terminal.text(), rf"flux-dat {command}: {done} {STRANGER}; in force on all \d+ ranks of "
                )
            self.assertEqual(self.dat(command, STRANGER).succeeded().out, "")

    def test_by_number_and_former_users(self):
        self.dat("grant", uid(STRANGER)).succeeded()
        ran = self.dat("grant", "54321").ended(2)
        self.assert_says(ran, ["54321", "no such user"])
        # Somebody whose account has gone since.
        self.ask("guests", {"version": 1, "grant": {"users": [54321]}})
        self.assertIn("user 54321 -\n", (self.door(0) / "grants").read_text())
        self.dat("revoke", "54321").succeeded()
        self.assertEqual(self.guests(), {GUEST, STRANGER})

    def test_who_has_no_account_on_a_node_is_told(self):
        changed = self.ask("guests", {"version": 1, "grant": {"users": [54321]}})
        self.assertEqual(
            [rank["warnings"] for rank in changed["ranks"]],
            [["user 54321 has no account there"]] * 2,
        )

    def test_history_and_detail(self):
        self.dat("grant", STRANGER, user=MANAGER).succeeded()
        self.dat("revoke", GUEST).succeeded()
        self.dat("revoke", GUEST).succeeded()
        detail = self.dat("status", "--dat", "demo").succeeded().out
        self.assertRegex(detail, rf"user +{STRANGER}, since \d{{4}}-.*, by {MANAGER}\n")
        self.assertRegex(detail, rf"manager +{MANAGER}, since \d{{4}}-.*, by {OWNER}\n")
        self.assertRegex(detail, r"imp +/.*: does not know of the guest list")
        self.assertNotIn(f" {GUEST}", detail)
        lines = self.dat("status", "--history", "--dat", "demo").succeeded().out.splitlines()
        self.assertEqual(
            [line.split(maxsplit=4)[3:] for line in lines[1:]],
            [
                [OWNER, f"granted user {GUEST}, manager {MANAGER}"],
                [MANAGER, f"granted user {STRANGER}"],
                [OWNER, f"revoked user {GUEST}"],
            ],
        )
        by_manager = self.dat("status", "--history", user=MANAGER).succeeded().out
        self.assertEqual(by_manager.splitlines(), lines)
        self.dat("status", "--history", user=STRANGER).ended(7)
        changes = self.dat("status", "--history", "--json").succeeded().json()["changes"]
        self.assertEqual([change["by"] for change in changes], [OWNER_ID, uid(MANAGER), OWNER_ID])
        # It outlives the DAT.
        self.dat("stop").succeeded()
        ended = self.dat("status", "--history", "--dat", self.jobid).succeeded().out
        self.assertEqual(ended.splitlines(), lines)

    def test_what_a_guest_is_told(self):
        told = self.dat("status", "--dat", "demo", user=GUEST).succeeded().out
        self.assertRegex(told, r"you +on the guest list: flux proxy f")
        told = self.dat("status", "--dat", "demo", user=STRANGER).succeeded().out
        self.assertRegex(told, r"you +not on the guest list; ask the owner or a manager")
        told = self.dat("status", "--dat", "demo", user=MANAGER).succeeded().out
        self.assertRegex(told, r"you +a manager, and not on the guest list")
        self.assertEqual(self.ask("admission", {}, user=GUEST)["name"], "demo")
        with self.assertRaises(fluxwire.FluxError) as refused:
            self.ask("admission", {}, user=STRANGER)
        self.assertIn("not on the guest list", str(refused.exception))

    def test_many_at_once(self):
        """The final list is what the sequence in the eventlog says, none is lost."""
        users = ["sys", "man", "lp", "mail", "news"]
        calls = [(command, user) for command in ("grant", "revoke", "grant", "revoke") for user in users]
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            by = [(OWNER, MANAGER)[i % 2] for i in range(len(calls))]
            for ran in pool.map(lambda call, who: self.dat(*call, user=who), calls, by):
                ran.succeeded()
        # As they stand in the eventlog, worked out here. One that found it so already when
        # nothing else was under way is not there.
        expected, posted = {GUEST}, 0
        job = fluxwire.parse_jobid(self.jobid)
        log = self.flux().rpc("job-info.lookup", {"id": job, "keys": ["eventlog"], "flags": 0})
        for event in map(json.loads, log["eventlog"].splitlines()):
            change = event.get("context", {}).get("dat_change")
            if event["name"] == "memo" and change:
                posted += 1
                expected |= {pwd.getpwuid(user).pw_name for user in change["grant"]["users"]}
                expected -= {pwd.getpwuid(user).pw_name for user in change["revoke"]["users"]}
        self.assertGreaterEqual(posted, len(users))
        self.assertEqual(self.dats()[0]["generation"], 1 + posted)
        self.assertEqual(self.guests(), expected)
        self.eventually_applied()
        for user in users:
            self.assert_enters(user, user in expected)


@needs_root
class TakenBack(ListTest):
    def test_while_the_supervisor_is_asked(self):
        [worker] = self.supervisors(worker=True)
        os.kill(worker, signal.SIGSTOP)
        proxy = self.proxy(0, None)  # which never comes
        granting = self.dat_background("grant", STRANGER, env={"FLUX_URI": proxy.uri})
        eventually(lambda: b".guests\0" in proxy.sent, "it asks")
        ran = granting.signal(signal.SIGINT).wait().ended(1)
        self.assert_says(ran, ["SIGINT; whether the list was changed tells", "flux-dat status"])
        os.kill(worker, signal.SIGCONT)


class Refused(ListTest):
    def refused(self, *arguments, status=2, says=()):
        ran = self.dat(*arguments).ended(status)
        self.assert_says(ran, says)
        [dat] = self.dats()
        self.assertEqual((dat["generation"], dat["users"]), (1, [uid(GUEST)]))

    def test_bad_names(self):
        for name, says in (
            ("nosuchuser", "no such user"),
            ("a:b", "no such user"),
            ("*", "no such user"),
            ("a\nb", "no such user"),
            ("", "empty"),
            ("games,,bin", "empty"),
            ("-1", "-1"),
            ("4294967295", "no such user"),
            ("root", "root cannot be a guest"),
            ("0", "root cannot be a guest"),
        ):
            with self.subTest(name=name):
                self.refused("grant", "--", name, says=says)
        self.refused("grant", "-g", "nosuchgroup", says="no such group")
        self.refused("grant", "-g", "root", says="root's group cannot be a guest")
        self.refused("grant", "--manager", "root", says="root")

    def test_the_owner_is_no_guest(self):
        self.refused("grant", OWNER, status=1, says="owns the DAT")

    def test_whom(self):
        self.refused("grant", says="whom?")
        self.refused("revoke", says="whom?")
        self.refused("grant", "--open", "--close", says="exclude each other")

    def test_bad_files(self):
        wrong = self.place / "wrong"
        wrong.write_text(f"# the project\n\n{STRANGER}\nnosuchuser\n")
        self.refused("grant", "--file", wrong, says=f"--file {wrong}:4 nosuchuser: there is no such")
        self.refused("revoke", "--file", wrong, says=f"--file {wrong}:4 nosuchuser: there is no such")
        self.refused("grant", "--file", "/no/such/file", says="/no/such/file: No such file")
        big = self.place / "big"
        big.write_text("games\n" * 200000)
        self.refused("grant", "--file", big, says="larger than 1048576 bytes")
        self.refused("grant", "--file", self.place, says=str(self.place))

    def test_too_many(self):
        many = list(range(20000, 30000))
        with self.assertRaises(fluxwire.FluxError) as refused:
            self.ask("guests", {"version": 1, "grant": {"users": many}})
        self.assertIn("at most 8000 are possible; put the users in a group", str(refused.exception))
        self.assertEqual(self.dats()[0]["generation"], 1)

    def test_forged_requests(self):
        for payload in (
            None, [], "text", {}, {"version": 2}, {"version": 1, "grant": 5},
            {"version": 1, "grant": {"users": "all"}}, {"version": 1, "grant": {"users": [-1]}},
            {"version": 1, "grant": {"users": [1.5]}}, {"version": 1, "keep_jobs": 1},
            {"version": 1, "grant": {"users": [0]}}, {"version": 1, "grant": {"groups": [0]}},
        ):  # fmt: skip
            with self.subTest(payload=payload), self.assertRaises(fluxwire.FluxError):
                self.ask("guests", payload)
        # Who asks does not say who it was.
        for user in (GUEST, STRANGER):
            with self.assertRaises(fluxwire.FluxError) as refused:
                self.ask("guests", {"version": 1, "by": OWNER_ID, "grant": {"users": [7]}}, user=user)
            self.assertIn("only its owner", str(refused.exception))
        self.ask("guests", {"version": 1, "by": 7, "key": "x", "grant": {"users": [7]}}, user=MANAGER)
        changes = self.dat("status", "--history", "--json").succeeded().json()["changes"]
        self.assertEqual(changes[-1]["by"], uid(MANAGER))

    def test_a_dat_that_is_gone(self):
        self.dat("stop").succeeded()
        self.assert_says(self.dat("grant", STRANGER).ended(3), "no DAT")
        ran = self.dat("grant", "--dat", self.jobid, STRANGER).ended(3)
        self.assert_says(ran, "has ended, at 20")

    def test_a_dat_that_ends_during_the_call(self):
        os.kill(self.worker(), signal.SIGSTOP)
        running = self.dat_background("grant", STRANGER)
        self.dat("stop", "--now").succeeded()
        ran = running.wait()
        self.assertNotEqual(ran.status, 0)
        self.assert_says(ran, "demo")


@needs_root
class Pending(SandboxTest):
    def setUp(self):
        super().setUp()
        self.dat(
            *self.start_arguments("-N2", "--name", "later", "--user", GUEST, "--manager", MANAGER),
            "--no-wait", "--begin-time", "+1h",
        ).succeeded()  # fmt: skip

    def test_what_was_granted_is_there_when_it_starts(self):
        self.dat("stop", "--dat", "later").succeeded()
        self.start("-N4", "--name", "blocks")
        jobid = self.dat(
            *self.start_arguments("-N2", "--name", "waits", "--user", GUEST, "--no-wait")
        ).succeeded().out.strip()  # fmt: skip
        ran = self.dat("grant", "--dat", "waits", STRANGER).succeeded()
        self.assertIn("recorded; in force when the DAT starts", ran.err)
        self.dat("revoke", "--dat", "waits", GUEST).succeeded()
        self.dat("stop", "--dat", "blocks").succeeded()
        eventually(
            lambda: [dat["state"] for dat in self.dats()] == ["ready"], "the other one is ready"
        )
        [dat] = self.dats()
        self.assertEqual((dat["id"], dat["generation"], dat["applied"]), (jobid, 3, 3))
        for door in self.doors.iterdir():
            self.flux(user=STRANGER, uri=f"local://{door}/local")
            with self.assertRaises(PermissionError):
                self.flux(user=GUEST, uri=f"local://{door}/local")

    def test_two_at_once_both_count(self):
        names = ["sys", "man", "lp", "mail", "news", "uucp", "proxy", "backup"]
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            for ran in pool.map(lambda name: self.dat("grant", name), names):
                ran.succeeded()
        [dat] = self.dats()
        self.assertEqual(sorted(dat["users"]), sorted(uid(name) for name in [GUEST, *names]))
        self.assertEqual(dat["generation"], 1 + len(names))

    def test_json_and_history(self):
        changed = self.dat("grant", "--json", STRANGER).succeeded().json()
        self.assertEqual((changed["state"], changed["ranks"]), ("recorded", []))
        self.assertEqual(changed["granted"]["users"], [uid(STRANGER)])
        history = self.dat("status", "--history").succeeded().out
        self.assertIn(f"granted user {STRANGER}", history)

    def test_only_the_owner_until_it_runs(self):
        for user in (MANAGER, GUEST):
            ran = self.dat("grant", STRANGER, user=user).ended(7)
            self.assert_says(ran, ["does not run yet", "only its owner"])
        self.assert_says(self.dat("grant", OWNER).ended(1), "owns the DAT")
        self.assertEqual(self.dats()[0]["generation"], 1)


@needs_root
class Faults(ListTest):
    def degraded(self, *arguments, says):
        ran = self.dat(*arguments).ended(6)
        self.assert_says(ran, ["not in force on all ranks", *says])
        self.assertIn("degraded", self.dat("status").succeeded().out)
        [dat] = self.dats()
        self.assertTrue(dat["degraded"])
        self.assertLess(dat["applied"], dat["generation"])
        return ran

    def test_a_door_that_cannot_be_written_is_tried_again(self):
        obstacle = self.door(1) / "grants.new"
        obstacle.mkdir()
        self.degraded("grant", STRANGER, says=["rank 1 (sandbox1)", "Is a directory"])
        self.assertTrue(self.enters(STRANGER, 0))
        self.assertFalse(self.enters(STRANGER, 1))
        detail = self.dat("status", "--dat", "demo").succeeded().out
        self.assertRegex(detail, r"rank 1 +sandbox1 up: .*has guest list 1 of 2: .*Is a directory")
        obstacle.rmdir()
        self.eventually_applied()
        self.assert_enters(STRANGER)
        self.assertNotIn("degraded", self.dat("status").succeeded().out)

    def test_a_newer_list_comes_at_once_where_an_older_one_failed(self):
        obstacle = self.door(1) / "grants.new"
        obstacle.mkdir()
        self.degraded("grant", STRANGER, says=["rank 1"])
        obstacle.rmdir()
        self.dat("grant", MEMBER).succeeded()
        self.assert_enters(STRANGER)
        self.assert_enters(MEMBER)

    def test_a_door_that_was_chmodded_is_put_right(self):
        self.door(1).chmod(0)
        self.dat("grant", STRANGER).succeeded()
        self.assert_enters(STRANGER)
        self.assertEqual(self.door(1).stat().st_mode & 0o007, 0)

    def test_a_door_that_is_a_symbolic_link(self):
        door, moved = self.door(1), self.place / "moved"
        door.rename(moved)
        door.symlink_to(moved)
        self.degraded("grant", STRANGER, says=["rank 1", "is a symbolic link"])
        self.assertNotIn(STRANGER, (moved / "grants").read_text())
        door.unlink()
        moved.rename(door)
        self.eventually_applied()

    def test_a_door_that_was_removed(self):
        door = self.door(1)
        for entry in door.iterdir():
            entry.unlink()
        door.rmdir()
        self.degraded("grant", STRANGER, says=["rank 1", "No such file"])
        self.assertTrue(self.enters(STRANGER, 0))

    def test_the_worker_is_killed(self):
        """The DAT lives, and the list is what it was; what is granted meanwhile counts."""
        first = self.worker()
        self.dat("grant", STRANGER).succeeded()
        os.kill(first, signal.SIGKILL)
        eventually(lambda: self.worker() not in (None, first), "there is another one")
        eventually(lambda: self.dat("grant", MEMBER).status == 0, "it serves again")
        self.eventually_applied()
        self.assertEqual(self.guests(), {GUEST, STRANGER, MEMBER})
        self.assert_enters(STRANGER)
        self.assertEqual(self.dats()[0]["generation"], 3)

    def test_the_worker_is_killed_in_the_middle_of_grants(self):
        names = ["sys", "man", "lp", "mail", "news"]
        obstacle = self.door(1) / "grants.new"
        obstacle.mkdir()  # so that each of them is in its middle
        calls = [self.dat_background("grant", name) for name in names]
        eventually(
            lambda: self.dats()[0]["generation"] == 1 + len(names), "all of them are recorded"
        )
        os.kill(self.worker(), signal.SIGKILL)
        obstacle.rmdir()
        for call in calls:
            call.signal(signal.SIGTERM)  # the worker that would have answered is gone
            call.wait()
        eventually(self.worker, "there is another one")
        self.eventually_applied()
        self.assertEqual(self.guests(), {GUEST, *names})
        for name in names:
            self.assert_enters(name)

    def test_a_full_file_system(self):
        self.dat("stop").succeeded()
        small = self.place / "small"
        small.mkdir(mode=0o755)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=128k,mode=1777", "tmpfs", small],
            check=True, capture_output=True,
        )  # fmt: skip
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        self.start("-N2", "--name", "demo", "--user", GUEST, "--door-dir", small)
        filler = small / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        self.degraded("grant", STRANGER, says=["rank 0", "rank 1", "No space left"])
        filler.unlink()
        self.eventually_applied()
        self.dat("stop").succeeded()


class Jobs(GuestTest):
    """What a guest runs when it is revoked. The IMP is the bundled one."""

    up_conf = ("--conf=exec.kill-timeout=500ms",)

    def setUp(self):
        super().setUp()
        self.start("-N2", "--name", "demo", "--user", f"{GUEST},{STRANGER}")
        [dat] = self.dats()
        self.uri = dat["uri"]

    def runs(self, *arguments, user=GUEST):
        running = self.guest_background(*arguments, "sh", "-c", "echo up; exec sleep 6100", user=user)
        eventually(lambda: "up" in running.stdout(), "the job runs")
        return running

    def test_running_and_pending_ones_end(self):
        running = self.runs("-N2")
        other = self.runs("-N1", user=STRANGER)
        pending = self.guest_background("-N3", "true")  # more than there is, unless refused
        self.dat("revoke", GUEST).succeeded()
        ran = running.wait()
        self.assertEqual(ran.status, 128 + signal.SIGTERM)
        self.assertIn(f"user {uid(GUEST)} is not on the guest list of the DAT", ran.err)
        self.assertNotEqual(pending.wait().status, 0)
        self.assertIsNone(other.process.poll())
        other.signal(signal.SIGINT).wait().ended(130)

    def test_what_runs_may_be_kept(self):
        flag = self.place / "tmp" / "flag"
        running = self.guest_background(
            "sh", "-c", f"echo up; until [ -e {flag} ]; do sleep 0.1; done; echo done"
        )
        eventually(lambda: "up" in running.stdout(), "the job runs")
        self.dat("revoke", "--keep-jobs", GUEST).succeeded()
        self.run_as_guest("true").ended(7)
        flag.touch()
        self.assertEqual(running.wait().succeeded().out, "up\ndone\n")

    def test_revoked_once_more_it_ends(self):
        running = self.runs()
        self.dat("revoke", "--keep-jobs", GUEST).succeeded()
        self.assertIsNone(running.process.poll())
        self.dat("revoke", GUEST).succeeded()
        running.wait().ended(128 + signal.SIGTERM)

    def test_kept_by_the_group_and_revoked_by_name(self):
        self.dat("grant", "-g", GUEST).succeeded()
        running = self.runs()
        self.dat("revoke", "-g", GUEST, "--keep-jobs").succeeded()
        self.assertIsNone(running.process.poll())
        self.dat("revoke", GUEST).succeeded()
        running.wait().ended(128 + signal.SIGTERM)

    def submit(self, client):
        payload = fluxwire.jobspec(["true"])
        J = self.munged.sign(GUEST, json.dumps(payload).encode())
        return client.rpc("job-ingest.submit", {"J": J, "urgency": 16, "flags": 0})["id"]

    def exceptions(self, job):
        owner = self.flux(uri=self.uri)
        owner.wait_event(job, "clean")
        return [
            event["context"]["note"] for event in owner.events(job) if event["name"] == "exception"
        ]

    def test_a_connection_that_is_still_open(self):
        inside = self.flux(user=GUEST, uri=self.uri)
        self.dat("revoke", GUEST).succeeded()
        job = self.submit(inside)
        self.assertTrue(
            any("is not on the guest list" in note for note in self.exceptions(job))
        )

    def test_the_imp_alone_refuses_it(self):
        inside = self.flux(user=GUEST, uri=self.uri)
        self.dat("revoke", GUEST).succeeded()
        supervisors = self.supervisors()
        for pid in supervisors:
            os.kill(pid, signal.SIGSTOP)
        try:
            job = self.submit(inside)
            owner = self.flux(uri=self.uri)
            owner.wait_event(job, "clean")
            log = [
                event["context"]["data"]
                for event in owner.events(job, "guest.exec.eventlog")
                if event["name"] == "log"
            ]
            self.assertTrue(any("is not on the guest list" in line for line in log), log)
        finally:
            for pid in supervisors:
                os.kill(pid, signal.SIGCONT)

    def test_another_grant_lets_them_work_again(self):
        self.dat("revoke", GUEST).succeeded()
        self.run_as_guest("true").ended(7)
        self.dat("grant", GUEST).succeeded()
        self.assertEqual(self.run_as_guest("-N2", "-l", "id", "-un").succeeded().out.count(GUEST), 2)


@unittest.skipIf(os.geteuid() == 0, "as an ordinary user")
class WithoutRoot(ListTest):
    start_options = ()

    def test_grant_and_revoke(self):
        self.dat("grant", "games").succeeded()
        self.assertEqual(self.guests(), {"games"})
        self.dat("revoke", "games").succeeded()
        self.assertEqual(self.guests(), set())
