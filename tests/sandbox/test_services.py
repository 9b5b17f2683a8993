# SPDX-License-Identifier: LGPL-3.0-or-later
"""What the sandbox's services answer on the wire, as Flux 0.88 was seen to."""

import errno
import json

from tests.lib import fluxwire
from tests.lib.sandbox import OWNER_ID, SandboxTest

WAITCREATE = 1


class EventlogWatch(SandboxTest):
    size = 1

    def submit(self, *command):
        spec = fluxwire.jobspec(command, nodes=1, exclusive=True, cwd="/", env=self.env)
        return self.flux().submit(spec, userid=OWNER_ID)

    def watch(self, jobid, path, flags=0):
        """A stream that the sandbox has begun, on a connection of its own."""
        client = self.flux()
        stream = client.stream(
            "job-info.eventlog-watch", {"id": jobid, "path": path, "flags": flags}
        )
        client.rpc("attr.get", {"name": "rank"})  # what comes now has been taken up before
        return stream

    @staticmethod
    def names(stream):
        return [json.loads(answer["event"])["name"] for answer in stream]

    def assert_missing(self, stream):
        with self.assertRaises(fluxwire.FluxError) as missing:
            list(stream)
        self.assertEqual(missing.exception.errno, errno.ENOENT)

    def test_a_pending_job(self):
        blocker = self.submit("sleep", "600")
        self.flux().wait_event(blocker, "start")
        jobid = self.submit("echo", "hello")
        shells = self.watch(jobid, "guest.exec.eventlog")
        impatient = self.watch(jobid, "guest.output")
        patient = self.watch(jobid, "guest.output", WAITCREATE)
        self.assert_missing(self.watch(jobid, "nosuch"))
        self.cancel(fluxwire.f58(blocker))
        names = self.names(shells)
        self.assertEqual(names[:3], ["init", "starting", "shell.init"])
        self.assertEqual(names[-1], "done")
        self.assert_missing(impatient)  # the job had started, its shell not
        self.assertEqual(self.names(patient), ["header"] + ["data"] * 3)
        self.assertEqual(self.names(self.watch(jobid, "guest.output"))[0], "header")

    def test_a_job_that_ends_while_it_is_pending(self):
        blocker = self.submit("sleep", "600")
        jobid = self.submit("true")
        watches = [
            self.watch(jobid, path, flags)
            for path in ("guest.exec.eventlog", "guest.output")
            for flags in (0, WAITCREATE)
        ]
        self.cancel(fluxwire.f58(jobid))
        for watch in watches:
            self.assertEqual(self.names(watch), [])
        self.assertEqual(self.names(self.watch(jobid, "guest.output")), [])
        self.cancel(fluxwire.f58(blocker))
        self.flux().wait_event(blocker, "clean")
