# SPDX-License-Identifier: LGPL-3.0-or-later
"""What a real Flux refuses, and what goes wrong while a DAT comes up.

Each has its message, its exit status, and leaves nothing behind. What the command itself
refuses before it asks anybody is in tests/sandbox/test_bad_input.py.
"""

import os
import pwd
import stat

from tests.lib.realflux import (
    GUEST,
    MEMBER,
    OWNER,
    SECOND_OWNER,
    FluxTest,
    door_of,
    eventually,
    fluxwire,
    needs_flux,
    needs_second_owner,
)

# Queues and limits of the instance.
LIMITED = """\
[queues.batch]
[queues.debug.policy.limits]
duration = "30m"
job-size.max.nnodes = 2
[policy.jobspec.defaults.system]
queue = "batch"
duration = "1h"
[policy.limits]
duration = "8h"
"""


@needs_flux
class Refused(FluxTest):
    configuration = LIMITED

    def test_more_nodes_than_there_are(self):
        self.start_fails("-N9", status=1, says=["9", "4"])

    def test_unknown_queue(self):
        self.start_fails("-q", "nosuch", status=1, says="nosuch")

    def test_more_time_than_the_queue_gives(self):
        self.start_fails("-q", "debug", "-t", "31m", status=1, says=["31m", "30m", "debug"])
        self.start_fails("-t", "9h", status=1, says=["9h", "8h"])

    def test_more_nodes_than_the_queue_gives(self):
        self.start_fails("-q", "debug", "-N3", status=1, says=["nnodes", "2", "debug"])

    def test_a_queue_that_is_disabled(self):
        for enable in (False, True):
            self.flux().rpc(
                "job-manager.queue-enable",
                {"name": "debug", "enable": enable, "all": False, "reason": "repairs"},
                nodeid=0,
            )
            if not enable:
                self.start_fails("-q", "debug", status=1, says=["debug", "disabled", "repairs"])
        jobid = self.start("-q", "debug", "-t", "5m")
        self.assertEqual(self.dats()[0]["id"], jobid)

    def test_a_queue_is_taken(self):
        jobid = self.start("-q", "debug", "-t", "30m", "-N2")
        listed = self.run_flux("jobs", "-no", "{queue}", jobid).succeeded().out
        self.assertEqual(listed.strip(), "debug")
        self.assertEqual(self.dats()[0]["duration"], 1800)

    def test_inherited_queues_are_started(self):
        """Named queues are stopped when an instance boots; a guest can still work."""
        jobid = self.start("-N2", "--inherit", "queues,policy", "--user", GUEST)
        ran = self.run_in(jobid, "-q", "debug", "-t", "1m", "id", "-un", user=GUEST)
        self.assertEqual(ran.succeeded().out, f"{GUEST}\n")

    def test_hosts_that_are_not_there(self):
        self.start_fails("--requires", "host:nosuch", status=1, says="nosuch")

    def test_a_property_that_no_node_has(self):
        self.start_fails("--requires", "nosuch", status=1, says="unsatisfiable")

    def test_a_door_of_another_dat_is_no_way_to_the_parent(self):
        """A guest's FLUX_URI may point into a DAT that does not let him in."""
        self.start("-N1", "--user", GUEST)
        [dat] = self.dats()
        path = f"{door_of(dat)}/local"
        ran = self.dat("status", user=MEMBER, env={"FLUX_URI": f"local://{path}"}).ended(7)
        self.assert_says(ran, [path, "ermission denied"])

    def test_a_name_that_is_taken(self):
        jobid = self.start("--name", "demo")
        self.start_fails("--name", "demo", status=1, says=["demo", jobid], leaves_nothing=False)
        again = self.start("--name", "demo", "--if-not-running")
        self.assertEqual(again, jobid)
        self.assertEqual([dat["id"] for dat in self.dats()], [jobid])

    def test_two_at_once_make_one(self):
        """From the brokers of two ranks, whose job ids are not in order."""
        for _ in range(3):
            both = [
                self.dat_background(
                    *self.start_arguments("--name", "demo"),
                    env={"FLUX_URI": f"local://{self.instance.run}/local-{rank}"},
                )
                for rank in (0, 3)
            ]
            ended = [one.wait() for one in both]
            self.assertEqual(sorted(ran.status for ran in ended), [0, 1], list(map(str, ended)))
            [loser] = [ran for ran in ended if ran.status == 1]
            self.assert_says(loser, "demo")
            self.assertEqual(len(self.dats()), 1)
            self.dat("stop", "--now").succeeded()
            self.assert_no_dat_left()

    def test_stop_of_one_that_is_gone(self):
        jobid = self.start("--name", "demo")
        self.dat("stop", "--now").succeeded()
        self.dat("stop", "--dat", jobid).succeeded()
        self.dat("stop", "--dat", "demo").ended(3)
        self.dat("stop").ended(3)

    @needs_second_owner
    def test_somebody_elses(self):
        self.start("--name", "demo", "--user", SECOND_OWNER)
        ran = self.dat("stop", "--dat", "demo", user=SECOND_OWNER).ended(7)
        self.assert_says(ran, "owner")
        self.assertEqual(self.dats()[0]["state"], "ready")

    @needs_second_owner
    def test_the_same_name_of_two_owners(self):
        self.start("-N1", "--name", "demo")
        self.start("-N1", "--name", "demo", user=SECOND_OWNER)
        self.assertEqual({dat["owner"] for dat in self.dats()}, {OWNER, SECOND_OWNER})


