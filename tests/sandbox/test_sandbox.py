# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat sandbox itself."""

from tests.lib.sandbox import SandboxTest


class Json(SandboxTest):
    def test_up_env_and_down(self):
        described = self.dat("sandbox", "env", "--json").succeeded().json()
        self.assertEqual(
            described,
            {
                "version": 1,
                "uri": self.env["FLUX_URI"],
                "hosts": "sandbox[0-3]",
                "directory": self.env["FLUX_DAT_SANDBOX_DIR"],
                "already": False,
            },
        )
        again = self.dat("sandbox", "up", "--json").succeeded().json()
        self.assertEqual(again, {**described, "already": True})
        down = self.dat("sandbox", "down", "--json").succeeded().json()
        self.assertEqual(set(down), set(described))
        self.assertFalse(down["already"])
        self.assertTrue(self.dat("sandbox", "down", "--json").succeeded().json()["already"])
