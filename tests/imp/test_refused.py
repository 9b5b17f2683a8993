# SPDX-License-Identifier: LGPL-3.0-or-later
"""exec of the setuid IMP: every reason to refuse, one at a time.

Each says which rule it is and where it is set; nothing is executed, and nothing of the
IMP is left running (the runner looks).
"""

import base64
import json
import resource
import subprocess

from tests.lib.imp import (
    GUEST,
    OTHER_OWNER,
    OWNER,
    PATIENCE,
    STRANGER,
    ImpTest,
    Munged,
    as_user,
    eventually,
    header,
    kv,
    sign_none,
    uid,
)


class Input(ImpTest):
    def given_to(self, data, *says):
        return self.refused(self.execute("id", data=data), "exec: ", *says)

    def test_none(self):
        self.given_to(b"", "invalid json input", "stdin is empty")
        self.given_to(b" \n", "stdin is empty")

    def test_not_json(self):
        self.given_to(b"not json", "stdin is not JSON at byte")
        self.given_to(b'{"J": "', "stdin is not JSON at byte")
        self.given_to(self.input() + b"garbage", "stdin is not JSON at byte")
        self.given_to(b"\xff\xfe\x00", "stdin is not JSON")

    def test_nested_without_end(self):
        self.given_to(b"[" * 1_000_000, "stdin is not JSON")

    def test_no_object(self):
        for data in (b"[]", b'"J"', b"1", b"null"):
            self.given_to(data, "stdin is not an object")

    def test_J_missing(self):
        self.given_to(b'{"j": "x"}', "stdin has no J")

    def test_J_not_a_string(self):
        for value in (b"1", b"null", b"{}", b'["x"]'):
            self.given_to(b'{"J": ' + value + b"}", "J in stdin is not a string")

    def test_J_with_a_NUL(self):
        self.given_to(b'{"J": "a\\u0000b"}', "J: ")

    def test_too_large(self):
        self.given_to(b'{"J": "' + b"x" * (64 << 20) + b'"}', "stdin has more than 17825792 bytes")


class Signature(ImpTest):
    def with_J(self, J, *says):
        data = json.dumps({"J": J}).encode()
        return self.refused(
            self.execute("id", data=data), "exec: signature validation failed: ", *says
        )

    def with_header(self, head, *says):
        self.with_J(self.munged.sign(GUEST, head=head), *says)

    def test_form(self):
        for J in ("", "a", "a.b", "a.b.c.d", "....."):
            self.with_J(J, "HEADER.PAYLOAD.SIGNATURE")

    def test_base64(self):
        head = base64.b64encode(header("munge", uid(GUEST))).decode()
        self.with_J("###.e30=.x", "the header: base64")
        self.with_J(f"{head}.e30.x", "the payload: base64")

    def test_header(self):
        version = ("version", "i", 1)
        mechanism = ("mechanism", "s", "munge")
        userid = ("userid", "i", uid(GUEST))
        self.with_header(kv(mechanism, userid), "the header", '"version"')
        self.with_header(kv(version, userid), "the header", '"mechanism"')
        self.with_header(kv(version, mechanism), "the header", '"userid"')
        self.with_header(kv(version, mechanism, userid, userid), "the header", '"userid"')
        self.with_header(kv(version, mechanism, ("userid", "s", "5")), "the header", '"userid"')
        self.with_header(b"garbage", "the header")

    def test_version(self):
        self.with_header(header("munge", uid(GUEST), version=2), "version 2 is not known here")

    def test_mechanism(self):
        self.with_header(header("curve", uid(GUEST)), 'unknown mechanism "curve"')
        self.with_J(sign_none(uid(OWNER)), "mechanism none", "allowed-types", "a.toml")

    def test_none_is_not_for_others(self):
        self.configure(sign='allowed-types = ["munge", "none"]')
        self.with_J(sign_none(uid(GUEST)), "mechanism none is only good for")

    def test_somebody_elses_name(self):
        self.with_header(
            header("munge", uid(STRANGER)),
            f"claims userid {uid(STRANGER)}, but {uid(GUEST)} signed",
        )

    def test_another_payload(self):
        head, _, signature = self.munged.sign(GUEST).split(".")
        self.with_J(f"{head}.e30K.{signature}", "not one of this header and payload")

    def test_no_credential(self):
        head, payload, _ = self.munged.sign(GUEST).split(".")
        self.with_J(f"{head}.{payload}.MUNGE:AwQFAAA:", "the signature is not valid")

    def test_age(self):
        self.configure(sign="max-ttl = 1")
        data = self.input()

        def old():
            done = self.execute("true", data=data)
            return done if done.returncode else None

        done = eventually(old, "a signature that is too old")
        self.refused(done, "seconds ago, and good for 1 (max-ttl)", "a.toml")

    def test_no_sign_table(self):
        text = (self.conf / "a.toml").read_text()
        (self.conf / "a.toml").write_text(text[: text.index("[sign]")])
        self.refused(self.execute("id"), "there is no [sign] in", str(self.conf))

    def test_munged_is_not_there(self):
        socket = self.place / "no-munge"
        self.configure(sign=f'munge.socket-path = "{socket}"')
        self.refused(self.execute("id"), "is munged running?", str(socket))

    def test_another_munged(self):
        other = Munged(self.place / "other-munge")
        self.addCleanup(other.stop)
        self.configure(sign=f'munge.socket-path = "{other.socket}"')
        self.refused(self.execute("id"), "the signature is not valid")


