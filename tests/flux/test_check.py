# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat check on a real Flux: what it says is what a start then does."""

import shutil

from tests.lib.realflux import (
    GUEST,
    IMP,
    OWNER,
    SECOND_OWNER,
    FluxTest,
    imp_configuration,
    needs_flux,
    needs_second_owner,
)
from tests.sandbox.test_check import Checks

HOSTS = "fluke[131-134]"


class OnFlux(Checks, FluxTest):
    # As start takes it: the bundled IMP may be installed here, too.
    def check_arguments(self, *arguments):
        return super().check_arguments("--imp", str(IMP), *arguments)

    def drained(self, host):
        self.run_flux("resource", "drain", host).succeeded()
        self.addCleanup(lambda: self.run_flux("resource", "undrain", host).succeeded())


@needs_flux
class Check(OnFlux):
    def test_all_is_well(self):
        found = self.check("-N2")
        for name in ("exec", "flux-dat", "imp", "imp-config", "munge", "door-dir", "clock"):
            self.assert_found(found, name, "ok", nodes=HOSTS)
        for name in ("flux", "submit", "queue", "limits", "nodes", "configuration"):
            self.assert_found(found, name, "ok", nodes="")
        self.assert_found(found, "submit", "ok", f"as {OWNER}, who owns this Flux")
        self.assert_found(found, "imp-config", "ok", f"{OWNER} may run guests' jobs")
        self.start("-N2", "--imp", str(IMP))  # as it said

    def test_more_nodes_than_there_are(self):
        self.fails("nodes", "-N5", seen="5 nodes asked for, and 4 in all", remedy="--nodes=4")

    def test_nodes_that_are_drained(self):
        self.drained("fluke[132-133]")
        found = self.fails(
            "nodes", "-N3", seen="2 of 4 up: a start would wait", remedy="bring those up"
        )
        self.assert_found(
            found, "nodes", "warning", "down or drained", "flux resource", "fluke[132-133]"
        )
        self.assert_found(found, "exec", "ok", nodes="fluke[131,134]")
        self.check("-N2")

    def test_nodes_that_a_constraint_leaves(self):
        found = self.check("-N2", "--requires", "host:fluke[133-134]")
        self.assert_found(found, "door-dir", "ok", nodes="fluke[133-134]")

    def test_a_queue_that_takes_no_jobs(self):
        self.run_flux("queue", "disable", "-m", "upgrade").succeeded()
        self.addCleanup(lambda: self.run_flux("queue", "enable").succeeded())
        self.fails("queue", seen="takes no jobs: upgrade", remedy="flux queue enable")
        self.start_fails("--imp", str(IMP), status=1, says="upgrade")

    def test_a_queue_that_is_stopped(self):
        self.run_flux("queue", "stop", "-m", "repair").succeeded()
        self.addCleanup(lambda: self.run_flux("queue", "start").succeeded())
        self.fails("queue", seen="is stopped", remedy="flux queue start")

    def test_flux_dat_is_not_installed(self):
        found = self.check_with_nodes(None)
        self.assert_found(
            found, "flux-dat", "failed", "/another/flux-dat is not there",
            f"--requires '-host:{HOSTS}'", HOSTS,
        )  # fmt: skip

    def test_a_node_that_does_not_answer(self):
        found = self.check_with_nodes(
            'case $(flux getattr rank) in 2) exec sleep 1000 ;; esac; exec "$REAL" "$@"',
            "--timeout", "5s",
        )  # fmt: skip
        self.assert_found(
            found, "exec", "failed", "no answer within 5 s", "-host:fluke133", "fluke133"
        )
        self.assert_found(found, "exec", "ok", nodes="fluke[131-132,134]")

    def test_rank_0_takes_commands_from_its_own_node_only(self):
        uri = self.env["FLUX_URI"].replace("local-0", "local-1")
        found = self.check(env={"FLUX_URI": uri}, status=7)
        self.assert_found(
            found, "exec", "skipped", "rank 0", "run flux-dat check on fluke131", "fluke131"
        )
        self.assert_found(found, "exec", "ok", nodes="fluke[132-134]")

    def test_a_guest_who_is_no_user_of_the_imp(self):
        found = self.check(user=GUEST, status=1)
        self.assert_found(found, "exec", "skipped", f"only {OWNER}", "log in", HOSTS)
        self.assert_found(
            found, "imp-config", "failed", f"has no {GUEST}", f'add "{GUEST}" to exec.allowed'
        )

    @needs_second_owner
    def test_a_guest_who_may_own_a_dat(self):
        doors = self.place / "own"
        doors.mkdir(mode=0o755)
        shutil.chown(doors, SECOND_OWNER)
        found = self.check("--door-dir", doors, user=SECOND_OWNER, status=7)
        self.assert_found(found, "submit", "ok", f"a guest of {OWNER}'s Flux")
        self.assert_found(found, "munge", "ok")
        self.assert_found(found, "imp-config", "ok")

    def test_a_prolog_of_the_imp(self):
        run = imp_configuration().get("run", {})
        command = '--conf=job-manager.prolog.command=["{}", "run", "{}"]'
        self.fails(
            "prolog", command.format(IMP, "no-such"), nodes=HOSTS,
            seen="the IMP knows no [run.no-such]", remedy="add [run.no-such] there",
        )  # fmt: skip
        if OWNER not in run.get("prolog", {}).get("allowed-users", []):
            self.skipTest(f"there is no [run.prolog] that {OWNER} may run")
        found = self.check(command.format(IMP, "prolog"))
        self.assert_found(found, "prolog", "ok", run["prolog"]["path"], nodes=HOSTS)


@needs_flux
class Queues(OnFlux):
    """Limits and named queues: what the check says, the submission does."""

    configuration = (
        "[queues.debug]\n"
        '[queues.debug.policy.limits]\nduration = "30m"\njob-size.max.nnodes = 1\n'
        "[queues.batch]\n"
    )

    def refused(self, *arguments, says):
        self.start_fails("--imp", str(IMP), *arguments, status=1, says=says)

    def test_queues(self):
        self.fails(
            "queue", status=2, seen="no queue was given and there is no default",
            remedy="choose one of batch, debug",
        )  # fmt: skip
        self.refused(says="queue")
        self.fails("queue", "-q", "no", status=2, seen='no queue "no"', remedy="batch, debug")
        self.refused("-q", "no", says="no")
        self.check("-q", "batch", "-N4")

    def test_limits(self):
        self.check("-q", "debug", "-t", "30m")
        self.fails("limits", "-q", "debug", "-t", "1h", seen="allows, 30m", remedy="=30m")
        self.refused("-q", "debug", "-t", "1h", says="30m")
        self.fails("limits", "-q", "debug", "-t", "9m", "-N2", seen="allows 1", remedy="=1")
        self.refused("-q", "debug", "-t", "9m", "-N2", says="limit")
        self.fails("limits", "-q", "debug", seen="no time limit is given", remedy="=30m")
        self.refused("-q", "debug", says="30m")
