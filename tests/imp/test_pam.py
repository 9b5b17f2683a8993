# SPDX-License-Identifier: LGPL-3.0-or-later
"""exec.pam-support: a session of the PAM service "flux" around the job shell.

/etc/pam.d is a directory of the test's own, in a mount namespace of the test's own.
"""

import glob
import subprocess
import unittest

from tests.lib.imp import GUEST, OWNER, PATIENCE, ImpTest, gid, uid

PAM_EXEC = glob.glob("/lib/*/security/pam_exec.so")
NAMESPACES = subprocess.run(
    ["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False
).returncode


@unittest.skipIf(NAMESPACES, "there are no mount namespaces for this user here")
@unittest.skipUnless(PAM_EXEC, "there is no pam_exec.so here")
class Pam(ImpTest):
    def setUp(self):
        super().setUp()
        self.configure("pam-support = true")
        self.pam = self.place / "pam.d"
        self.pam.mkdir(exist_ok=True)
        (self.pam / "flux").unlink(missing_ok=True)
        (self.pam / "other").write_text(
            "auth required pam_deny.so\nsession required pam_deny.so\n"
        )
        self.log = self.place / "pam.log"
        self.log.write_text("")

    def stack(self, auth="pam_permit.so", session="pam_permit.so"):
        log = self.script("log", f'echo "$PAM_TYPE $PAM_USER $PAM_SERVICE" >>{self.log}')
        (self.pam / "flux").write_text(
            f"auth required {auth}\nsession required pam_exec.so seteuid {log}\n"
            f"session required {session}\n"
        )

    def run_with_pam(self, *command):
        given = self.given()
        script = 'mount --bind "$0" /etc/pam.d && exec setpriv "$@"'
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, self.pam,
             f"--reuid={uid(OWNER)}", f"--regid={gid(OWNER)}", "--clear-groups",
             self.program, "exec", self.shell, *command],
            env=self.environment(FLUX_IMP_EXEC_HELPER=f"cat {given}"), timeout=PATIENCE,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def test_a_session_around_the_shell(self):
        self.stack()
        out = self.accepted(self.run_with_pam("sh", "-c", f"id -u; cat {self.log}"))
        self.assertEqual(out, f"{uid(GUEST)}\nopen_session {GUEST} flux\n")
        self.assertEqual(
            self.log.read_text().splitlines(),
            [f"open_session {GUEST} flux", f"close_session {GUEST} flux"],
        )

    def test_variables_of_a_module(self):
        (self.place / "variables").write_text("FROM_PAM=yes\n")
        self.stack(session=f"pam_env.so readenv=1 envfile={self.place}/variables")
        self.assertEqual(self.accepted(self.run_with_pam("sh", "-c", "echo $FROM_PAM")), "yes\n")

    def test_refused_by_auth(self):
        self.stack(auth="pam_deny.so")
        self.refused(self.run_with_pam("id"), "PAM (exec.pam-support, /etc/pam.d/flux): auth: ")
        self.assertEqual(self.log.read_text(), "")

    def test_refused_by_session(self):
        self.stack(session="pam_deny.so")
        self.refused(self.run_with_pam("id"), "PAM (exec.pam-support, /etc/pam.d/flux): session: ")

    def test_no_stack(self):
        self.refused(self.run_with_pam("id"), "PAM (exec.pam-support, /etc/pam.d/flux): auth: ")
