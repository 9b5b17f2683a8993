# SPDX-License-Identifier: LGPL-3.0-or-later
"""The guest list of a DAT, as the setuid IMP asks it: flux-config-dat(5)."""

import grp
import os

from tests.lib.imp import GUEST, OWNER, STRANGER, ImpTest, gid, mode_of, uid


class Grants(ImpTest):
    def setUp(self):
        super().setUp()
        self.grants = self.place / "grants"
        self.write(f"user {uid(GUEST)} {GUEST}")

    def write(self, *guests, opened="no", owner=OWNER, end="end\n"):
        lines = ["flux-dat-grants 1", f"owner {uid(owner)}", "job fAbC", "generation 1"]
        lines += [f"open {opened}", *guests]
        self.grants.write_text("\n".join(lines) + "\n" + end)
        os.chown(self.grants, uid(OWNER), gid(OWNER))
        self.grants.chmod(0o600)

    def run_as(self, user, path=None, **more):
        env = {"FLUX_DAT_GRANTS": str(path or self.grants), **more}
        return self.execute("id", "-u", data=self.input(user), env=env)

    def enters(self, user):
        self.assertEqual(self.accepted(self.run_as(user)), f"{uid(user)}\n")

    def stays_out(self, user, *says):
        says = says or (f"user {user}({uid(user)}) is not on the guest list",)
        self.refused(self.run_as(user), "guest list", "FLUX_DAT_GRANTS", *says)

    def test_guests_and_strangers(self):
        self.enters(GUEST)
        self.enters(OWNER)
        self.stays_out(STRANGER)

    def test_open(self):
        self.write(opened="yes")
        self.enters(STRANGER)

    def test_nobody(self):
        self.write()
        self.stays_out(GUEST)

    def test_primary_group(self):
        self.write(f"group {gid(GUEST)} -")
        self.enters(GUEST)
        self.stays_out(STRANGER)

    def test_another_group(self):
        member = next(
            ((group.gr_gid, name) for group in grp.getgrall() for name in group.gr_mem
             if group.gr_gid and uid(name)), None,
        )  # fmt: skip
        if not member:
            self.skipTest("no user here is a member of another group than the own")
        self.write(f"group {member[0]} -")
        self.enters(member[1])

    def test_no_list(self):
        self.accepted(self.execute("id"))
        self.configure("require-grant = true")
        self.refused(self.execute("id"), "FLUX_DAT_GRANTS is not set", "exec.require-grant", "a.toml")
        self.enters(GUEST)

    def test_a_list_that_is_not_there(self):
        self.grants.unlink()
        self.stays_out(GUEST, "No such file")

    def test_a_path_that_is_not_absolute(self):
        self.refused(self.run_as(GUEST, "grants"), "is not an absolute path")

    def test_a_symbolic_link(self):
        link = self.place / "link"
        link.symlink_to(self.grants)
        self.addCleanup(link.unlink)
        self.refused(self.run_as(GUEST, link), "is a symbolic link")

    def test_what_is_no_file(self):
        fifo = self.place / "fifo"
        os.mkfifo(fifo)
        os.chown(fifo, uid(OWNER), -1)
        self.addCleanup(fifo.unlink)
        self.refused(self.run_as(GUEST, fifo), "is not a regular file")

    def test_somebody_elses_file(self):
        with mode_of(self.grants, 0o644, GUEST):
            self.stays_out(GUEST, f"belongs to uid {uid(GUEST)}")

    def test_a_file_that_only_root_may_read(self):
        """The IMP looks with the owner's rights, so it tells nothing of other files."""
        with mode_of(self.grants, 0o600, "root"):
            self.stays_out(GUEST, "Permission denied")

    def test_a_file_that_others_can_write(self):
        for mode in (0o620, 0o602):
            with mode_of(self.grants, mode):
                self.stays_out(GUEST, "can be written by others")

    def test_somebody_elses_list(self):
        self.write(f"user {uid(GUEST)} -", owner=STRANGER)
        self.stays_out(GUEST, f"is the list of uid {uid(STRANGER)}")

    def test_cut_off(self):
        self.write(f"user {uid(GUEST)} {GUEST}", end="")
        self.stays_out(GUEST, "line 7: the file is cut off: no `end`")

    def test_not_a_list(self):
        self.grants.write_text("root:x:0:0\n")
        self.stays_out(GUEST, "line 1: expected `flux-dat-grants 1`")

    def test_too_large(self):
        self.grants.write_text("x" * (1 << 20))
        self.stays_out(GUEST, "larger than 524288 bytes")
