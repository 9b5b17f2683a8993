#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""grant.py [RANKS [ROUNDS]]: `flux-dat grant` of one user, until the list is in force on
all ranks, on a real Flux of RANKS brokers (default 64), against

recipe   by hand: flux proxy ID flux exec -r all, of a script that does setfacl -m u:UID:x
         on its rank's door

and its time with a list of 1,000 users, and by the number of ranks. What is granted is
revoked again in between, which is not measured. As root the doors are on a tmpfs, since
not every disk takes so long an access control list.
"""

import contextlib
import subprocess
import sys

import measure

sys.path.insert(0, str(measure.TOP))
from tests.lib import fluxwire  # noqa: E402
from tests.lib.sandbox import acting_as  # noqa: E402

GUEST = "games"
MANY = list(range(20000, 21000))  # uids, of no account
FEWER = (2, 8, 32)  # ranks


@contextlib.contextmanager
def door_dir(place):
    doors = place.make("doors")
    if measure.os.geteuid() != 0:
        yield doors
        return
    account = measure.pwd.getpwnam(measure.USER)
    options = f"mode=755,uid={account.pw_uid},gid={account.pw_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(doors)], check=True)
    try:
        yield doors
    finally:
        subprocess.run(["umount", "-l", str(doors)], check=True)


class Dat:
    def __init__(self, place, doors, nodes):
        self.place = place
        self.jobid = place.run(
            "flux-dat", "start", f"-N{nodes}", "--door-dir", str(doors)
        )
        with acting_as(measure.USER):
            self.flux = fluxwire.Flux(place.env["FLUX_URI"])
            uid = measure.os.geteuid()
        self.service = f"{uid}-dat-f{self.jobid.removeprefix('ƒ')}"
        # Each rank's socket is in its door.
        self.by_hand = place.bin / "by-hand"
        self.by_hand.write_text(
            "#!/bin/sh\ndoor=${FLUX_URI#local://}\n"
            f'exec setfacl -m u:{measure.pwd.getpwnam(GUEST).pw_uid}:x "${{door%/local}}"\n'
        )
        self.by_hand.chmod(0o755)

    def change(self, what, users):
        """Without the command, which takes accounts only."""
        answer = self.flux.rpc(f"{self.service}.guests", {"version": 1, what: {"users": users}})
        if not answer["everywhere"]:
            raise SystemExit(f"not in force everywhere: {answer['ranks']}")

    def command(self, name):
        self.place.run("flux-dat", name, "--quiet", "--dat", self.jobid, GUEST)

    def grant(self):
        seconds = measure.timed(lambda: self.command("grant"))
        self.command("revoke")
        return seconds

    def grant_among_many(self):
        self.change("grant", MANY)
        seconds = self.grant()
        self.change("revoke", MANY)
        return seconds

    def grant_many(self):
        seconds = measure.timed(lambda: self.change("grant", MANY))
        self.change("revoke", MANY)
        return seconds

    def recipe(self):
        return measure.timed(
            lambda: self.place.run(
                "flux", "proxy", self.jobid, "flux", "exec", "-r", "all", str(self.by_hand)
            )
        )

    def stop(self):
        self.flux.close()
        self.place.run("flux-dat", "stop", "--now", "--quiet", "--dat", self.jobid)


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    by_ranks = {}
    with measure.flux_instance(ranks) as place, door_dir(place) as doors:
        for nodes in [size for size in FEWER if size < ranks]:
            dat = Dat(place, doors, nodes)
            by_ranks.update(measure.rounds({f"{nodes} ranks": dat.grant}, count))
            dat.stop()
        dat = Dat(place, doors, ranks)
        measured = measure.rounds(
            {
                "flux-dat grant": dat.grant,
                "recipe": dat.recipe,
                "of one more than 1,000": dat.grant_among_many,
                "of 1,000 (the request)": dat.grant_many,
            },
            count,
        )
        dat.stop()
    by_ranks[f"{ranks} ranks"] = measured["flux-dat grant"]
    measure.table(f"grant on {ranks} ranks, on Flux", measured)
    measure.ratio(measured, "flux-dat grant", "recipe", 0.5)
    measure.ratio(measured, "of one more than 1,000", "flux-dat grant", 2.0)
    measure.table("flux-dat grant by the number of ranks", by_ranks)


if __name__ == "__main__":
    main()
