# SPDX-License-Identifier: LGPL-3.0-or-later
"""flux-dat config: what start would use, and where each key came from."""

import tomllib

from tests.lib.sandbox import SandboxTest


class Config(SandboxTest):
    def test_is_toml_with_origins(self):
        out = self.dat("config").succeeded().out
        config = tomllib.loads(out)
        self.assertIs(config["access"]["allow-guest-user"], True)
        self.assertIs(config["access"]["allow-root-owner"], True)
        self.assertEqual(config["tbon"]["topo"], "kary:256")
        for line in out.splitlines():
            if "=" in line and not line.endswith("["):
                self.assertIn("#", line, "each key says where it is from")

    def test_json(self):
        result = self.dat("config", "--json").succeeded().json()
        self.assertEqual(result["version"], 1)
        self.assertIs(result["config"]["access"]["allow-guest-user"], True)
        origin = result["explained"]["access.allow-guest-user"]
        self.assertIs(origin["value"], True)
        self.assertTrue(origin["origin"])

    def test_the_command_line_goes_over_the_template(self):
        path = self.place / "mine.toml"
        path.write_text('[tbon]\ntopo = "kary:2"\n')
        out = self.dat("config", "--conf", path, "--conf", "tbon.zmqdebug=1").succeeded().out
        self.assertEqual(tomllib.loads(out)["tbon"], {"topo": "kary:2", "zmqdebug": 1})
        [line] = [line for line in out.splitlines() if line.startswith("topo")]
        self.assertIn(f"{path}:2", line)

    def test_what_start_used_is_what_config_says(self):
        said = self.dat("config", "--json").succeeded().json()["config"]
        self.start()
        [dat] = self.dats()
        used = self.flux(uri=dat["uri"]).rpc("config.get")
        for table, keys in said.items():
            with self.subTest(table=table):
                self.assertEqual(used[table], keys)

    def test_a_configuration_that_makes_no_dat_is_refused_and_not_printed(self):
        ran = self.dat("config", "--conf", "access.allow-guest-user=false").ended(2)
        self.assertEqual(ran.out, "")
        self.assert_says(ran, ["allow-guest-user", "--conf"])

    def test_unknown_inherit(self):
        ran = self.dat("config", "--inherit", "everything").ended(2)
        self.assert_says(ran, ["everything", "prolog"])


class Inherit(SandboxTest):
    up_options = (
        "--conf",
        "policy.jobspec.defaults.system.duration='1h'",
    )

    def test_policy_is_inherited_on_request(self):
        plain = tomllib.loads(self.dat("config").succeeded().out)
        self.assertNotIn("policy", plain)
        out = self.dat("config", "--inherit", "policy").succeeded().out
        self.assertEqual(
            tomllib.loads(out)["policy"]["jobspec"]["defaults"]["system"]["duration"], "1h"
        )
        self.assertIn("parent instance", out)
