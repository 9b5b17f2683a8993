# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat adopt on a real Flux: an instance made with flux-alloc(1)."""

from tests.lib.realflux import GUEST, IMP, STRANGER, FluxTest, needs_flux
from tests.lib.sandbox import eventually


@needs_flux
class Adopt(FluxTest):
    size = 2

    def by_hand(self, *conf):
        options = [f"--conf={line}" for line in conf]
        return self.run_as(self.owner, "flux", "alloc", "--bg", "-N2", *options).succeeded().out.strip()

    def flux_run(self, user, job):
        return self.run_as(user, "flux", "proxy", job, "flux", "run", "-N2", "id", "-un")

    def test_from_the_recipe_to_a_dat_and_back(self):
        job = self.by_hand("access.allow-guest-user=true", f"exec.imp={IMP}")
        self.addCleanup(self.run_as, self.owner, "flux", "cancel", job)
        self.assertNotEqual(self.flux_run(GUEST, job).status, 0)
        self.dat("adopt", job, "--user", GUEST, "--name", "hand").succeeded()
        self.assertEqual(self.flux_run(GUEST, job).succeeded().out.split(), [GUEST] * 2)
        self.assertNotEqual(self.flux_run(STRANGER, job).status, 0)
        self.dat("grant", STRANGER).succeeded()
        self.assertEqual(self.flux_run(STRANGER, job).succeeded().out.split(), [STRANGER] * 2)
        self.dat("revoke", GUEST).succeeded()
        self.assertNotEqual(self.flux_run(GUEST, job).status, 0)
        self.assertIn("door right", self.dat("status", "--dat", "hand").succeeded().out)
        self.dat("adopt", "--undo", job).succeeded()
        self.assertNotEqual(self.flux_run(STRANGER, job).status, 0)
        self.assertEqual(self.dats(), [])
        self.dat("adopt", job, "--open").succeeded()
        self.assertEqual(self.flux_run(STRANGER, job).succeeded().out.split(), [STRANGER] * 2)
        self.dat("stop").succeeded()
        eventually(lambda: not self.dats(), "it has ended")

    def test_what_its_configuration_lacks(self):
        job = self.by_hand()
        self.addCleanup(self.run_as, self.owner, "flux", "cancel", job)
        ran = self.dat("adopt", job, "--user", GUEST).ended(1)
        self.assertIn("[access] allow-guest-user = true", ran.err)
