# SPDX-License-Identifier: LGPL-3.0-or-later
"""Brokers of the system instance that die and start again, as a site's nodes do.

To Flux (0.88) a broker that is lost is a node that failed. A DAT whose first node, that of
its supervisor, is the one ends: whole, with people told why, and the next one can have the
node. Wherever else one is lost the DAT goes on, and is changed again from the node that
came back.
"""

from tests.flux.test_grant import ListTest
from tests.lib.realflux import GUEST, MEMBER, STRANGER, Cluster, eventually, needs_flux


@needs_flux
class Restart(ListTest):
    size = 3

    @classmethod
    def new_instance(cls):
        return super().new_instance(Cluster)

    def restart(self, *ranks):
        self.instance.start_brokers(*ranks)
        hosts = {self.instance.host(rank) for rank in range(self.size)}
        eventually(lambda: self.free_hosts() == hosts, "all nodes may be allocated again")

    def free_hosts(self):
        ran = self.run_flux("resource", "list", "-no", "{nnodes}", "-s", "free").succeeded()
        return {self.instance.host(rank) for rank in range(int(ran.out.split()[0]))}

    def start_on(self, *ranks, arguments=()):
        self.nodes = len(ranks)
        hosts = ",".join(self.instance.host(rank) for rank in ranks)
        self.start_dat(f"--requires=host:{hosts}", "-t", "1h", *arguments)

    def assert_ended_by(self, what):
        """It is gone, and the report says why."""
        eventually(lambda: not self.active_jobs(), "it ends")
        self.assertEqual(self.dats(), [])
        [one] = self.dat("report", "--json", "--dat", self.jobid).succeeded().json()["dats"]
        self.assertIn(what, one["exception"]["note"])
        self.assertIn(what, self.dat("report", "--dat", self.jobid).succeeded().out)
        self.assert_no_process(set())
        self.assertEqual(self.files_in(self.doors), [])

    def test_on_the_supervisors_node(self):
        self.start_on(1, 2)
        self.instance.kill_broker(1)
        self.assert_ended_by(f"node failure on {self.instance.host(1)}")
        self.restart(1)
        self.start_on(1, 2, arguments=["--if-not-running"])
        self.assert_works(GUEST)

    def test_on_another_of_its_nodes(self):
        """The DAT's own broker there does not need the parent's."""
        self.start_on(1, 2)
        self.instance.kill_broker(2)
        self.dat("grant", STRANGER).succeeded()
        self.assert_works(STRANGER)
        self.instance.start_brokers(2)
        self.dat("grant", MEMBER, env=self.at(2)).succeeded()
        self.assert_works(MEMBER)
        self.assertFalse(self.look()["degraded"])
        self.dat("stop").succeeded()
        self.assert_no_process(set())
        self.restart()

    def test_on_a_node_that_it_does_not_have(self):
        self.start_on(1)
        self.instance.kill_broker(2)
        ran = self.dat("grant", STRANGER, env=self.at(2)).ended(1)
        self.assert_says(ran, [f"no Flux broker at {self.instance.run}/local-2"])
        self.dat("grant", MEMBER).succeeded()
        self.instance.start_brokers(2)
        self.dat("grant", STRANGER, env=self.at(2)).succeeded()
        self.assertEqual(self.guests(), {GUEST, MEMBER, STRANGER})
        self.assert_works(STRANGER)

    def test_the_first_one(self):
        """Once it is back, all others end, and their jobs, which it does not know."""
        self.start_on(1, 2)
        self.instance.kill_broker(0)
        self.instance.start_broker(0)
        for rank in (1, 2):
            self.instance.processes[rank].wait()
        self.assert_no_process(set())
        self.restart(1, 2)
        self.assertEqual(self.dats(), [])
        self.start_on(1, 2)
        self.assert_works(GUEST)