@needs_flux
class WhileComingUp(FluxTest):
    def held(self, *arguments):
        """A start whose job is held, and the job's id."""
        running = self.dat_background(*self.start_arguments("--urgency", "hold", *arguments))
        [dat] = eventually(self.dats, "it is submitted")
        return running, dat["id"]

    def release(self, jobid):
        self.flux().rpc(
            "job-manager.urgency", {"id": fluxwire.parse_jobid(jobid), "urgency": 16}
        )

    def failed(self, running, says):
        ran = running.wait().ended(1)
        self.assert_says(ran, says)
        self.assertEqual(ran.out, "")
        eventually(lambda: not self.active_jobs(), "the job has ended")
        self.assert_no_dat_left()

    def test_cancelled_while_it_waits(self):
        running, jobid = self.held("-N2")
        self.cancel(jobid, "not today")
        self.failed(running, [jobid, "cancel", "not today"])

    def test_an_exception_of_another_kind(self):
        running, jobid = self.held("-N2")
        self.flux().rpc(
            "job-manager.raise",
            {
                "id": fluxwire.parse_jobid(jobid),
                "type": "test",
                "severity": 0,
                "note": "as it were",
            },
        )
        self.failed(running, [jobid, "test", "as it were"])

    def test_cancelled_at_each_event(self):
        """By somebody else, as soon as the job's eventlog has come that far."""
        for name in ("alloc", "start", "memo"):
            with self.subTest(event=name):
                running, jobid = self.held("-N2")
                watcher = self.flux()
                self.release(jobid)
                watcher.wait_event(fluxwire.parse_jobid(jobid), name)
                self.cancel(jobid, "not today")
                ran = running.wait()
                if ran.status == 0:
                    self.assertEqual(name, "memo", "it was ready before that")
                else:
                    self.assert_says(ran, [jobid, "not today"])
                eventually(lambda: not self.active_jobs(), "the job has ended")
                self.assert_no_dat_left()

    def test_its_time_is_over_before_it_is_ready(self):
        running = self.dat_background(*self.start_arguments("-N2", "-t", "0.05s"))
        self.failed(running, "timeout")

    def door_fails_on_one_rank(self, make, says):
        running, jobid = self.held("-N2")
        spoilt = self.doors / f"dat-f{jobid.removeprefix('ƒ')}.1"
        make(spoilt)
        self.release(jobid)
        ran = running.wait().ended(1)
        # Which host, in the words of the instance, and why.
        self.assert_says(ran, [says, str(spoilt)])
        self.assertRegex(ran.err.splitlines()[-1], r"fluke132|rank 1")
        self.assertEqual(ran.out, "")
        eventually(lambda: not self.active_jobs(), "the job has ended")
        self.assert_no_process(set())
        return spoilt

    def test_a_symlink_where_one_ranks_door_goes(self):
        target = self.place / "elsewhere"
        target.mkdir()
        spoilt = self.door_fails_on_one_rank(lambda path: path.symlink_to(target), "symbolic link")
        self.assertEqual(self.files_in(self.doors), [spoilt.name])
        self.assertEqual(list(target.iterdir()), [])
        spoilt.unlink()

    def test_somebody_elses_directory_where_one_ranks_door_goes(self):
        stranger = pwd.getpwnam(MEMBER).pw_uid

        def make(path):
            path.mkdir(mode=0o777)
            os.chown(path, stranger, -1)
            self.addCleanup(path.rmdir)

        spoilt = self.door_fails_on_one_rank(make, f"user {stranger}")
        self.assertEqual(self.files_in(self.doors), [spoilt.name])

    def test_a_configuration_that_the_broker_refuses(self):
        running = self.dat_background(
            *self.start_arguments("-N2", "--conf", 'tbon.torpid_max="soon"')
        )
        # The broker's own words, from its stderr.
        self.failed(running, ["rank ", "overlay"])

    def test_no_wait_and_timeout_leave_the_job(self):
        jobid = self.start("--urgency", "hold", "--no-wait")
        self.dat(*self.start_arguments("--urgency", "hold", "--timeout", "0.1s")).ended(5)
        self.assertEqual(len(self.dats()), 2)
        self.release(jobid)
        eventually(
            lambda: {dat["id"]: dat["state"] for dat in self.dats()}[jobid] == "ready",
            "it becomes ready by itself",
        )
        door = door_of([dat for dat in self.dats() if dat["id"] == jobid][0])
        self.assertTrue(stat.S_ISSOCK((door / "local").stat().st_mode))
        for dat in self.dats():
            self.dat("stop", "--now", "--dat", dat["id"]).succeeded()
        self.assert_no_dat_left()