class Target(ImpTest):
    def test_root(self):
        self.refused(self.execute("id", data=self.input("root")), "switching to user root")

    def test_a_user_whom_this_host_does_not_know(self):
        nobody = 54321
        J = self.munged.sign(GUEST, head=header("munge", nobody))
        # munge(1) signs for whoever runs it; there need be no account.
        head, payload, _ = J.split(".")
        import hashlib

        digest = b"\1" + hashlib.sha256(f"{head}.{payload}".encode()).digest()
        signature = subprocess.run(
            ["munge", f"--socket={self.munged.socket}"],
            input=digest, stdout=subprocess.PIPE, check=True, user=nobody, group=nobody,
            extra_groups=[],
        ).stdout.decode().strip()  # fmt: skip
        data = json.dumps({"J": f"{head}.{payload}.{signature}"}).encode()
        host = subprocess.check_output(["hostname"]).decode().strip()
        self.refused(
            self.execute("id", data=data), f"uid {nobody} is not known on {host}"
        )


class Caller(ImpTest):
    def test_a_user_who_is_not_allowed(self):
        done = self.execute("id", user=OTHER_OWNER)
        self.refused(
            done, f"exec: user {OTHER_OWNER} not in allowed-users", "exec.allowed-users", "a.toml"
        )

    def test_before_anything_is_read(self):
        """A caller who is not allowed does not even get the reader."""
        marker = self.place / "marker"
        helper = self.script("helper", f"touch {marker}")
        self.place.chmod(0o777)
        self.addCleanup(self.place.chmod, 0o755)
        self.execute("id", user=OTHER_OWNER, env={"FLUX_IMP_EXEC_HELPER": str(helper)})
        self.assertFalse(marker.exists())


class Shell(ImpTest):
    def test_not_allowed(self):
        for shell in ("/bin/bash", "sh", "./shell", f"{self.place}/../{self.shell}", ""):
            done = self.imp("exec", shell, "x", data=self.input())
            self.refused(done, "shell not in allowed-shells", "exec.allowed-shells", "a.toml")

    def test_not_absolute_though_allowed(self):
        self.configure('allowed-shells = ["sh"]')
        self.refused(self.imp("exec", "sh", "x", data=self.input()), "shell not in allowed-shells")

    def test_missing(self):
        self.configure('allowed-shells = ["/nonexistent/shell"]')
        done = self.imp("exec", "/nonexistent/shell", "x", data=self.input())
        self.refused(done, "/nonexistent/shell: No such file", status=127)

    def test_not_executable(self):
        self.configure('allowed-shells = ["/etc/passwd"]')
        done = self.imp("exec", "/etc/passwd", "x", data=self.input())
        self.refused(done, "/etc/passwd: Permission denied", status=126)

    def test_not_executable_by_the_guest(self):
        self.shell.chmod(0o744)
        self.refused(self.execute("id"), "Permission denied", status=126)


class Readers(ImpTest):
    def helper(self, text, *says, **env):
        helper = self.script("helper", text)
        env["FLUX_IMP_EXEC_HELPER"] = str(helper)
        return self.refused(self.execute("id", env=env), *says)

    def test_helper_that_is_not_named(self):
        for value in ("", "  "):
            done = self.execute("id", env={"FLUX_IMP_EXEC_HELPER": value})
            self.refused(done, "FLUX_IMP_EXEC_HELPER is empty")
        done = self.execute("id", env={"FLUX_DAT_IMP_READER": "helper"})
        self.refused(done, "needs FLUX_IMP_EXEC_HELPER, which is not set")

    def test_helper_that_is_not_there(self):
        done = self.execute("id", env={"FLUX_IMP_EXEC_HELPER": "/nonexistent/helper"})
        self.refused(done, "/nonexistent/helper", "was not found")

    def test_helper_that_fails(self):
        self.helper(f"cat {self.given()}; exit 3", "helper", "failed with exit status 3")
        self.helper(f"cat {self.given()}; kill -9 $$", "helper", "was killed by signal 9")

    def test_helper_that_prints_half(self):
        self.helper(f"head -c 100 {self.given()}", "is not JSON at byte")

    def test_helper_that_prints_nothing(self):
        self.helper("exit 0", "the output of the helper", "is empty")

    def test_helper_without_end(self):
        self.helper("exec cat /dev/zero", "has more than 17825792 bytes")

    def test_helper_that_hangs(self):
        limit = {"FLUX_DAT_IMP_TEST_READER_SECONDS": "1"}
        self.helper("exec sleep 1000", "did not come to an end within 1 seconds", **limit)

    def test_reader_that_is_not_allowed(self):
        done = self.execute("id", env={"FLUX_DAT_IMP_READER": "kv"})
        self.refused(done, 'the reader "kv" is not allowed', "exec.readers", "a.toml")
        self.configure('readers = ["helper"]')
        self.refused(self.execute("id"), 'the reader "json" is not allowed')

    def test_reader_that_there_is_not(self):
        self.configure('readers = ["new"]')
        done = self.execute("id", env={"FLUX_DAT_IMP_READER": "new"})
        self.refused(done, 'no reader is called "new"')


