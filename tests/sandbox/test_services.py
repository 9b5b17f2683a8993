# SPDX-License-Identifier: LGPL-3.0-or-later
"""What the sandbox's services answer on the wire, as Flux 0.88 was seen to."""

import errno
import json

from tests.lib import fluxwire
from tests.lib.sandbox import GUEST, OWNER_ID, SandboxTest, needs_root

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


class JournalTest(SandboxTest):
    def journal(self, uri=None):
        """The stream, and what has been: restart, resource-define, and what came then."""
        stream = self.flux(uri=uri).stream("resource.journal", {}, nodeid=0)
        answers = []
        while not answers or answers[-1]["events"]:
            answers.append(stream.next())
        self.assertEqual(answers.pop(), {"events": []})
        return stream, answers

    def lose(self, rank, uri=None):
        self.flux(uri=uri).rpc("overlay.disconnect-subtree", {"rank": rank}, nodeid=0)

    @staticmethod
    def changes(answer):
        return [(event["name"], event["context"]["idset"]) for event in answer["events"]]


class ResourceJournal(JournalTest):
    """Answers of Flux 0.88 to resource.journal, on four brokers and on the two of a job."""

    def test_what_was_before_and_what_happens(self):
        stream, [restart, define, since] = self.journal()
        [event] = restart["events"]
        self.assertEqual(set(event), {"timestamp", "name", "context"})
        self.assertEqual(event["name"], "restart")
        self.assertEqual(
            event["context"], {"ranks": "0-3", "online": "", "nodelist": "sandbox[0-3]"}
        )
        [event] = define["events"]
        self.assertEqual(event["name"], "resource-define")
        self.assertEqual(event["context"], {"method": "configuration"})
        self.assertEqual(
            define["R"], self.flux().rpc("resource.sched-status", {}, nodeid=0)["all"]
        )
        ranks = [("online", str(rank)) for rank in range(4)]
        self.assertEqual(sorted(self.changes(since)), ranks)
        self.lose(2)
        self.assertEqual(self.changes(stream.next()), [("offline", "2")])
        # For who comes later that is in one answer with what was before it.
        _, [*_, since] = self.journal()
        self.assertEqual(self.changes(since)[-1], ("offline", "2"))
        self.assertEqual(sorted(self.changes(since)[:-1]), ranks)
        self.lose(3)
        self.assertEqual(self.changes(stream.next()), [("offline", "3")])

    def test_of_a_job(self):
        self.start("-N2")
        [dat] = self.dats()
        uri = dat["uri"].replace("ssh://sandbox0", "local://")
        stream, [restart, define, since] = self.journal(uri)
        self.assertEqual(restart["events"][0]["context"]["ranks"], "0-1")
        self.assertEqual(define["events"][0]["context"], {"method": "job-info"})
        self.assertEqual(sorted(self.changes(since)), [("online", "0"), ("online", "1")])
        self.lose(1, uri)
        self.assertEqual(self.changes(stream.next()), [("offline", "1")])

    def refused(self, nodeid=0, user=None, stream=True):
        flux = self.flux(user=user) if user else self.flux()
        with self.assertRaises(fluxwire.FluxError) as refused:
            if stream:
                flux.stream("resource.journal", {}, nodeid=nodeid).next()
            else:
                flux.rpc("resource.journal", {}, nodeid=nodeid)
        return refused.exception.errno, refused.exception.text

    def test_only_as_a_stream(self):
        self.assertEqual(
            self.refused(stream=False), (errno.EPROTO, "journal requires streaming RPC flag")
        )

    def test_only_on_rank_0(self):
        unknown = (errno.ENOSYS, "Unknown service method 'resource.journal'")
        self.assertEqual(self.refused(nodeid=1), unknown)
        at_rank_1 = self.flux(uri=self.env["FLUX_URI"].replace("local-0", "local-1"))
        with self.assertRaises(fluxwire.FluxError) as refused:
            at_rank_1.stream("resource.journal", {}).next()
        self.assertEqual((refused.exception.errno, refused.exception.text), unknown)

    @needs_root
    def test_only_for_the_owner(self):
        self.assertEqual(
            self.refused(user=GUEST), (errno.EPERM, "Request requires owner credentials")
        )


class ResourceJournalOfAChain(JournalTest):
    up_options = ("--conf", "tbon.topo=kary:1")

    def test_a_rank_is_lost_with_those_below_it(self):
        stream, _ = self.journal()
        self.lose(2)
        self.assertEqual(self.changes(stream.next()), [("offline", "2-3")])
