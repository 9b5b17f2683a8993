# SPDX-License-Identifier: LGPL-3.0-or-later
"""bash completion of flux-dat and of `flux dat`."""

import os
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = TOP / "completions/flux-dat"


def complete(*words, function="_flux_dat", before="", env=None):
    """What bash offers for the last word, which is being typed."""
    quoted = " ".join("'" + word + "'" for word in words)
    source = (
        f"{before}\nsource {SCRIPT}\n"
        f"COMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        f"{function} \"${{COMP_WORDS[0]}}\"\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "-u", "-c", source], capture_output=True, text=True, env=env, check=False
    )
    assert not ran.stderr, ran.stderr
    return ran.stdout.split()


class Completion(unittest.TestCase):
    def test_commands(self):
        self.assertEqual(complete("flux-dat", "sta"), ["start", "status"])
        self.assertEqual(complete("flux-dat", "sandbox", ""), ["up", "down", "env"])

    def test_options_of_the_command(self):
        self.assertEqual(complete("flux-dat", "start", "--us"), ["--user"])
        self.assertEqual(complete("flux-dat", "stop", "--n"), ["--now"])
        self.assertEqual(complete("flux-dat", "sandbox", "up", "--si"), ["--size"])
        self.assertEqual(complete("flux-dat", "--ver"), ["--version"])

    def test_users_also_in_a_list_and_behind_an_equals_sign(self):
        self.assertIn("root", complete("flux-dat", "start", "--user", "roo"))
        self.assertIn("daemon,root", complete("flux-dat", "start", "--user", "daemon,roo"))
        self.assertIn("root", complete("flux-dat", "start", "--user", "=", "roo"))
        self.assertIn("root", complete("flux-dat", "start", "--group", "=", "roo"))

    def test_inherit(self):
        self.assertEqual(
            complete("flux-dat", "config", "--inherit", "prolog,e"), ["prolog,epilog"]
        )

    def test_names_of_dats(self):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / "flux-dat"
            program.write_text(
                "#!/bin/sh\n"
                'test "$*" = "status --quiet" || exit 1\n'
                'echo "NAME ID"; echo "demo fA"; echo "other fB"\n'
            )
            program.chmod(0o755)
            env = dict(os.environ, PATH=f"{directory}:{os.environ['PATH']}")
            env["FLUX_URI"] = "local:///nowhere"
            self.assertEqual(
                complete("flux-dat", "stop", "--dat", "", env=env), ["demo", "other"]
            )

    def test_flux_dat_with_a_blank(self):
        self.assertEqual(
            complete("flux", "dat", "sta", function="_flux_dat_as_flux"), ["start", "status"]
        )

    def test_options_of_a_command_behind_flux_dat(self):
        self.assertEqual(
            complete("flux", "dat", "start", "--inh", function="_flux_dat_as_flux"),
            ["--inherit"],
        )

    def test_other_commands_of_flux_are_completed_as_before(self):
        before = "_their_flux() { COMPREPLY=(theirs); }; complete -F _their_flux flux"
        for words in (("flux", "jo"), ("flux", "da")):
            self.assertEqual(
                complete(*words, function="_flux_dat_as_flux", before=before), ["theirs"]
            )


if __name__ == "__main__":
    unittest.main()