class CompromisedReader(ImpTest):
    """What a child could write that somebody has taken over."""

    def reader_says(self, text, *says, mode=0o755, **env):
        reader = self.script("reader", text, mode)
        env["FLUX_DAT_IMP_TEST_READER"] = str(reader)
        return self.refused(self.execute("id", env=env), *says)

    def reader_writes(self, data, *says):
        path = self.place / "kv"
        path.write_bytes(data)
        self.reader_says(f"cat {path} >&3", *says)

    def test_no_kv(self):
        self.reader_writes(b"garbage", "the reader's answer: kv")
        self.reader_writes(b"J\0xfoo\0", "the reader's answer: kv")
        self.reader_writes(b"J\0sfoo", "the reader's answer: kv")
        self.reader_writes(kv(("J", "s", "a"), ("J", "s", "b")), "the reader's answer: kv")

    def test_nothing(self):
        self.reader_says("exit 0", "the input has no J")
        self.reader_says("exit 4", "the reader ended with status 4 and gave no answer")
        self.reader_says("kill -11 $$", "the reader was killed by signal 11")

    def test_J_of_another_type(self):
        self.reader_writes(kv(("J", "i", 5)), "the input has no J")

    def test_J_that_nobody_signed(self):
        self.reader_writes(kv(("J", "s", "a.b.c")), "signature validation failed")

    def test_more_than_there_can_be(self):
        self.reader_says("exec cat /dev/zero >&3", "the reader wrote more than 20971520 bytes")

    def test_hanging(self):
        limit = {"FLUX_DAT_IMP_TEST_READER_SECONDS": "1"}
        self.reader_says("exec sleep 1000", "did not come to an end within 1 seconds", **limit)
        text = "exec 3>&-; exec sleep 1000"
        self.reader_says(text, "did not come to an end within 1 seconds", **limit)

    def test_an_error_that_is_no_line(self):
        data = kv(("error", "s", "first\nflux-dat-imp: second\x1b[31m"))
        last = None
        path = self.place / "kv"
        path.write_bytes(data)
        last = self.reader_says(f"cat {path} >&3")
        self.assertEqual(last, "flux-dat-imp: Fatal: exec: first?flux-dat-imp: second?[31m")

    def test_containment_that_is_not_known(self):
        J = self.munged.sign(GUEST)
        self.reader_writes(kv(("J", "s", J), ("R_local.nonsense", "s", "x")), "R_local.nonsense")
        self.reader_writes(kv(("J", "s", J), ("R_local.cpus", "s", "-1")), "R_local.cpus")

    def test_a_reader_that_others_can_write(self):
        self.reader_says("exit 0", "the reader ", "can be written by others", mode=0o777)

    def test_a_reader_that_is_not_there(self):
        done = self.execute("id", env={"FLUX_DAT_IMP_TEST_READER": "/nonexistent/reader"})
        self.refused(done, "the reader /nonexistent: No such file")


class Limits(ImpTest):
    def limited(self, *limits, **env):
        def set_limits():
            for which, value in limits:
                resource.setrlimit(which, (value, value))

        given = self.given()
        with open(given, "rb") as data:
            return subprocess.run(
                [self.program, "exec", self.shell, "id", "-u"],
                stdin=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self.environment(**env), timeout=PATIENCE,
                preexec_fn=set_limits, **as_user(OWNER),
            )  # fmt: skip

    def test_no_files(self):
        done = self.limited((resource.RLIMIT_NOFILE, 0))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, b"")
        done = self.limited((resource.RLIMIT_NOFILE, 4))
        self.refused(done, "Too many open files")

    def test_no_processes(self):
        """The process table is full for the owner: root's half is not stopped by it."""
        none = (resource.RLIMIT_NPROC, 0)
        probe = subprocess.run(
            ["sh", "-c", "true & wait"], stderr=subprocess.DEVNULL, **as_user(OWNER),
            preexec_fn=lambda: resource.setrlimit(none[0], (0, 0)),
        )  # fmt: skip
        if probe.returncode == 0:
            self.skipTest("RLIMIT_NPROC is not enforced here")
        done = self.limited(none, FLUX_IMP_EXEC_HELPER=f"cat {self.given()}")
        self.refused(done, "helper", "cannot be started", "Resource temporarily unavailable")

    def test_less_and_less_memory(self):
        """Enough or not: either the job runs, or nothing does."""
        for size in range(40, 0, -4):
            done = self.limited((resource.RLIMIT_AS, size << 20))
            good = (0, f"{uid(GUEST)}\n".encode())
            if (done.returncode, done.stdout) != good:
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, b"")

    def test_harmless_ones(self):
        done = self.limited(
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_SIGPENDING, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
        )
        self.assertEqual(self.accepted(done), f"{uid(GUEST)}\n")
