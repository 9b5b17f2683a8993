# SPDX-License-Identifier: LGPL-3.0-or-later
"""What remains of a DAT on a real Flux; and starts as cron makes them."""

import errno
import pwd
import subprocess
import time

from tests.lib.realflux import (
    GUEST,
    OWNER,
    STRANGER,
    FluxTest,
    Instance,
    eventually,
    needs_flux,
)


class Reports:
    def reports(self, *arguments):
        return self.dat("report", "--json", *arguments).succeeded().json()["dats"]

    def use(self):
        self.dat("run", "-N2", "-n2", "true").succeeded()
        self.dat("run", "true", user=GUEST).succeeded()
        self.dat("run", "false", user=GUEST).ended(1)

    def assert_used(self, one):
        self.assertIsNone(one["missing"])
        self.assertTrue(one["report"]["final"])
        users = {user["user"]: (user["jobs"], user["failed"]) for user in one["report"]["users"]}
        self.assertEqual(users, {OWNER: (1, 0), GUEST: (2, 1)})


@needs_flux
class Report(Reports, FluxTest):
    def test_stopped(self):
        jobid = self.start("-N2", "--name", "lab", "-t", "1h", "--user", GUEST)
        self.use()
        self.dat("extend", "30m").succeeded()
        self.dat("stop").succeeded()
        [one] = self.reports("--since", "1h", "--dat", jobid)
        self.assertEqual(one["asked"]["duration"], 3600)
        self.assert_used(one)
        self.assertEqual(len(one["changes"]), 1)

    def test_cancelled_and_out_of_time(self):
        """From outside: the supervisor has some seconds."""
        cancelled = self.start("-N2", "--name", "cancelled", "--user", GUEST)
        self.use()
        self.run_flux("cancel", cancelled).succeeded()
        eventually(lambda: not self.active_jobs(), "it ends")
        late = self.start("-N2", "--name", "late", "-t", "1h", "--user", GUEST)
        self.use()
        [dat] = self.dats()
        self.flux().rpc(
            "job-manager.update",
            {
                "id": dat["jobid"],
                "updates": {"attributes.system.duration": time.time() + 1 - dat["t_run"]},
            },
        )
        eventually(lambda: not self.active_jobs(), "it ends")
        reports = {one["id"]: one for one in self.reports()}
        for jobid in (cancelled, late):
            self.assert_used(reports[jobid])
        self.assertEqual(reports[cancelled]["exception"]["type"], "cancel")

    def test_flux_jobs_shows_it_all_the_same(self):
        """A memo that it could not print would end its listing."""
        jobid = self.start("-N1", "--name", "lab")
        self.dat("run", "true").succeeded()
        self.dat("stop").succeeded()
        listed = self.run_flux("jobs", "-a", "--json").succeeded().json()["jobs"]
        [memo] = [job["annotations"]["user"]["dat_report"] for job in listed if job["jobid"] == jobid]
        self.assertEqual(memo["users"][0]["jobs"], 1)


class SmallDisk(Instance):
    """One whose state is on a file system of its own, which fill() fills."""

    def directory(self, name):
        path = super().directory(name)
        if name == "state":
            owner = pwd.getpwnam(OWNER).pw_uid
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size=4m,uid={owner}", "small", str(path)],
                check=True,
            )
        return path

    def fill(self):
        with open(self.state / "full", "wb", buffering=0) as file:
            while True:
                try:
                    file.write(bytes(4096))
                except OSError as error:
                    if error.errno == errno.ENOSPC:
                        return
                    raise

    def kill(self):
        super().kill()
        subprocess.run(["umount", "-l", str(self.state)], check=False, stderr=subprocess.DEVNULL)


@needs_flux
class FullDisk(Reports, FluxTest):
    @classmethod
    def new_instance(cls):
        return SmallDisk(cls.size)

    def test_where_the_system_instance_keeps_its_state(self):
        """The DAT runs, its list changes, and there is a report."""
        jobid = self.start("-N2", "--name", "lab", "-t", "1h", "--user", GUEST)
        self.instance.fill()
        self.use()
        self.dat("grant", STRANGER).succeeded()
        self.run_in(jobid, "-N2", "true", user=STRANGER).succeeded()
        self.dat("stop").succeeded()
        [one] = self.reports("--dat", jobid)
        self.assertIsNone(one["missing"])
        self.assertEqual(len(one["changes"]), 2)


@needs_flux
class Cron(FluxTest):
    def test_twenty_at_once(self):
        many = [
            self.dat_background(
                *self.start_arguments("--name", "lab", "--if-not-running"),
                env={"FLUX_URI": f"local://{self.instance.run}/local-{one % 4}"},
            )
            for one in range(20)
        ]
        ended = [one.wait().succeeded() for one in many]
        self.assertEqual(len({ran.out for ran in ended}), 1, list(map(str, ended)))
        self.assertEqual([dat["id"] for dat in self.dats()], [ended[0].out.strip()])

    def test_as_cron_calls_it(self):
        ran = self.dat(
            *self.start_arguments("-N2", "--name", "lab", "--if-not-running", "--quiet"),
            env={"HOME": None, "LC_ALL": None, "LANG": None},
            umask=0o077,
            start_new_session=True,
        ).succeeded()
        self.assertEqual((ran.out, ran.err), ("", ""))
        self.assertEqual(self.dats()[0]["state"], "ready")

    def test_early_and_timeout(self):
        begin = str(int(time.time()) + 1000)
        window = ["--name", "lab", "--begin-time", begin, "-t", "1h", "--if-not-running"]
        ran = self.dat(*self.start_arguments(*window, "--early", "10m")).succeeded()
        self.assertIn("too early", ran.err)
        self.assertEqual(self.dats(), [])
        jobid = self.start(*window, "--early", "1h", "--no-wait")
        self.assertEqual([(dat["id"], dat["state"]) for dat in self.dats()], [(jobid, "pending")])
        ran = self.dat(
            *self.start_arguments(
                "--name", "other", "--begin-time", begin, "--timeout", "1s", "--cancel-on-timeout"
            )
        ).ended(5)
        self.assert_says(ran, "cancelled")
        self.assertEqual([dat["id"] for dat in self.dats()], [jobid])
