# SPDX-License-Identifier: LGPL-3.0-or-later
"""What others of the same instance can put on their jobs and into their requests, and
what it must not do to those who use flux-dat: SECURITY.md, "Against others of the same
instance"."""

import json
import sys

from tests.lib import fluxwire
from tests.lib.sandbox import OWNER_ID, SandboxTest
from tests.lib.terminal import Terminal


class Uri(SandboxTest):
    def test_a_memo_is_no_command(self):
        """The memo `uri` of a job is whatever its owner put there, and ssh hands it to a
        shell of another host."""
        touched, ssh = self.place / "touched", self.place / "ssh"
        ssh.write_text(f'#!/bin/sh\nshift\nsh -c "$*"\necho "$@" >> {touched}\n')
        ssh.chmod(0o755)
        jobid = self.start()
        self.place.chmod(0o777)
        for uri in (
            f"ssh://node7/x;touch${{IFS}}{touched};exec${{IFS}}cat",
            f"ssh://node7/x; touch {touched}",
            f"ssh://node7/x`touch {touched}`",
            f"ssh://`touch {touched}`/x",
            f"ssh://node7/x\ntouch {touched}",
            f"ssh://-oProxyCommand=touch {touched}/x",
            "ssh://me@-oProxyCommand=x/x",
        ):
            with self.subTest(uri=uri):
                self.flux().rpc(
                    "job-manager.memo",
                    {"id": fluxwire.parse_jobid(jobid), "memo": {"uri": uri}},
                )
                ran = self.dat(
                    "run", "true",
                    env={"FLUX_SSH": str(ssh), "FLUX_URI_RESOLVE_LOCAL": None},
                ).ended(1)  # fmt: skip
                self.assert_says(ran, [jobid, 'the memo "uri"', "bad Flux URI"])
                self.assertFalse(touched.exists(), ran)


sys.setrecursionlimit(10_000)  # for json.dumps()


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


class Memos(SandboxTest):
    """Jobs of others are listed with their memos, and all commands list all jobs."""

    def odd_job(self, memo):
        spec = fluxwire.jobspec(["true"], cwd="/", env=self.env)
        client = self.flux()
        jobid = client.submit(spec, urgency=0, userid=OWNER_ID)
        client.rpc("job-manager.memo", {"id": jobid, "memo": memo})
        return fluxwire.f58(jobid)

    def assert_commands_work(self, jobid):
        self.assertEqual([dat["id"] for dat in self.dats()], [jobid])
        for command in (
            ("grant", "games"), ("revoke", "games"), ("status", "--dat", "dat"),
            ("status", "--dat", jobid), ("extend", "1m"), ("report",), ("run", "true"),
            ("stop", "--now"),
        ):  # fmt: skip
            with self.subTest(command=command):
                self.dat(*command).succeeded()

    def test_nested_as_deep_as_it_goes(self):
        jobid = self.start("--name", "dat", "-t", "10m")
        # The request itself is two levels, and its answer more.
        self.odd_job({"x": nested(2046)})
        self.assert_commands_work(jobid)

    def test_deeper_than_flux_takes(self):
        self.start("--name", "dat")
        with self.assertRaises(fluxwire.FluxError):
            self.odd_job({"x": nested(2047)})
        self.dat("status", "--dat", "dat").succeeded()

    def test_json_gives_a_terminal_no_controls(self):
        jobid = self.start("--name", "dat")
        uri = "ssh://a/\x9b2J\u202e\x7f\u2028ä"
        self.flux().rpc(
            "job-manager.memo", {"id": fluxwire.parse_jobid(jobid), "memo": {"uri": uri}}
        )
        ran = self.dat("status", "--json").succeeded()
        self.assertEqual(ran.json()["dats"][0]["uri"], uri)
        self.assertIn("\\u009b2J\\u202e\\u007f\\u2028ä", ran.out)


class Jobspecs(SandboxTest):
    def test_a_nested_jobspec_does_not_hide_the_jobs_after_it(self):
        """The journal that the supervisor follows has each job's whole jobspec."""
        self.start("--name", "dat", "--user", "games")
        dat = self.flux(uri=self.dats()[0]["uri"])
        spec = fluxwire.jobspec(["true"], cwd="/", env=self.env)
        spec["attributes"]["user"] = {"x": nested(2040)}
        dat.submit(spec, urgency=0, userid=OWNER_ID)
        self.dat("run", "true").succeeded()


class Requests(SandboxTest):
    def test_odd_requests_do_not_cut_a_supervisor_off(self):
        """A client may fill in the route stack of its own request; the broker adds to it."""
        jobid = self.start("--name", "dat")
        self.dat("grant", "games").succeeded()
        number = fluxwire.parse_jobid(jobid)
        service = f"{OWNER_ID}-dat-f{fluxwire.f58(number)[1:]}"

        def events():
            log = self.flux().rpc(
                "job-info.lookup", {"id": number, "keys": ["eventlog"], "flags": 0}
            )["eventlog"]
            return [json.loads(line)["name"] for line in log.splitlines()]

        before = events()
        client = self.flux()
        for _ in range(5):
            client.send_message(
                fluxwire.Message(
                    topic=f"{service}.status", payload=b"{}\0", routes=["a"] * 257,
                    aux1=0, aux2=1,
                )  # fmt: skip
            )
        self.assertEqual(client.rpc("attr.get", {"name": "rank"})["value"], "0")
        self.dat("status", "--dat", "dat").succeeded()
        self.assertEqual(events(), before, "it did not have to announce itself again")
